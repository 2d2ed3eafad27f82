"""Clouds as surveyors exchange them: LAS and LAZ, E57.

LAS is read here. LAZ and E57 are read by native code, in a child process and after their headers have been checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from jaxtyping import Float64

from plueckernet.extraction.clouds.chunks import Chunks
from plueckernet.io.native import native_chunks
from plueckernet.io.source import Source
from plueckernet.io.xml_safety import check_xml_bytes

_LAS_HEADER, _LAS_14_HEADER = 227, 375  # bytes of the header up to version 1.3 and from 1.4 on
_VLR, _MIN_RECORD = 54, 20  # bytes of the head of a variable length record, and of the smallest point
_COMPRESSED = 0xC0  # bits of the point format
_MAX_LAZ_CHUNKS_PER_BYTE = 1
_E57_HEADER = struct.Struct("<8sIIQQQQ")
_PAGE, _PAGE_DATA = 1024, 1020  # bytes of a page of E57; a checksum ends it


@dataclass(frozen=True, eq=False)
class LasHeader:
    """What is needed to read the points."""

    start: int  # of the points
    width: int  # bytes of a point
    count: int
    compressed: bool
    scale: Float64[np.ndarray, " 3"]
    offset: Float64[np.ndarray, " 3"]


def recognises_las(source: Source) -> bool:
    """Whether the file starts as LAS and LAZ do."""
    return source.head.startswith(b"LASF")


def read_las(source: Source, size: int) -> Chunks:
    """The points, with the file's scale and offset, ``size`` at a time."""
    header = check_las(source)
    if header.compressed:
        yield from native_chunks(source, "las", "LAS or LAZ", size)
        return
    kinds = np.dtype({"names": ["xyz"], "formats": ["(3,)<i4"], "offsets": [0], "itemsize": header.width})
    with source.path.open("rb") as handle:
        handle.seek(header.start)
        for first in range(0, header.count, size):
            table = np.fromfile(handle, kinds, min(size, header.count - first))
            yield table["xyz"] * header.scale + header.offset


def check_las(source: Source) -> LasHeader:
    """The header, if all that it declares can be in the file; otherwise raises."""
    length = source.path.stat().st_size
    header = _las_header(source, length)
    whole = (length - header.start) // header.width
    if header.compressed:
        _check_laz(source, header, length)
    elif whole < header.count:
        missing = header.count - whole
        raise source.error(f"the file ends after {whole} of {header.count} points; {missing} are missing")
    return header


def _las_header(source: Source, length: int) -> LasHeader:
    data = source.head[:_LAS_14_HEADER]
    if len(data) < _LAS_HEADER or not recognises_las(source):
        raise source.error("not readable as LAS or LAZ: the file ends within the header")
    minor, size, start, records, form, width, count = struct.unpack_from("<B68xHIIBHI", data, 25)
    if minor >= 4 and size >= _LAS_14_HEADER and len(data) >= _LAS_14_HEADER:
        count = struct.unpack_from("<Q", data, 247)[0] or count
    frame = np.frombuffer(data, "<f8", 6, 131)
    problem = _las_problem(size, start, records, width, length)
    if not np.isfinite(frame).all() or not (frame[:3] != 0).all():
        problem = "scale and offset are not numbers, or zero"
    if problem is not None:
        raise source.error(f"not readable as LAS or LAZ: {problem}")
    return LasHeader(start, width, count, bool(form & _COMPRESSED), frame[:3], frame[3:])


def _las_problem(size: int, start: int, records: int, width: int, length: int) -> str | None:
    """What is wrong with the sizes in the header."""
    if size < _LAS_HEADER or not size <= start <= length:
        return f"a header of {size} bytes and points from byte {start} on, in {length} bytes"
    if records * _VLR > start - size:
        return f"{records} variable length records in {start - size} bytes"
    return f"points of {width} bytes" if width < _MIN_RECORD else None


def _check_laz(source: Source, header: LasHeader, length: int) -> None:
    """The chunk table, for which the decompressor allocates memory before it has read it."""
    with source.path.open("rb") as handle:
        handle.seek(header.start)
        table = _int64(handle)
        if table == -1:  # written as a stream: the place is at the end
            handle.seek(length - 8)
            table = _int64(handle)
        if table is None or not header.start + 8 <= table <= length - 8:
            raise source.error("not readable as LAS or LAZ: the chunk table is not in the file")
        handle.seek(table)
        chunks = struct.unpack("<II", handle.read(8))[1]
    if chunks > _MAX_LAZ_CHUNKS_PER_BYTE * length or chunks > header.count + 1:
        raise source.error(f"not readable as LAS or LAZ: {chunks} chunks for {header.count} points in {length} bytes")


def _int64(handle: BinaryIO) -> int | None:
    data = handle.read(8)
    return int(struct.unpack("<q", data)[0]) if len(data) == 8 else None


def recognises_e57(source: Source) -> bool:
    """Whether the file starts as E57 does."""
    return source.head.startswith(b"ASTM-E57")


def read_e57(source: Source, size: int) -> Chunks:
    """The points of all scans in the common frame, ``size`` at a time."""
    check_e57(source)
    yield from native_chunks(source, "e57", "E57", size)


def check_e57(source: Source) -> None:
    """Raise if the XML of the file has a DOCTYPE, or is not in the file."""
    check_xml_bytes(_e57_xml(source), source)


def _e57_xml(source: Source) -> Iterator[bytes]:
    """The XML section without the checksums that end each page."""
    length = source.path.stat().st_size
    if len(source.head) < _E57_HEADER.size or not recognises_e57(source):
        raise source.error("not readable as E57: the file ends within the header")
    _, _, _, physical, start, wanted, page = _E57_HEADER.unpack_from(source.head)
    if page != _PAGE or physical != length or not _E57_HEADER.size <= start <= length or wanted > length:
        raise source.error("not readable as E57: the sizes in the header do not fit the file")
    with source.path.open("rb") as handle:
        handle.seek(start)
        while wanted > 0:
            data = handle.read(_PAGE - handle.tell() % _PAGE)
            inside = data[: max(0, _PAGE_DATA - (handle.tell() - len(data)) % _PAGE)][:wanted]
            if not data:
                raise source.error("not readable as E57: the file ends within its XML")
            yield inside
            wanted -= len(inside)
