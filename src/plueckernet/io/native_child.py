"""The program of the child process that calls native code; see :mod:`plueckernet.io.native`.

It is run as a file and imports nothing of the package, so that it starts quickly. It writes to its standard output: for
each chunk the number of points and their coordinates, then 0; or a negative number and an error message.
"""

from __future__ import annotations

import copy
import json
import runpy
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

ERROR, MISSING = -1, -2  # a message follows: what is wrong, or which package is missing
_LIMITED_BYTES = 900 << 20  # of memory; the points of a chunk need less than a third of it
_BYTES_PER_BYTE = 16  # of memory, in addition, where all of a file is in memory
_START_SECONDS = 4  # of CPU time, in addition to that of the bytes
_BYTES_PER_SECOND = 300_000  # a fifth of what a slow machine decompresses
_POINTS_PER_BYTE = 64  # more are not data of a sensor

_MOVED_AT_ONCE = 500_000  # points
_MAX_LAS_STEPS = 2**31 - 1000  # of a coordinate of LAS, in units of its scale

_Array = np.ndarray[Any, np.dtype[np.float64]]
_Chunks = Iterator[_Array]


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


def moved_las(path: str, _chunk: int, _limit: int, out: str, matrix: str) -> _Chunks:
    """Write LAS or LAZ with all attributes, moved; the offset of the coordinates follows the points."""
    import laspy

    motion = np.array(json.loads(matrix))
    with laspy.open(path) as reader:
        header = copy.deepcopy(reader.header)
        header.offsets, header.scales = _las_frame(header, motion)
        with laspy.open(out, mode="w", header=header, do_compress=out.lower().endswith(".laz")) as writer:
            for points in reader.chunk_iterator(_MOVED_AT_ONCE):
                record = laspy.ScaleAwarePointRecord(
                    points.array.copy(), points.point_format, header.scales, header.offsets
                )
                record.x, record.y, record.z = _moved(np.stack([points.x, points.y, points.z]), motion)
                writer.write_points(record)
    yield from ()


def _moved(points: _Array, motion: _Array) -> _Array:
    """Columns of points, moved."""
    return motion[:3, :3] @ points + motion[:3, 3:]


def _las_frame(header: Any, motion: _Array) -> tuple[_Array, _Array]:
    """Offset and scale in which all moved points can be written."""
    moved = _moved(np.array(list(product(*zip(header.mins, header.maxs, strict=True)))).T, motion)
    offset = np.round((moved.min(1) + moved.max(1)) / 2)
    span = np.abs(moved - offset[:, None]).max(1)
    if not np.isfinite(span).all():
        raise ValueError("the bounds in its header are not numbers")
    return offset, np.maximum(np.array(header.scales), span / _MAX_LAS_STEPS)


def moved_e57(path: str, _chunk: int, limit: int, out: str, matrix: str, quaternion: str) -> _Chunks:
    """Write E57 with moved poses of its scans, whose points stay in their own frame."""
    import pye57
    from pyquaternion import Quaternion

    motion, turn = np.array(json.loads(matrix)), Quaternion(json.loads(quaternion))
    source, target = pye57.E57(path), pye57.E57(out, mode="w")
    for scan in range(source.scan_count):
        header = source.get_header(scan)
        _check_count(header.point_count, limit)
        rotation = Quaternion(header.rotation if header.has_pose() else (1, 0, 0, 0))
        position = np.array(header.translation if header.has_pose() else (0, 0, 0), dtype=np.float64)
        if not np.isfinite([*rotation.q, *position]).all() or rotation.norm == 0:
            raise ValueError(f"scan {scan} has no pose")
        placed = {"rotation": (turn * rotation).q, "translation": _moved(position[:, None], motion)[:, 0]}
        target.write_scan_raw(source.read_scan_raw(scan), **placed)
    target.close()
    source.close()
    yield from ()


def colmap_model(path: str, _chunk: int, _limit: int) -> _Chunks:
    """Read a COLMAP model, only to see whether that succeeds, and whether it has all that it refers to."""
    import pycolmap

    model = pycolmap.Reconstruction(path)
    cameras, rigs, frames, points = (set(known) for known in (model.cameras, model.rigs, model.frames, model.points3D))
    features = {number: image.num_points2D() for number, image in model.images.items()}
    _check_known("camera", _cameras(sensor for rig in model.rigs.values() for sensor in rig.sensor_ids()), cameras)
    _check_known("rig", (frame.rig_id for frame in model.frames.values()), rigs)
    for frame in model.frames.values():
        _check_known("camera", _cameras(data.sensor_id for data in frame.data_ids), cameras)
        _check_known("image", (data.id for data in frame.image_ids), set(features))
    for image in model.images.values():
        _check_known("camera", (image.camera_id,), cameras)
        _check_known("frame", (image.frame_id,), frames)
        _check_known("point", (point.point3D_id for point in image.points2D if point.has_point3D()), points)
    for point in model.points3D.values():
        for element in point.track.elements:
            if element.point2D_idx >= features.get(element.image_id, 0):
                raise ValueError(f"image {element.image_id} has no feature {element.point2D_idx}")
    yield from ()


def ifc_shapes(path: str, _chunk: int, _limit: int, out: str, wishes: str) -> _Chunks:
    """Write the shapes of a building model to a file; what comes as points is the complete fraction."""
    types, storey = json.loads(wishes)
    write_shapes = runpy.run_path(str(Path(__file__).with_name("ifc_model.py")))["write_shapes"]
    for complete in write_shapes(path, out, tuple(types), storey):
        yield np.full((1, 3), complete)


def _cameras(sensors: Iterable[Any]) -> Iterator[int]:
    """The numbers of those sensors that are cameras."""
    return (sensor.id for sensor in sensors if sensor.type.name == "CAMERA")


def _check_known(what: str, numbers: Iterable[int], known: set[int]) -> None:
    missing = next((number for number in numbers if number not in known), None)
    if missing is not None:
        raise ValueError(f"there is no {what} {missing}")


def _check_count(count: int, limit: int) -> None:
    if count > limit:
        raise ValueError(f"it declares {count} points, more than it can contain")


def _limit(size: int, memory: int) -> None:
    """Bound memory and CPU time where the system can; the latter by the size of a file."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        seconds = _START_SECONDS + size // _BYTES_PER_SECOND
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _tell(out: BinaryIO, code: int, message: str) -> None:
    data = message.encode("utf-8", errors="replace")[:2000]
    out.write(struct.pack("<qq", code, len(data)) + data)


_STREAMING: dict[str, Callable[..., _Chunks]] = {"las": las_chunks, "e57": e57_chunks, "moved-las": moved_las}
_IN_MEMORY: dict[str, Callable[..., _Chunks]] = {"moved-e57": moved_e57, "colmap": colmap_model, "ifc": ifc_shapes}
_SLOW = {"ifc": 10}  # times as much time and memory by the byte: shapes are computed, not read


def main(kind: str, path: str, chunk: int, size: int, out: BinaryIO, *arguments: str) -> None:
    """Write all points of a file to ``out``."""
    work = size * _SLOW.get(kind, 1)
    _limit(work, _LIMITED_BYTES + (_BYTES_PER_BYTE * work if kind in _IN_MEMORY else 0))
    try:
        for points in (_STREAMING | _IN_MEMORY)[kind](path, chunk, _POINTS_PER_BYTE * size, *arguments):
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
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), stream, *sys.argv[5:])
