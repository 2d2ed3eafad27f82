"""`plueckernet odometry`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.cli.helpers import run
from tests.odometry.test_tracking import frames, room, walk

from plueckernet.io import read_lines, write_lines
from plueckernet.io.trajectories import (
    Trajectory,
    read_kitti_trajectory,
    read_tum_trajectory,
    stack_poses,
    write_tum_trajectory,
)


def line_maps(folder: Path, truth: bool) -> Path:
    """A sequence of three line maps, with or without their poses."""
    folder.mkdir()
    poses = walk(3)
    for name, _, lines in frames(room(), poses):
        write_lines(folder / f"{name}.npz", lines)
    if truth:
        write_tum_trajectory(
            folder / "groundtruth.txt", Trajectory(torch.arange(3, dtype=torch.float64), stack_poses(poses))
        )
    return folder


def test_odometry_writes_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sequence, out = line_maps(tmp_path / "maps", truth=True), tmp_path / "out"
    assert run("odometry", sequence, "--out", out) == 0
    output = capsys.readouterr().out
    assert "3 frames: 2 registered" in output
    assert "relative error" in output
    truth = read_tum_trajectory(sequence / "groundtruth.txt").world_T_sensor
    for estimated in (
        read_tum_trajectory(out / "trajectory_tum.txt"),
        read_kitti_trajectory(out / "trajectory_kitti.txt"),
    ):
        torch.testing.assert_close(estimated.world_T_sensor.matrix(), truth.matrix(), atol=0.02, rtol=0)
    assert 20 < len(read_lines(out / "map.obj")) < 60
    assert (out / "top_down.png").read_bytes().startswith(b"\x89PNG")
    written = json.loads((out / "odometry.json").read_text())
    assert written["drift"]["relative"]["translation_rmse"] < 0.01
    assert [step["tracking"] for step in written["steps"]] == ["first", "registered", "registered"]


def test_odometry_without_truth_measures_no_drift(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sequence = line_maps(tmp_path / "maps", truth=False)
    assert run("odometry", sequence, "--out", tmp_path / "out", "--frame-to-frame") == 0
    assert "error" not in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "odometry.json").read_text())["drift"] is None


def test_odometry_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    assert run("odometry", tmp_path / "empty", "--out", tmp_path / "out") == 2
    assert "no frames in it" in capsys.readouterr().err


def test_the_format_of_the_files_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sequence = line_maps(tmp_path / "maps", truth=True)
    for path in sequence.glob("*.npz"):
        path.rename(path.with_suffix(".map"))
    command = ("odometry", sequence, "--out", tmp_path / "out")
    assert run(*command) == 2
    assert "no frames in it" in capsys.readouterr().err
    assert run(*command, "--from", "npz") == 0
    assert "3 frames: 2 registered" in capsys.readouterr().out
    assert run(*command, "--from", "las") == 2
    assert "0.map" in capsys.readouterr().err
    assert run(*command, "--layout", "kitti", "--from", "npz") == 2
    assert "the layout is kitti" in capsys.readouterr().err
