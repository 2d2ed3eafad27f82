"""Frames of sensor sequences: paths of the files, which are not yet read, and the pose if it is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from plueckernet.errors import FormatError
from plueckernet.geometry import Pose
from plueckernet.io.files import read_text


@dataclass(frozen=True, eq=False)
class CameraFrame:
    """A colour image with depth."""

    name: str
    time: float  # seconds, or the frame number if there are no times
    colour: Path
    depth: Path
    intrinsics: tuple[float, float, float, float]  # fx, fy, cx, cy in pixels
    depth_unit: float  # metres per step of the depth image
    furthest: float  # metres; larger depths are not measurements
    depth_noise: tuple[float, float]  # c0 in m and c2 in 1/m: a depth z has the standard deviation c0 + c2 z**2
    world_T_sensor: Pose | None = None


@dataclass(frozen=True, eq=False)
class CloudFrame:
    """A point cloud from a laser scanner."""

    name: str
    time: float
    cloud: Path
    world_T_sensor: Pose | None = None
    # where the scanner was, in the frame of the cloud; None if the cloud is not a single scan
    viewpoint: tuple[float, float, float] | None = (0.0, 0.0, 0.0)
    format: str | None = None  # of the file; by default its content decides


@dataclass(frozen=True, eq=False)
class LinesFrame:
    """A file of extracted lines."""

    name: str
    time: float
    lines: Path
    world_T_sensor: Pose | None = None
    format: str | None = None  # of the file; by default its content decides


@dataclass(frozen=True)
class MissingFrame:
    """A frame that the files name but do not have; the frames before and after it are not consecutive."""

    name: str
    reason: str


SensorFrame = CameraFrame | CloudFrame | LinesFrame


def rows_of(path: Path) -> list[tuple[int, list[str]]]:
    """Line number and fields of each row of a text file, without comments and blank lines."""
    rows = ((number, line.partition("#")[0].split()) for number, line in enumerate(read_text(path).splitlines(), 1))
    return [(number, fields) for number, fields in rows if fields]


def rigid(matrix: Float64[np.ndarray, "4 4"], path: Path, line: int | None = None) -> Pose:
    """The rigid motion of a published matrix; its rotation is orthonormalised against rounding errors of about 1e-7."""
    left, _, right = np.linalg.svd(np.nan_to_num(matrix[:3, :3]))
    rotation = left @ right
    if not np.isfinite(matrix).all() or np.linalg.det(rotation) < 0 or np.abs(rotation - matrix[:3, :3]).max() > 0.01:
        raise FormatError(path, "the upper left 3x3 block is not a rotation matrix", line)
    return Pose(torch.from_numpy(rotation), torch.from_numpy(matrix[:3, 3].copy()))
