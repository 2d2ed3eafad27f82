"""Point clouds moved in chunks: LAS and LAZ, E57, NPY and the `.bin` of KITTI."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Shaped

from plueckernet.errors import FormatError, MissingDependencyError
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.io.source import Source
from plueckernet.moving.replacing import replacing

CHUNK = 1_000_000  # points moved at a time
_MAX_STEPS = 2**31 - 1000  # of a coordinate of LAS, in units of its scale
MAX_STEP = 1e-4  # of float32 at the moved coordinates; above it, coordinates are written as float64


def needs_float64(bounds: Float64[np.ndarray, "2 3"], motion: Similarity) -> bool:
    """Whether float32 would round the moved points visibly."""
    corners = np.array([[bounds[i, 0], bounds[j, 1], bounds[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    return bool(np.spacing(np.abs(motion @ corners).max().astype(np.float32)) > MAX_STEP)


def move_las(path: Path, out: Path, motion: Similarity) -> list[str]:
    """LAS or LAZ with all attributes; the offset of the coordinates follows the points."""
    try:
        import laspy
    except ImportError:
        raise MissingDependencyError("laspy", "extract") from None
    try:
        with replacing(out) as temporary, laspy.open(path) as reader:
            header = copy.deepcopy(reader.header)
            header.offsets, header.scales = _las_frame(header, motion)
            packed = out.suffix.lower() == ".laz"
            with laspy.open(temporary, mode="w", header=header, do_compress=packed) as writer:
                for chunk in reader.chunk_iterator(CHUNK):
                    points = motion @ np.stack([chunk.x, chunk.y, chunk.z], axis=1)
                    record = laspy.ScaleAwarePointRecord(
                        chunk.array.copy(), chunk.point_format, header.scales, header.offsets
                    )
                    record.x, record.y, record.z = points.T
                    writer.write_points(record)
    except (laspy.errors.LaspyException, ValueError, OverflowError, RuntimeError) as error:
        if "Backend" in str(error):  # LAZ without a package that compresses it
            raise MissingDependencyError("lazrs", "extract") from None
        raise FormatError(path, f"not readable as LAS or LAZ: {error}") from error
    if any(record.user_id.lower().startswith("lasf_projection") for record in header.vlrs):
        return [f"{out}: the reference system that the file names is that of the source"]
    return []


def _las_frame(header: Any, motion: Similarity) -> tuple[Float64[np.ndarray, "3"], Float64[np.ndarray, "3"]]:
    """Offset and scale in which all moved points can be written."""
    low, high = np.array(header.mins, dtype=np.float64), np.array(header.maxs, dtype=np.float64)
    corners = np.array([[x, y, z] for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])
    moved = motion @ corners
    offset = np.round((moved.min(0) + moved.max(0)) / 2)
    span = np.abs(moved - offset).max(0)
    return offset, np.maximum(np.array(header.scales), span / _MAX_STEPS)


def move_e57(path: Path, out: Path, motion: Similarity) -> list[str]:
    """E57: the pose of each scan moves, its points stay in their own frame."""
    try:
        import pye57
    except ImportError:
        raise MissingDependencyError("pye57", "extract") from None
    if abs(float(motion.scale) - 1) > 1e-12:
        raise FormatError(path, "the scans of E57 have rigid poses, which cannot be scaled")
    pose = Pose(motion.rotation, motion.translation)
    try:
        with replacing(out) as temporary:
            source = pye57.E57(str(path))
            target = pye57.E57(str(temporary), mode="w")
            for index in range(source.scan_count):
                header = source.get_header(index)
                moved = pose @ _scan_pose(header)
                quaternion = moved.quaternion().numpy()
                data = source.read_scan_raw(index)
                target.write_scan_raw(data, rotation=quaternion, translation=moved.translation.numpy())
            target.close()
            source.close()
    except (RuntimeError, ValueError, KeyError, pye57.libe57.E57Exception) as error:
        raise FormatError(path, f"not readable as E57: {error}") from error
    return []


def _scan_pose(header: Any) -> Pose:
    if not header.has_pose():
        return Pose.identity()
    return Pose(torch.from_numpy(np.array(header.rotation_matrix)), torch.from_numpy(np.array(header.translation)))


def move_npy(path: Path, out: Path, motion: Similarity) -> list[str]:
    """Points or segments: the first three columns, or all of `(n, 6)` and `(n, 2, 3)`."""
    source = Source(path)
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise source.error(f"not an array of numbers: {error}") from None
    is_segments = values.shape[1:] in ((6,), (2, 3))
    if not is_segments and (values.ndim != 2 or values.shape[1] < 3):
        raise source.error(f"expected points (n, 3) or segments (n, 6) or (n, 2, 3), found {values.shape}")
    columns = 6 if is_segments else 3
    flat = values.reshape(len(values), -1)
    bounds = _bounds(flat[:, :3])
    kind = np.float64 if values.dtype.kind != "f" or needs_float64(bounds, motion) else values.dtype
    with replacing(out) as temporary:
        moved = np.lib.format.open_memmap(temporary, "w+", np.dtype(kind), values.shape)
        target = moved.reshape(flat.shape)
        for start in range(0, len(flat), CHUNK):
            rows = np.array(flat[start : start + CHUNK], dtype=np.float64)
            points = motion @ rows[:, :columns].reshape(-1, 3)
            target[start : start + CHUNK] = np.concatenate([points.reshape(-1, columns), rows[:, columns:]], axis=1)
        moved.flush()
    return []


def _bounds(points: Shaped[np.ndarray, "n 3"]) -> Float64[np.ndarray, "2 3"]:
    if not len(points):
        return np.zeros((2, 3))
    return np.stack([points.min(0), points.max(0)]).astype(np.float64)


def move_bin(path: Path, out: Path, motion: Similarity) -> list[str]:
    """KITTI's rows of four float32 numbers."""
    source = Source(path)
    if path.stat().st_size % 16:
        raise source.error("the size is not that of rows of four float32 numbers")
    values = np.memmap(path, "<f4", "r").reshape(-1, 4)
    with replacing(out) as temporary, temporary.open("wb") as handle:
        for start in range(0, len(values), CHUNK):
            rows = np.array(values[start : start + CHUNK])
            rows[:, :3] = motion @ rows[:, :3].astype(np.float64)
            handle.write(rows.tobytes())
    if needs_float64(_bounds(values[:, :3]), motion):
        return [f"{out}: .bin is float32, which rounds these coordinates; convert the cloud to LAS or PLY first"]
    return []
