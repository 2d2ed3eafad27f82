"""The kernel finds the partners that comparing all lines with matrix products finds."""

import pytest
import torch
from tests.estimation.lines_for_tests import matched_lines

from plueckernet.estimation import partners
from plueckernet.estimation.partners import best_partners, best_squares, line_spacing
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import stacked
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="there are no kernels")
THRESHOLDS = [
    InlierThreshold(0.5, 0.2),
    InlierThreshold(0.5, 0.2, directed=True),
    InlierThreshold(0.5, 0.2, slope=0.1),
    InlierThreshold(0.5, 2.0, directed=True, slope=0.3),
]


def segments(lines: AnchoredLines) -> AnchoredLines:
    """Segments of different lengths about the anchors."""
    arm = lines.lines.direction * torch.linspace(0.01, 1, len(lines), dtype=torch.float64)[:, None]
    return AnchoredLines.of(LineSet.from_segments(torch.stack([lines.anchor - arm, lines.anchor + arm], 1)))


def maps(kind: str, count: int) -> tuple[AnchoredLines, AnchoredLines, Pose]:
    source, target, pose, _ = matched_lines(count=80, seed=3)
    others = [Pose.random(generator=torch.Generator().manual_seed(seed), translation=5.0) for seed in range(4)]
    if kind == "segments":
        source, target = segments(source), segments(target)
    if kind == "parallel":
        direction = torch.tensor([0.0, 0, 1], dtype=torch.float64).expand(80, 3)
        source = AnchoredLines.of(LineSet.from_point_direction(source.anchor, direction))
        target = AnchoredLines.of(LineSet.from_point_direction(target.anchor, direction))
    return source[torch.arange(30)], target[torch.arange(count)], stacked([pose, Pose.identity(), *others])


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
@pytest.mark.parametrize("count", [80, 9, 1])
def test_best_partners_are_those_of_all_pairs(kind, count, threshold, monkeypatch):
    source, target, poses = maps(kind, count)
    compared = best_partners(*(value.to(torch.float32) for value in (poses, source, target)), threshold)
    single = best_squares(*(value.to(torch.float32) for value in (poses, source, target)), threshold)
    monkeypatch.setattr(partners, "_is_compiled", lambda *_: False)
    expected = best_partners(poses, source, target, threshold)
    for square, other in ((compared.square, expected.square), (compared.target_square, expected.target_square)):
        torch.testing.assert_close(square.double(), other, rtol=1e-4, atol=1e-3)
    assert torch.equal(single, compared.square)
    for rows, others, square in (
        (compared.nearest, expected.nearest, expected.square),
        (compared.target_nearest, expected.target_nearest, expected.target_square),
    ):
        assert bool((rows == others)[square < 1].all())


def test_no_poses_and_no_lines_and_lines_that_are_not_finite():
    source, target, poses = (value.to(torch.float32) for value in maps("segments", 20))
    assert best_squares(poses[:0], source, target, THRESHOLDS[0]).shape == (0, 30)
    assert best_squares(poses, source[torch.arange(0)], target, THRESHOLDS[0]).shape == (6, 0)
    broken = Pose(poses.rotation, poses.translation * torch.nan)
    result = best_partners(broken, source, target, THRESHOLDS[0])
    assert not bool((result.square < 1).any())
    assert result.nearest.tolist() == [[0] * 30] * 6


@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
def test_the_spacing_of_lines_is_that_of_tensors(kind, monkeypatch):
    _, lines, _ = maps(kind, 80)
    spacing = line_spacing(lines, InlierThreshold(1.0, 0.14))
    monkeypatch.setattr(partners, "compiled", lambda *_: False)
    assert spacing == pytest.approx(line_spacing(lines, InlierThreshold(1.0, 0.14)), rel=1e-6)


def test_the_spacing_of_a_single_line_and_of_lines_that_are_not_finite(monkeypatch):
    _, lines, _ = maps("segments", 20)
    single, threshold = lines[torch.arange(1)], InlierThreshold(1.0, 0.14)
    broken = AnchoredLines(lines.lines, lines.anchor * torch.nan, lines.half_length)
    spacings = [line_spacing(given, threshold) for given in (single, broken)]
    monkeypatch.setattr(partners, "compiled", lambda *_: False)
    assert spacings == pytest.approx([line_spacing(given, threshold) for given in (single, broken)], nan_ok=True)
