"""Reading and writing trajectory files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import Pose
from plueckernet.io.trajectories import (
    Trajectory,
    read_kitti_trajectory,
    read_tum_trajectory,
    stack_poses,
    write_kitti_trajectory,
    write_tum_trajectory,
)


def walk(count: int = 5) -> Trajectory:
    poses = Pose.random(count, generator=torch.Generator().manual_seed(1), translation=100.0)
    return Trajectory(torch.arange(count, dtype=torch.float64) / 30 + 1.3e9, poses)


def test_tum_files_give_the_trajectory_back(tmp_path: Path) -> None:
    truth = walk()
    write_tum_trajectory(tmp_path / "a.txt", truth)
    read = read_tum_trajectory(tmp_path / "a.txt")
    torch.testing.assert_close(read.times, truth.times, atol=1e-6, rtol=0)
    torch.testing.assert_close(read.world_T_sensor.matrix(), truth.world_T_sensor.matrix(), atol=1e-8, rtol=0)


def test_kitti_files_give_the_poses_back(tmp_path: Path) -> None:
    truth = walk()
    write_kitti_trajectory(tmp_path / "a.txt", truth)
    assert len((tmp_path / "a.txt").read_text().splitlines()[0].split()) == 12
    read = read_kitti_trajectory(tmp_path / "a.txt")
    assert read.times.tolist() == [0, 1, 2, 3, 4]
    torch.testing.assert_close(read.world_T_sensor.matrix(), truth.world_T_sensor.matrix(), atol=1e-6, rtol=0)


def test_between_two_poses_the_motion_is_even() -> None:
    turn = Pose.exp(torch.tensor([0, 0, 0.4, 0, 0, 0], dtype=torch.float64))
    path = Trajectory(torch.tensor([2.0, 2.1], dtype=torch.float64), stack_poses([Pose.identity(), turn]))
    quarter = path.at(2.025, longest_gap=0.2)
    assert quarter is not None
    assert float(quarter.angle_to(Pose.identity())) == pytest.approx(0.1)
    assert math.isclose(float(path.at(2.1).angle_to(turn)), 0.0)
    assert [path.at(time, 0.2) for time in (1.99, 2.11)] == [None, None]
    assert path.at(2.025, longest_gap=0.05) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 2 3\n", ":1: expected 8 numbers, found 3"),
        ("# only this\n", "no poses"),
        ("1 0 0 0 0 0 x 1\n", ":1: expected a number"),
        ("1 0 0 0 0 0 0 2\n", "unit length"),
    ],
)
def test_broken_tum_files(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(FormatError, match=complaint):
        read_tum_trajectory(tmp_path / "a.txt")


def test_broken_and_missing_kitti_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("2 0 0 0 0 1 0 0 0 0 1 0\n")
    with pytest.raises(FormatError, match="rotation"):
        read_kitti_trajectory(tmp_path / "a.txt")
    with pytest.raises(FormatError, match="no such file"):
        read_kitti_trajectory(tmp_path / "none.txt")


def test_a_time_needs_a_pose() -> None:
    with pytest.raises(InputError, match="one pose for each time"):
        Trajectory(torch.zeros(2, dtype=torch.float64), Pose.identity(3))
