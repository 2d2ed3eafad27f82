"""KITTI odometry: ``sequences/07/velodyne/000000.bin``, ``calib.txt``, ``times.txt`` and ``poses/07.txt``.

The poses are those of the left camera; ``Tr`` in ``calib.txt`` maps the laser scanner to the left camera.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from plueckernet.data.datasets.frames import CloudFrame, rows_of
from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import Pose
from plueckernet.io.trajectories import read_kitti_trajectory


def kitti_sequence(folder: Path) -> list[CloudFrame]:
    """The laser scans of ``sequences/NN`` with their times, and their poses if ``poses/NN.txt`` exists."""
    scans = sorted((folder / "velodyne").glob("*.bin"))
    if not scans:
        raise FormatError(folder / "velodyne", "the folder has no *.bin")
    times = _times(folder, len(scans))
    poses = folder.parents[1] / "poses" / f"{folder.name}.txt"
    if not poses.exists():
        return [CloudFrame(scan.stem, time, scan) for scan, time in zip(scans, times, strict=True)]
    world_T_camera = read_kitti_trajectory(poses).world_T_sensor
    if world_T_camera.translation.shape[0] != len(scans):
        raise FormatError(poses, f"expected {len(scans)} poses, found {world_T_camera.translation.shape[0]}")
    camera_T_scanner = _calibration(folder / "calib.txt")
    return [
        CloudFrame(scan.stem, time, scan, world_T_camera[index] @ camera_T_scanner)
        for index, (scan, time) in enumerate(zip(scans, times, strict=True))
    ]


def _times(folder: Path, count: int) -> list[float]:
    path = folder / "times.txt"
    if not path.exists():
        return [float(index) for index in range(count)]
    try:
        times = [float(fields[0]) for _, fields in rows_of(path)]
    except ValueError as error:
        raise FormatError(path, "expected a time in seconds in each row") from error
    if not all(map(math.isfinite, times)):
        raise FormatError(path, "a time is not finite")
    if len(times) != count:
        raise FormatError(path, f"expected {count} times, one per scan, found {len(times)}")
    return times


def _calibration(path: Path) -> Pose:
    for number, fields in rows_of(path):
        if fields[0] in ("Tr:", "Tr_velo_to_cam:"):
            try:
                rows = np.array([float(field) for field in fields[1:]]).reshape(3, 4)
                return Pose.from_matrix(torch.from_numpy(np.vstack([rows, [0, 0, 0, 1]])))
            except (ValueError, InputError) as error:
                raise FormatError(path, "Tr: expected twelve numbers of [R | t]", number) from error
    raise FormatError(path, "no row Tr:, the pose of the laser scanner in the camera frame")
