"""Tracking of a sensor through its frames."""

from __future__ import annotations

import math

import pytest
import torch

from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.io.trajectories import Trajectory, stack_poses
from plueckernet.odometry import OdometrySettings, Tracking, absolute_error, relative_error, track

STEP = Pose.exp(torch.tensor([0.01, -0.02, math.radians(8), 0.25, 0.1, 0.02], dtype=torch.float64))


def walk(count: int) -> list[Pose]:
    poses = [Pose.identity()]
    for _ in range(count - 1):
        poses.append(poses[-1] @ STEP)
    return poses


def frames(scene: LineSet, poses: list[Pose], noise: float = 0.004, seed: int = 0) -> list[tuple[str, float, LineSet]]:
    """The lines seen from each pose: most of the scene, with noise and random direction."""
    generator = torch.Generator().manual_seed(seed)
    sequence = []
    for index, pose in enumerate(poses):
        rows = torch.randperm(len(scene), generator=generator)[: int(0.8 * len(scene))]
        ends = (pose.inverse() @ scene[rows].replaced(ids=None)).endpoints
        ends = ends + noise * torch.randn(ends.shape, generator=generator, dtype=torch.float64)
        lines = LineSet.from_segments(ends).flipped(torch.rand(len(rows), generator=generator) < 0.5)
        sequence.append((f"{index:03d}", index / 10, lines))
    return sequence


def room() -> LineSet:
    scene = make_scene("room", 7)
    return scene[scene.lengths().topk(45).indices].replaced(ids=None)


def truth_of(poses: list[Pose]) -> Trajectory:
    return Trajectory(torch.arange(len(poses), dtype=torch.float64), stack_poses(poses))


def test_a_walk_through_a_room() -> None:
    poses = walk(5)
    seen = frames(room(), poses)
    reported: list[str] = []
    result = track(seen, on_step=lambda step: reported.append(step.name))
    assert [step.tracking for step in result.steps] == [Tracking.FIRST, *[Tracking.REGISTERED] * 4]
    assert reported == ["000", "001", "002", "003", "004"]
    error = relative_error(result.trajectory(), truth_of(poses))
    assert error.rotation_rmse < 0.3
    assert error.translation_rmse < 0.01
    assert all(step.on_map for step in result.steps[1:])
    # Lines seen from several poses are fused in the map.
    assert len(result.line_map) < 1.3 * 45
    assert int((result.line_map.seen >= 4).sum()) > 20


def test_the_local_map_reduces_the_drift() -> None:
    poses = walk(5)
    seen = frames(room(), poses, noise=0.02)
    errors = [
        absolute_error(track(seen, settings=OdometrySettings(local_map=local)).trajectory(), truth_of(poses))
        for local in (False, True)
    ]
    assert errors[1] < errors[0]


def test_a_frame_without_lines_is_lost_and_predicted_at_constant_velocity() -> None:
    poses = walk(4)
    seen = frames(room(), poses)
    seen[2] = ("002", 0.2, seen[2][2][:2])
    result = track(seen)
    assert result.steps[2].tracking is Tracking.LOST
    assert result.steps[3].tracking is Tracking.LOST  # the previous frame has too few lines
    assert result.steps[3].on_map  # but the local map recovers it
    last = result.steps[3].world_T_sensor
    assert math.degrees(float(last.angle_to(poses[3]))) < 0.5
    assert float((last.translation - poses[3].translation).norm()) < 0.02


def plain_room() -> LineSet:
    """The edges of a box in a box, symmetric under half a turn about each axis."""
    corners = torch.tensor([[x, y, z] for x in (-2.5, 2.5) for y in (-2, 2) for z in (-1, 1)], dtype=torch.float64)
    edges = [(a, b) for a in range(8) for b in range(a) if int((corners[a] != corners[b]).sum()) == 1]
    outer = torch.stack([torch.stack([corners[a], corners[b]]) for a, b in edges])
    inner = outer * torch.tensor([0.5, 0.5, 0.8], dtype=torch.float64)
    return LineSet.from_segments(torch.cat([outer, inner]))


def test_velocity_decides_between_poses_with_equal_scores() -> None:
    turn = Pose.exp(torch.tensor([0, 0, math.radians(5), 0, 0, 0], dtype=torch.float64))
    poses = [Pose.identity(), turn, turn @ turn, turn @ turn @ turn]
    generator = torch.Generator().manual_seed(0)
    seen = []
    for index, pose in enumerate(poses):
        lines = pose.inverse() @ plain_room()
        ends = lines.endpoints + 0.002 * torch.randn(lines.endpoints.shape, generator=generator, dtype=torch.float64)
        seen.append((str(index), float(index), LineSet.from_segments(ends)))
    result = track(seen, settings=OdometrySettings(local_map=False))
    assert Tracking.TIED in [step.tracking for step in result.steps]
    for step, pose in zip(result.steps, poses, strict=True):
        assert math.degrees(float(step.world_T_sensor.angle_to(pose))) < 1.0


def test_no_frames() -> None:
    with pytest.raises(InputError, match="at least one frame"):
        track([])
