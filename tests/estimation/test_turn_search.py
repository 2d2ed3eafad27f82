"""The pose of maps whose lines are nearly all parallel is proposed without a match, from turns and votes of ends."""

import math

import pytest
import torch
from tests.estimation.test_direction_search import building, is_proposed

from plueckernet.estimation import turn_search
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.estimation.turn_search import turned_poses
from plueckernet.geometry import LineSet, Pose

THRESHOLD = InlierThreshold(0.03, math.radians(8))
UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


def posts(seed: int, count: int = 120) -> LineSet:
    """Window posts of four facades: at random places along these, on three floors, of two heights."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.rand(count, generator=generator, dtype=torch.float64) * 2 - 1
    facade, floor = (torch.randint(kinds, (count,), generator=generator) for kinds in (4, 3))
    side = torch.where(facade < 2, 1.0, -1.0).double()
    x, y = torch.where(facade % 2 == 0, place, side), torch.where(facade % 2 == 0, side, 0.7 * place)
    foot = torch.stack([x, y, 0.4 * floor.double() - 0.5], -1)
    height = torch.where(torch.rand(count, generator=generator) < 0.3, 0.3, 0.2).double()
    top = foot + height[:, None] * UP
    lines = torch.stack([foot, top], 1)
    return LineSet.from_segments(lines + 0.002 * torch.randn(count, 2, 3, generator=generator, dtype=torch.float64))


def parts(seed: int, shared: float = 0.2, upright: bool = False) -> tuple[AnchoredLines, AnchoredLines, Pose]:
    """Two parts of the posts that share those in the middle, each in a frame of its own, and the pose between them."""
    lines, generator = posts(seed), torch.Generator().manual_seed(seed + 100)
    x = lines.midpoints()[:, 0]
    source, target = lines[x < shared].replaced(ids=None), lines[x > -shared].replaced(ids=None)
    turn = Pose.random(generator=generator, translation=0.0)
    if upright:
        turn = Pose.exp(torch.cat([2.0 * UP, torch.zeros(3, dtype=torch.float64)]))
    offset = target.centre() - source.centre()
    pose = Pose(turn.rotation, -(turn.rotation @ offset))
    flips = torch.rand(len(target), generator=generator) < 0.5
    moved = (turn @ target.shifted(target.centre())).flipped(flips)
    return AnchoredLines.of(source.shifted(source.centre())), AnchoredLines.of(moved), pose


@pytest.mark.parametrize("seed", range(4))
def test_the_pose_is_among_the_first(seed):
    source, target, pose = parts(seed)
    assert is_proposed(turned_poses(source, target, THRESHOLD)[:40], pose)
    assert is_proposed(turned_poses(target, source, THRESHOLD)[:40], pose.inverse())


def test_a_known_vertical_leaves_turns_about_it():
    source, target, pose = parts(1, upright=True)
    poses = turned_poses(source, target, THRESHOLD, up=UP)
    assert is_proposed(poses[:40], pose)
    assert torch.allclose(poses.rotation @ UP, UP.expand(len(poses.translation), 3), atol=1e-6)


def test_poses_are_distinct_rigid_motions_and_no_more_than_asked_for():
    source, target, _ = parts(0)
    poses = turned_poses(source, target, THRESHOLD, count=7)
    assert poses.translation.shape == (7, 3)
    assert poses.translation.dtype == torch.float64
    eye = torch.eye(3, dtype=torch.float64).expand(7, 3, 3)
    assert torch.allclose(poses.rotation @ poses.rotation.mT, eye, atol=1e-12)
    assert torch.allclose(torch.linalg.det(poses.rotation), torch.ones(7, dtype=torch.float64))
    apart = (poses.translation[:, None] - poses.translation).norm(dim=-1)
    turned = (poses.rotation[:, None] - poses.rotation).flatten(2).norm(dim=-1)
    assert float((apart + turned + torch.eye(7)).min()) > 0.02


def test_a_row_shifted_along_itself_is_no_peak():
    """All but five posts stand in a regular row; these alone tell where along it the pose is."""
    row = torch.stack([0.1 * torch.arange(-10, 11), torch.zeros(21), torch.zeros(21)], -1).double()
    apart = torch.tensor([[0.3, 0.5, 0], [-0.2, 0.45, 0], [0.05, -0.4, 0], [0.62, -0.3, 0], [-0.7, 0.3, 0]]).double()
    foot = torch.cat([row, apart])
    lines = LineSet.from_segments(torch.stack([foot, foot + 0.4 * UP], 1))
    sides = AnchoredLines.of(lines), AnchoredLines.of(lines)
    poses = turned_poses(*sides, THRESHOLD)
    assert float(poses.translation[0].norm()) < 2 * THRESHOLD.distance
    assert is_proposed(poses[:1], Pose.identity())


def test_maps_of_several_directions_and_infinite_lines_have_none():
    lines = AnchoredLines.of(building(0))
    assert turned_poses(lines, lines, THRESHOLD).rotation.shape == (0, 3, 3)
    poles = AnchoredLines.of(posts(0))
    infinite = AnchoredLines(poles.lines.infinite(), poles.anchor, None)
    assert turned_poses(infinite, infinite, THRESHOLD).rotation.shape == (0, 3, 3)


def test_a_vertical_across_the_lines_gives_no_pose():
    poles = AnchoredLines.of(posts(0))
    across = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    assert turned_poses(poles, poles, THRESHOLD, up=across).rotation.shape == (0, 3, 3)


def test_fine_thresholds_and_large_maps_cost_no_more(monkeypatch):
    """The grid has a largest size, whatever the inlier distance."""
    grids = []
    of = turn_search._TurnGrid.of
    monkeypatch.setattr(turn_search._TurnGrid, "of", lambda *sides: grids.append(of(*sides)) or grids[-1])
    lines = posts(0, 30)
    for factor in (1.0, 100.0):
        sides = [AnchoredLines.of(lines.scaled(factor)) for _ in range(2)]
        turned_poses(*sides, InlierThreshold(0.001, 0.1))
    for grid in grids:
        assert max(grid.size, len(grid.angle)) <= 250
        assert grid.layers <= 110
