"""The drift as TUM and KITTI define it."""

from __future__ import annotations

import math

import pytest
import torch

from plueckernet.errors import InputError
from plueckernet.geometry import Pose
from plueckernet.io.trajectories import Trajectory, stack_poses
from plueckernet.odometry import absolute_error, kitti_error, relative_error, relative_errors


def walk(steps: list[list[float]]) -> Trajectory:
    """The trajectory of successive twists."""
    poses = [Pose.identity()]
    for step in steps:
        poses.append(poses[-1] @ Pose.exp(torch.tensor(step, dtype=torch.float64)))
    return Trajectory(torch.arange(len(poses), dtype=torch.float64), stack_poses(poses))


def random_walk(count: int, seed: int, jitter: float = 0.0) -> tuple[Trajectory, Trajectory]:
    """A true path and one that drifts from it."""
    generator = torch.Generator().manual_seed(seed)
    steps = 0.3 * torch.randn(count, 6, generator=generator, dtype=torch.float64)
    noise = jitter * torch.randn(count, 6, generator=generator, dtype=torch.float64)
    return walk(steps.tolist()), walk((steps + noise).tolist())


def moved(path: Trajectory, pose: Pose) -> Trajectory:
    return Trajectory(path.times, pose @ path.world_T_sensor)


def test_a_path_has_no_error_against_itself_in_another_frame() -> None:
    truth, _ = random_walk(20, 0)
    other = moved(truth, Pose.random(generator=torch.Generator().manual_seed(5), translation=50.0))
    shift, turn = relative_errors(other, truth)
    assert float(shift.max()) < 1e-12
    assert float(turn.max()) < 1e-6
    assert absolute_error(other, truth) < 1e-12


def test_relative_error_of_a_known_mistake() -> None:
    """One step of five is 3 cm too long and turns 2 degrees too far about its end."""
    truth = walk([[0, 0, 0, 1, 0, 0]] * 5)
    wrong = [*truth.world_T_sensor]
    slip = Pose.exp(torch.tensor([0, 0, math.radians(2), 0, 0, 0], dtype=torch.float64))
    extra = Pose.exp(torch.tensor([0, 0, 0, 0.03, 0, 0], dtype=torch.float64))
    for frame in range(3, 6):
        step = truth.world_T_sensor[frame - 1].inverse() @ truth.world_T_sensor[frame]
        wrong[frame] = wrong[frame - 1] @ step @ (extra @ slip if frame == 3 else Pose.identity())
    error = relative_error(Trajectory(truth.times, stack_poses(wrong)), truth)
    assert error.translation_rmse == pytest.approx(0.03 / math.sqrt(5))
    assert error.rotation_rmse == pytest.approx(2 / math.sqrt(5))
    assert (error.pairs, error.translation_median) == (5, pytest.approx(0, abs=1e-12))


def test_kitti_drift_of_a_wrong_scale_and_of_a_steady_turn() -> None:
    truth = walk([[0, 0, 0, 0, 0, 1]] * 400)  # 400 m straight ahead
    short = walk([[0, 0, 0, 0, 0, 0.98]] * 400)
    error = kitti_error(short, truth)
    # A segment ends at the first frame past its nominal length: 101 m for 100 m.
    expected = [0.02 * (length + 1) / length for length in (100, 200, 300) for _ in range((399 - length) // 10 + 1)]
    assert error.path_segments == len(expected)
    assert error.translation == pytest.approx(sum(expected) / len(expected))
    assert error.rotation == pytest.approx(0, abs=1e-9)
    turning = kitti_error(walk([[0, math.radians(0.01), 0, 0, 0, 1]] * 400), truth)
    assert turning.rotation == pytest.approx(0.01, rel=0.02)
    assert kitti_error(short, truth, lengths=(1000.0,)) is None


def test_trajectories_of_different_frames_are_refused() -> None:
    truth, _ = random_walk(4, 0)
    with pytest.raises(InputError, match="same frames"):
        relative_error(walk([[0.0] * 6]), truth)
    with pytest.raises(InputError, match="delta"):
        relative_error(truth, truth, delta=5)


@pytest.mark.parametrize("seed", range(3))
def test_evo_agrees(seed: int) -> None:
    metrics = pytest.importorskip("evo.core.metrics", reason="evo is not installed")
    from evo.core.trajectory import PoseTrajectory3D

    truth, estimated = random_walk(60, seed, jitter=0.02)
    theirs = [
        PoseTrajectory3D(
            poses_se3=[pose.numpy() for pose in path.world_T_sensor.matrix()], timestamps=path.times.numpy()
        )
        for path in (truth, estimated)
    ]

    def statistic(metric: object) -> float:
        metric.process_data(tuple(theirs))
        return metric.get_statistic(metrics.StatisticsType.rmse)

    relation = metrics.PoseRelation
    for delta in (1, 7):
        ours = relative_error(estimated, truth, delta)
        settings = {"delta": delta, "delta_unit": metrics.Unit.frames, "all_pairs": True}
        assert statistic(metrics.RPE(relation.translation_part, **settings)) == pytest.approx(ours.translation_rmse)
        assert statistic(metrics.RPE(relation.rotation_angle_deg, **settings)) == pytest.approx(ours.rotation_rmse)
    theirs[1].align(theirs[0])
    assert statistic(metrics.APE(relation.translation_part)) == pytest.approx(absolute_error(estimated, truth))
