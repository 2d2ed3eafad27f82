"""Point clouds moved: LAS and LAZ, E57, NPY and the `.bin` of KITTI.

The first two are moved by native code, in a child process and after their headers have been checked.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Shaped

from plueckernet.errors import FormatError
from plueckernet.extraction.clouds.arrays import mapped
from plueckernet.extraction.clouds.surveys import check_e57, check_las
from plueckernet.geometry.pose import Similarity
from plueckernet.io.native import run_native
from plueckernet.io.source import Source
from plueckernet.moving.replacing import replacing

CHUNK = 1_000_000  # points moved at a time
_PROJECTION = b"lasf_projection"  # begins the names of LAS's records of a reference system
MAX_STEP = 1e-4  # of float32 at the moved coordinates; above it, coordinates are written as float64


def needs_float64(bounds: Float64[np.ndarray, "2 3"], motion: Similarity) -> bool:
    """Whether float32 would round the moved points visibly."""
    corners = np.array([[bounds[i, 0], bounds[j, 1], bounds[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    return bool(np.spacing(np.abs(motion @ corners).max().astype(np.float32)) > MAX_STEP)


def move_las(path: Path, out: Path, motion: Similarity) -> list[str]:
    """LAS or LAZ with all attributes; the offset of the coordinates follows the points."""
    source = Source(path)
    header = check_las(source)
    with replacing(out) as temporary:
        run_native(source, "moved-las", "LAS or LAZ", str(temporary), _matrix(motion))
    with path.open("rb") as handle:
        if _PROJECTION in handle.read(header.start).lower():
            return [f"{out}: the reference system that the file names is that of the source"]
    return []


def move_e57(path: Path, out: Path, motion: Similarity) -> list[str]:
    """E57: the pose of each scan moves, its points stay in their own frame."""
    source = Source(path)
    check_e57(source)
    if abs(float(motion.scale) - 1) > 1e-12:
        raise FormatError(path, "the scans of E57 have rigid poses, which cannot be scaled")
    quaternion = json.dumps(motion.pose.quaternion().tolist())
    with replacing(out) as temporary:
        run_native(source, "moved-e57", "E57", str(temporary), _matrix(motion), quaternion)
    return []


def _matrix(motion: Similarity) -> str:
    return json.dumps(motion.matrix().tolist())


def move_npy(path: Path, out: Path, motion: Similarity) -> list[str]:
    """Points or segments: the first three columns, or all of `(n, 6)` and `(n, 2, 3)`."""
    source = Source(path)
    values = mapped(source)
    is_segments = values.shape[1:] in ((6,), (2, 3))
    if values.size == 0 or not (is_segments or (values.ndim == 2 and values.shape[1] >= 3)):
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
    if path.stat().st_size % 16 or not path.stat().st_size:
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
