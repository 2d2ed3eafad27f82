"""Clouds as PCD, the format of the Point Cloud Library: ASCII, binary and compressed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import BinaryIO

import numpy as np
from jaxtyping import Float64, Shaped

from plueckernet.extraction.clouds.chunks import Chunks
from plueckernet.io.source import Source, is_count, numbers, shown

_MAX_HEADER_LINES = 64  # eleven and comments
_MAX_HEADER_LINE = 1 << 16  # bytes
_MAX_UNCOMPRESSED = 1 << 28  # bytes; compressed points are in memory as a whole
_MAX_LZF_RATIO = 90  # three bytes stand for at most 264
_KINDS = {"F": "f", "I": "i", "U": "u"}


@dataclass(frozen=True)
class PcdHeader:
    """The lines up to `DATA`: fields of a point, number of points, encoding and number of lines."""

    fields: np.dtype[np.void]
    count: int
    data: str
    lines: int


def recognises_pcd(source: Source) -> bool:
    """Whether the file starts as PCD does."""
    start = source.head[:1000].lstrip()
    return start.startswith((b"# .PCD", b"VERSION")) and b"FIELDS" in start


def read_pcd(source: Source, size: int) -> Chunks:
    """The points, ``size`` at a time; compressed points all at once."""
    with source.path.open("rb") as handle:
        header = read_header(handle, source)
        if header.data == "ascii":
            yield from _ascii(handle, header, source, size)
        elif header.data == "binary":
            whole = (source.path.stat().st_size - handle.tell()) // header.fields.itemsize
            if whole < header.count:
                raise source.error(f"the file ends after {whole} of {header.count} points")
            for first in range(0, header.count, size):
                wanted = min(size, header.count - first)
                data = handle.read(wanted * header.fields.itemsize)
                yield _coordinates(read_table(data, header, wanted, source))
        else:
            table = uncompressed(handle.read(), header, source)
            for first in range(0, header.count, size):
                yield _coordinates(table[first : first + size])


def read_header(handle: BinaryIO, source: Source) -> PcdHeader:
    """Parse the lines up to `DATA`."""
    entries: dict[str, list[str]] = {}
    for number in range(1, _MAX_HEADER_LINES):
        words = handle.readline(_MAX_HEADER_LINE).decode("ascii", errors="replace").partition("#")[0].split()
        if words:
            entries[words[0].upper()] = words[1:]
        if words[:1] == ["DATA"]:
            return _checked(entries, number, source)
    raise source.error("no DATA line in the header")


def _checked(entries: dict[str, list[str]], number: int, source: Source) -> PcdHeader:
    names, sizes, kinds = (entries.get(key, []) for key in ("FIELDS", "SIZE", "TYPE"))
    repeats = entries.get("COUNT", ["1"] * len(names))
    agree = len(names) == len(sizes) == len(kinds) == len(repeats) and all(map(is_count, sizes + repeats))
    if not agree or "0" in [repeat.lstrip("0") or "0" for repeat in repeats]:
        raise source.error("FIELDS, SIZE, TYPE and COUNT of the header do not agree", number)
    if not {"x", "y", "z"} <= set(names):
        raise source.error(f"no fields x, y, z, only: {' '.join(names)}", number)
    try:  # padding fields all have the name `_`
        fields = np.dtype(
            [
                (name if name in "xyz" else f"{name}{place}", f"<{_KINDS[kind]}{size}", (int(repeat),))
                for place, (name, size, kind, repeat) in enumerate(zip(names, sizes, kinds, repeats, strict=True))
            ]
        )
    except (KeyError, TypeError, ValueError):
        raise source.error(f"unknown types: {shown(' '.join(kinds))}", number) from None
    data = (entries["DATA"] or [""])[0].lower()
    if data not in ("ascii", "binary", "binary_compressed"):
        raise source.error(f"expected DATA ascii, binary or binary_compressed, found {shown(data)}", number)
    return PcdHeader(fields, _count(entries, number, source), data, number)


def _count(entries: dict[str, list[str]], number: int, source: Source) -> int:
    """The number of points: `POINTS`, or `WIDTH` times `HEIGHT`."""
    keys = ["POINTS"] if "POINTS" in entries else [key for key in ("WIDTH", "HEIGHT") if key in entries]
    values = ["".join(entries[key]) for key in keys]
    if not keys or not all(map(is_count, values)):
        raise source.error(f"expected the number of points, found {shown(' '.join(values))}", number)
    return prod(map(int, values))


def _ascii(handle: BinaryIO, header: PcdHeader, source: Source, size: int) -> Chunks:
    starts = np.cumsum([0] + [header.fields[name].shape[0] for name in header.fields.names or ()])
    columns = [int(starts[(header.fields.names or ()).index(axis)]) for axis in "xyz"]
    rows: list[list[float]] = []
    read = 0
    for number, raw in enumerate(handle, header.lines + 1):
        words = raw.decode("ascii", errors="replace").split()
        if not words:
            continue
        if len(words) != starts[-1]:
            raise source.error(f"expected {starts[-1]} numbers, found {len(words)}", number)
        rows.append(numbers([words[column] for column in columns], source, number))
        read += 1
        if len(rows) == size:
            yield np.array(rows)
            rows = []
    if read < header.count:
        raise source.error(f"the file ends after {read} of {header.count} points")
    if rows:
        yield np.array(rows)


def read_table(data: bytes, header: PcdHeader, wanted: int, source: Source) -> Shaped[np.ndarray, " n"]:
    """Points of binary data."""
    if len(data) < wanted * header.fields.itemsize:
        raise source.error(f"the file ends before its {header.count} points")
    return np.frombuffer(data, header.fields, wanted)


def _coordinates(table: Shaped[np.ndarray, " n"]) -> Float64[np.ndarray, "n 3"]:
    return np.stack([table[axis][:, 0] for axis in "xyz"], axis=1).astype(np.float64)


def uncompressed(data: bytes, header: PcdHeader, source: Source) -> Shaped[np.ndarray, " n"]:
    """The table of compressed data, in which each field is stored for all points before the next field."""
    packed, full = (int(length) for length in np.frombuffer(data[:8].ljust(8, b"\0"), "<u4"))
    if full != header.count * header.fields.itemsize or packed + 8 > len(data) or full > _MAX_LZF_RATIO * packed:
        raise source.error(f"compressed data do not contain {header.count} points")
    if full > _MAX_UNCOMPRESSED:
        raise source.error(
            f"{full} bytes of compressed points, but the limit is {_MAX_UNCOMPRESSED}; save it as binary"
        )
    try:
        plain = lzf_decompress(data[8 : 8 + packed], full)
    except (IndexError, ValueError):
        raise source.error("compressed data are damaged") from None
    table = np.empty(header.count, header.fields)
    start = 0
    for name in header.fields.names or ():
        kind = header.fields[name]
        table[name] = np.frombuffer(plain, kind.base, header.count * kind.shape[0], start).reshape(-1, kind.shape[0])
        start += header.count * kind.itemsize
    return table


def lzf_decompress(data: bytes, size: int) -> bytearray:
    """Decompress LZF: runs of literal bytes, and copies of bytes written before."""
    out = bytearray()
    place = 0
    while place < len(data):
        if len(out) > size:
            raise ValueError
        control = data[place]
        place += 1
        if control < 32:
            out += data[place : place + control + 1]
            place += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[place]
            place += 1
        start = len(out) - ((control & 31) << 8) - data[place] - 1
        place += 1
        if start < 0:
            raise ValueError
        length += 2
        piece = bytes(out[start : start + length])
        out += (piece * (length // len(piece) + 1))[:length]  # a copy may overlap its own output
    if len(out) != size:
        raise ValueError
    return out
