"""The grid gives the residual of the best line, as comparing with all lines does."""

import pytest
import torch

from plueckernet.estimation.line_grid import LineGrid
from plueckernet.estimation.moved_lines import MovedLines
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry import LineSet, Pose


def random_lines(count, seed, length=0.6):
    generator = torch.Generator().manual_seed(seed)
    middle = torch.randn(count, 3, generator=generator, dtype=torch.float64)
    arm = length * torch.randn(count, 3, generator=generator, dtype=torch.float64)
    return AnchoredLines.of(LineSet.from_segments(torch.stack([middle - arm, middle + arm], 1))).to(torch.float32)


def by_comparing_all(poses, moved, lines, threshold):
    points, directions = poses.act(moved.anchor)[:, :, None], (moved.lines.direction @ poses.rotation.mT)[:, :, None]
    offset = points - lines.anchor
    along = (offset * lines.lines.direction).sum(-1)
    gap = (along.abs() - lines.half_length - moved.half_length[:, None]).clamp_min(0)
    across = (offset - along[..., None] * lines.lines.direction).square().sum(-1)
    cosine = (directions * lines.lines.direction).sum(-1)
    square = (across + gap**2) / threshold.distance**2 + (1 - cosine**2) / threshold.angle**2
    square = square.masked_fill(along.abs() > lines.half_length, torch.inf)  # the middle must lie beside the partner
    return square.masked_fill(cosine < 0, torch.inf).amin(-1) if threshold.directed else square.amin(-1)


@pytest.mark.parametrize(
    "threshold", [InlierThreshold(0.02, 0.14), InlierThreshold(0.1, 0.5), InlierThreshold(0.1, 0.5, True)]
)
def test_inliers_have_the_residual_of_the_best_line(threshold):
    lines, generator = random_lines(120, 0), torch.Generator().manual_seed(1)
    poses = Pose.exp(0.03 * torch.randn(20, 6, generator=generator)).to(torch.float32)
    moved = random_lines(120, 0)[torch.arange(0, 120, 2)]
    looked_up, expected = (
        LineGrid(lines, threshold).misfit(MovedLines.of(poses, moved)),
        by_comparing_all(poses, moved, lines, threshold),
    )
    inlier = expected < 1
    assert 0.05 < inlier.float().mean() < 0.95
    assert bool((looked_up[inlier] < expected[inlier] + 1e-3).all())
    assert float((looked_up - expected)[inlier].abs().median()) < 1e-3
    assert float((looked_up[~inlier] > 1).float().mean()) > 0.95  # the others end just short of the middle


def test_a_line_far_outside_the_grid_is_still_found():
    lines = AnchoredLines.of(
        LineSet.from_segments(torch.tensor([[[50.0, 0, 0], [51.0, 0, 0]], [[0, 0, 0], [0, 1.0, 0]]]))
    )
    lines, identity = lines.to(torch.float32), Pose.identity(1, dtype=torch.float32)
    assert bool((LineGrid(lines, InlierThreshold(0.05, 0.1)).misfit(MovedLines.of(identity, lines)) < 1e-3).all())


def test_no_poses_and_no_partner():
    lines, threshold = random_lines(10, 0), InlierThreshold(0.05, 0.1)
    assert LineGrid(lines, threshold).misfit(MovedLines.of(Pose.identity(0, dtype=torch.float32), lines)).shape == (
        0,
        10,
    )
    away = Pose(torch.eye(3)[None], torch.full((1, 3), 1e3))
    assert bool((LineGrid(lines, threshold).misfit(MovedLines.of(away, lines)) > 1).all())
