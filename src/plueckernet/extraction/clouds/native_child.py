"""The program of the child process that calls native readers; see :mod:`plueckernet.extraction.clouds.native`.

It is run as a file and imports nothing of the package, so that it starts quickly. It writes to its standard output: for
each chunk the number of points and their coordinates, then 0; or a negative number and an error message.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np

ERROR, MISSING = -1, -2  # a message follows: what is wrong, or which package is missing
_LIMITED_BYTES = 900 << 20  # of memory; the points of a chunk need less than a third of it
_START_SECONDS = 4  # of CPU time, in addition to that of the bytes
_BYTES_PER_SECOND = 300_000  # a fifth of what a slow machine decompresses
_POINTS_PER_BYTE = 64  # more are not data of a sensor

_Chunks = Iterator[np.ndarray[Any, np.dtype[np.float64]]]


def las_chunks(path: str, chunk: int, limit: int) -> _Chunks:
    """The points of LAS or LAZ, with scale and offset."""
    import laspy

    with laspy.open(path, read_evlrs=False) as reader:
        _check_count(reader.header.point_count, limit)
        for points in reader.chunk_iterator(chunk):
            yield np.stack([points.x, points.y, points.z], axis=1).astype(np.float64)


def e57_chunks(path: str, chunk: int, limit: int) -> _Chunks:
    """The points of all scans in the common frame, without those that the scanner marked as invalid."""
    import pye57

    file = pye57.E57(path)
    for scan in range(file.scan_count):
        header = file.get_header(scan)
        _check_count(header.point_count, limit)
        yield from _scan_chunks(file, header, min(chunk, max(1, header.point_count)))


def _scan_chunks(file: Any, header: Any, chunk: int) -> _Chunks:
    from pye57.utils import convert_spherical_to_cartesian

    known = set(header.point_fields)
    kinds = {"cartesian": "XYZ", "spherical": ("Range", "Azimuth", "Elevation")}
    kind = next((kind for kind, axes in kinds.items() if {f"{kind}{axis}" for axis in axes} <= known), None)
    if kind is None:
        raise ValueError(f"no coordinates, only: {' '.join(sorted(known))[:80]}")
    names = [f"{kind}{axis}" for axis in kinds[kind]]
    invalid = f"{kind}InvalidState"
    data, buffers = file.make_buffers([*names, *([invalid] if invalid in known else [])], chunk)
    reader = header.points.reader(buffers)
    while count := reader.read():
        points = np.stack([data[name][:count] for name in names], axis=1).astype(np.float64)
        if invalid in data:
            points = points[data[invalid][:count] == 0]
        if kind == "spherical":
            points = convert_spherical_to_cartesian(points)
        if header.has_pose():
            points = file.to_global(points, header.rotation, header.translation)
        if len(points):
            yield np.ascontiguousarray(points, dtype=np.float64)


def _check_count(count: int, limit: int) -> None:
    if count > limit:
        raise ValueError(f"it declares {count} points, more than it can contain")


def _limit(size: int) -> None:
    """Bound memory and CPU time where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_LIMITED_BYTES, _LIMITED_BYTES))
        seconds = _START_SECONDS + size // _BYTES_PER_SECOND
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _tell(out: BinaryIO, code: int, message: str) -> None:
    data = message.encode("utf-8", errors="replace")[:2000]
    out.write(struct.pack("<qq", code, len(data)) + data)


def main(kind: str, path: str, chunk: int, size: int, out: BinaryIO) -> None:
    """Write all points of a file to ``out``."""
    readers: dict[str, Callable[[str, int, int], _Chunks]] = {"las": las_chunks, "e57": e57_chunks}
    _limit(size)
    try:
        for points in readers[kind](path, chunk, _POINTS_PER_BYTE * size):
            if len(points):
                out.write(struct.pack("<q", len(points)) + points.tobytes())
        out.write(struct.pack("<q", 0))
    except ImportError as error:
        _tell(out, MISSING, error.name or str(error))
    except BaseException as error:  # noqa: BLE001 - panics of native code are no `Exception`
        text = str(error).strip().splitlines() or [type(error).__name__]
        _tell(out, MISSING if "Backend" in text[0] else ERROR, "lazrs" if "Backend" in text[0] else text[0])


if __name__ == "__main__":
    with sys.stdout.buffer as stream:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), stream)
