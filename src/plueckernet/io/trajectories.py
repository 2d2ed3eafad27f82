"""Trajectory files in the formats of TUM (``t x y z qx qy qz qw``) and KITTI (the rows of a 3x4 matrix)."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import FormatError, InputError
from plueckernet.geometry.pose import Pose, quaternion_from_rotation, rotation_from_quaternion
from plueckernet.io.atomic import atomic_write
from plueckernet.io.source import Source, numbers


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Poses of a sensor over time."""

    times: Float[Tensor, " n"]  # seconds, increasing; row numbers if the file has no times
    world_T_sensor: Pose  # a batch of n

    def __post_init__(self) -> None:
        if self.world_T_sensor.translation.shape != (len(self.times), 3):
            raise InputError("a trajectory needs one pose for each time")

    def __len__(self) -> int:
        return len(self.times)

    def at(self, time: float, longest_gap: float = 0.1) -> Pose | None:
        """The interpolated pose at a time, or None if the recorded poses around it are over ``longest_gap`` s apart."""
        times: list[float] = self.times.tolist()
        after = bisect.bisect_left(times, time)
        if after < len(times) and times[after] == time:
            return self.world_T_sensor[after]
        if after in (0, len(times)) or times[after] - times[after - 1] > longest_gap:
            return None
        fraction = (time - times[after - 1]) / (times[after] - times[after - 1])
        start = self.world_T_sensor[after - 1]
        return start @ Pose.exp(fraction * (start.inverse() @ self.world_T_sensor[after]).log())


def stack_poses(poses: list[Pose]) -> Pose:
    """Stack single poses to a batch."""
    if not poses:
        return Pose.identity(0)
    return Pose(torch.stack([pose.rotation for pose in poses]), torch.stack([pose.translation for pose in poses]))


def read_tum_trajectory(path: str | Path) -> Trajectory:
    """Read ``t x y z qx qy qz qw`` rows; ``#`` starts a comment. Rows are sorted by time."""
    rows = torch.tensor(sorted(_rows(Path(path), 8)), dtype=torch.float64)
    quaternion = torch.cat([rows[:, 7:], rows[:, 4:7]], 1)
    norm = quaternion.norm(dim=1)
    if bool(((norm - 1).abs() > 0.01).any()):
        raise FormatError(path, "a quaternion does not have unit length: expected t x y z qx qy qz qw")
    return Trajectory(rows[:, 0].contiguous(), Pose(rotation_from_quaternion(quaternion), rows[:, 1:4]))


def read_kitti_trajectory(path: str | Path) -> Trajectory:
    """Read twelve numbers per row, ``[R | t]`` row by row; the times are the row numbers."""
    rows = torch.tensor(_rows(Path(path), 12), dtype=torch.float64).reshape(-1, 3, 4)
    try:
        poses = Pose.from_matrix(torch.cat([rows, rows.new_tensor([0, 0, 0, 1]).expand(len(rows), 1, 4)], 1))
    except InputError as error:
        raise FormatError(path, f"expected twelve numbers of [R | t] in each row: {error}") from error
    return Trajectory(torch.arange(len(rows), dtype=torch.float64), poses)


def write_tum_trajectory(path: str | Path, trajectory: Trajectory) -> None:
    """Write ``t x y z qx qy qz qw`` rows atomically."""
    quaternion = quaternion_from_rotation(trajectory.world_T_sensor.rotation)
    columns = [trajectory.times[:, None], trajectory.world_T_sensor.translation, quaternion[:, 1:], quaternion[:, :1]]
    with atomic_write(path) as stream:
        stream.write("# time x y z qx qy qz qw\n")
        for time, *values in torch.cat(columns, 1).tolist():
            stream.write(f"{time:.6f} {' '.join(f'{value:.12f}' for value in values)}\n")


def write_kitti_trajectory(path: str | Path, trajectory: Trajectory) -> None:
    """Write ``[R | t]`` row by row, atomically."""
    rows = trajectory.world_T_sensor.matrix()[:, :3].flatten(1)
    with atomic_write(path) as stream:
        stream.writelines(f"{' '.join(f'{value:.15e}' for value in row)}\n" for row in rows.tolist())


def _rows(path: Path, width: int) -> list[list[float]]:
    source = Source(path)
    rows = []
    try:
        for number, line in source.lines():
            fields = line.partition("#")[0].split()
            if not fields:
                continue
            if len(fields) != width:
                raise source.error(f"expected {width} numbers, found {len(fields)}", number)
            rows.append(numbers(fields, source, number))
            if not all(map(math.isfinite, rows[-1])):
                raise source.error("a number is not finite", number)
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error
    if not rows:
        raise source.error("the file has no poses")
    return rows
