"""The drift of an estimated trajectory from the true one, as the benchmarks of TUM and KITTI define it.

TUM (Sturm et al. 2012): with true poses ``Q`` and estimated ones ``P``, the relative error over ``delta`` frames is
``E = (Q_i^-1 Q_{i+delta})^-1 (P_i^-1 P_{i+delta})``. Its translation and angle are averaged as root mean square. The
absolute error is the RMS distance of the positions after the best rigid alignment. KITTI (Geiger et al. 2012): relative
errors over segments of 100 to 800 m of the true path, starting at every tenth frame, divided by the segment's length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.geometry import Pose
from plueckernet.geometry.pose import rotation_log
from plueckernet.io.trajectories import Trajectory

KITTI_LENGTHS = (100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0)  # m
_KITTI_START_INTERVAL = 10  # frames between the starts of segments


@dataclass(frozen=True)
class RelativeError:
    """TUM's relative pose error."""

    translation_rmse: float  # m
    rotation_rmse: float  # degrees
    translation_median: float
    rotation_median: float
    pairs: int


@dataclass(frozen=True)
class KittiError:
    """KITTI's drift."""

    translation: float  # m of error per m of path
    rotation: float  # degrees per m
    path_segments: int  # number of segments averaged


def relative_errors(
    estimated: Trajectory, truth: Trajectory, delta: int = 1
) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
    """Translation (m) and angle (degrees) of the relative error for every pair of frames ``delta`` apart."""
    _check(estimated, truth)
    first, last = _pairs(len(truth), delta)
    error = _between(truth, first, last).inverse() @ _between(estimated, first, last)
    return error.translation.norm(dim=-1), rotation_log(error.rotation).norm(dim=-1).rad2deg()


def relative_error(estimated: Trajectory, truth: Trajectory, delta: int = 1) -> RelativeError:
    """The relative error over all pairs of frames ``delta`` apart."""
    shift, turn = relative_errors(estimated, truth, delta)
    return RelativeError(_rms(shift), _rms(turn), float(shift.median()), float(turn.median()), len(shift))


def absolute_error(estimated: Trajectory, truth: Trajectory) -> float:
    """Root mean square distance of the positions after the rigid alignment that minimises it."""
    _check(estimated, truth)
    positions, true_positions = estimated.world_T_sensor.translation, truth.world_T_sensor.translation
    centred, true_centred = positions - positions.mean(0), true_positions - true_positions.mean(0)
    left, _, right = torch.linalg.svd(true_centred.mT @ centred)
    sign = torch.ones_like(left[0])
    sign[2] = torch.linalg.det(left @ right)
    rotation = left @ torch.diag(sign) @ right
    return _rms((centred @ rotation.mT - true_centred).norm(dim=-1))


def kitti_error(
    estimated: Trajectory, truth: Trajectory, lengths: tuple[float, ...] = KITTI_LENGTHS
) -> KittiError | None:
    """The drift over segments of the true path; None if the path is shorter than the shortest segment."""
    _check(estimated, truth)
    position = truth.world_T_sensor.translation
    path = torch.cat([position.new_zeros(1), (position[1:] - position[:-1]).norm(dim=-1).cumsum(0)])
    starts, ends, length = _path_segments(path, lengths)
    if len(starts) == 0:
        return None
    error = _between(estimated, starts, ends).inverse() @ _between(truth, starts, ends)
    turn = rotation_log(error.rotation).norm(dim=-1)
    shift = error.translation.norm(dim=-1)
    return KittiError(float((shift / length).mean()), math.degrees(float((turn / length).mean())), len(starts))


def _path_segments(
    path: Float[Tensor, " n"], lengths: tuple[float, ...]
) -> tuple[Int[Tensor, " k"], Int[Tensor, " k"], Float[Tensor, " k"]]:
    """First and last frame of each segment, and its nominal length."""
    segments = []
    for start in range(0, len(path), _KITTI_START_INTERVAL):
        for length in lengths:
            past_end = (path > path[start] + length).nonzero()
            if len(past_end):
                segments.append((start, int(past_end[0]), length))
    starts, ends, nominal = zip(*segments, strict=True) if segments else ((), (), ())
    return (
        torch.tensor(starts, dtype=torch.long),
        torch.tensor(ends, dtype=torch.long),
        torch.tensor(nominal, dtype=torch.float64),
    )


def _pairs(count: int, delta: int) -> tuple[Int[Tensor, " k"], Int[Tensor, " k"]]:
    if not 1 <= delta < count:
        raise InputError(f"delta: expected 1 to {count - 1} frames, got {delta}")
    first = torch.arange(count - delta)
    return first, first + delta


def _between(trajectory: Trajectory, first: Int[Tensor, " k"], last: Int[Tensor, " k"]) -> Pose:
    """The motions from the first to the last frames: ``P_first^-1 P_last``."""
    poses = trajectory.world_T_sensor
    return poses[first].inverse() @ poses[last]


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


def _check(estimated: Trajectory, truth: Trajectory) -> None:
    if len(estimated) != len(truth) or len(truth) < 2:
        raise InputError(f"expected two trajectories of the same frames, got {len(estimated)} and {len(truth)} poses")
