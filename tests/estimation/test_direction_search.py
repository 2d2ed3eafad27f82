"""The pose of two maps is proposed without a single match, from directions and votes of parallel lines."""

import math

import pytest
import torch

from plueckernet.estimation.direction_search import match_free_poses
from plueckernet.estimation.distinct import close_poses
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry import LineSet, Pose

THRESHOLD = InlierThreshold(0.03, math.radians(8))


def building(seed: int, count: int = 160) -> LineSet:
    """Segments along three axes and along a roof, at random places of a box of a few radii."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.eye(3, dtype=torch.float64)
    directions = torch.cat([directions, torch.tensor([[0, 0.8, 0.6]], dtype=torch.float64)])
    kind = torch.randint(4, (count,), generator=generator)
    middle = (torch.rand(count, 3, generator=generator, dtype=torch.float64) - 0.5) * torch.tensor([3, 2, 1.5])
    half = (0.1 + 0.4 * torch.rand(count, 1, generator=generator, dtype=torch.float64)) * directions[kind]
    return LineSet.from_segments(torch.stack([middle - half, middle + half], 1))


def halves(seed: int) -> tuple[AnchoredLines, AnchoredLines, Pose]:
    """Two halves of a building that share its middle, each in a frame of its own, and the pose between them."""
    lines, generator = building(seed), torch.Generator().manual_seed(seed + 100)
    x = lines.midpoints()[:, 0]
    source, target = lines[x < 0.4].replaced(ids=None), lines[x > -0.4].replaced(ids=None)
    turn = Pose.random(generator=generator, translation=0.0)
    offset = target.centre() - source.centre()
    pose = Pose(turn.rotation, -(turn.rotation @ offset))
    flips = torch.rand(len(target), generator=generator) < 0.5
    moved = (turn @ target.shifted(target.centre())).flipped(flips)
    return AnchoredLines.of(source.shifted(source.centre())), AnchoredLines.of(moved), pose


def is_proposed(poses: Pose, truth: Pose) -> bool:
    reference = Pose(truth.rotation[None], truth.translation[None])
    return bool(close_poses(poses, reference, THRESHOLD).any())


@pytest.mark.parametrize("seed", range(4))
def test_the_pose_is_among_the_first(seed):
    source, target, pose = halves(seed)
    poses = match_free_poses(source, target, THRESHOLD)
    assert is_proposed(poses[:20], pose)
    assert is_proposed(match_free_poses(target, source, THRESHOLD)[:20], pose.inverse())


def test_poses_are_rigid_motions_in_double_precision_and_no_more_than_asked_for():
    source, target, _ = halves(0)
    poses = match_free_poses(source, target, THRESHOLD, count=7)
    assert poses.translation.shape == (7, 3)
    assert poses.translation.dtype == torch.float64
    eye = torch.eye(3, dtype=torch.float64).expand(7, 3, 3)
    assert torch.allclose(poses.rotation @ poses.rotation.mT, eye, atol=1e-12)
    assert torch.allclose(torch.linalg.det(poses.rotation), torch.ones(7, dtype=torch.float64))


def test_the_same_maps_give_the_same_poses():
    source, target, _ = halves(1)
    first, second = (match_free_poses(source, target, THRESHOLD, 20) for _ in range(2))
    assert torch.equal(first.matrix(), second.matrix())


def test_infinite_lines_may_be_searched_too():
    source, target, _ = halves(2)
    sides = [AnchoredLines(lines.lines.infinite(), lines.anchor, None) for lines in (source, target)]
    assert len(match_free_poses(*sides, THRESHOLD, 10).rotation) == 10


def test_parallel_lines_have_no_poses():
    lines, other, _ = halves(3)
    vertical = lines[lines.lines.direction[:, 2].abs() > 0.99]
    assert match_free_poses(vertical, other, THRESHOLD).rotation.shape == (0, 3, 3)
    assert match_free_poses(other, vertical, THRESHOLD).rotation.shape == (0, 3, 3)


def test_lines_without_a_dominant_direction_have_no_poses():
    count = torch.arange(400, dtype=torch.float64)
    z, angle = 1 - (2 * count + 1) / 400, math.pi * (3 - math.sqrt(5)) * count
    half = torch.stack([(1 - z * z).sqrt() * angle.cos(), (1 - z * z).sqrt() * angle.sin(), z], -1)
    middle = torch.rand(400, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lines = AnchoredLines.of(LineSet.from_segments(torch.stack([middle - half, middle + half], 1)))
    assert match_free_poses(lines, lines, THRESHOLD).rotation.shape[0] == 0
