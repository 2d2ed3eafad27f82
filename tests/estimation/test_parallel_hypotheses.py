"""Maps of poles get hypotheses, and ordinary maps are told from them."""

import math

import pytest
import torch
from tests.estimation.lines_for_tests import errors, matched_lines

from plueckernet.estimation.consistency import MatchGraph
from plueckernet.estimation.parallel_hypotheses import is_nearly_parallel, parallel_poses
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer
from plueckernet.geometry import LineSet, Pose

THRESHOLD = InlierThreshold(0.05, math.radians(8))


def pole_matches(wrong: int, seed: int) -> tuple[AnchoredLines, AnchoredLines, Pose]:
    """Sixty poles that stand at random, matched with their moved copies; the first matches are wrong."""
    generator = torch.Generator().manual_seed(seed)
    foot = torch.rand(60, 3, generator=generator, dtype=torch.float64) * torch.tensor([3, 3, 0.5])
    lean = 0.02 * torch.randn(60, 3, generator=generator, dtype=torch.float64)
    height = torch.rand(60, 1, generator=generator, dtype=torch.float64) + 0.5
    top = foot + lean + height * torch.tensor([0, 0, 1])
    lines = LineSet.from_segments(torch.stack([foot, top], 1))
    pose = Pose.random(generator=generator)
    rows = torch.arange(60)
    rows[:wrong] = rows[:wrong].roll(7)
    return AnchoredLines.of(lines), AnchoredLines.of((pose @ lines)[rows].replaced(ids=None)), pose


@pytest.mark.parametrize("wrong", [0, 30, 50])
def test_poles_with_wrong_matches_have_the_pose_among_their_hypotheses(wrong):
    for seed in range(3):
        source, target, pose = pole_matches(wrong, seed)
        scorer = RowScorer(source, target, THRESHOLD)
        poses = parallel_poses(scorer, MatchGraph.of(scorer, torch.ones(60)))
        best = poses[scorer.scores(poses, torch.ones(60)).argmax()].to(torch.float64)
        turn, shift = errors(best, pose)
        assert turn < 5
        assert shift < 0.2


def test_poles_are_nearly_parallel_and_random_lines_are_not():
    poles, _, _ = pole_matches(0, 0)
    other, _, _, _ = matched_lines(100)
    assert is_nearly_parallel(poles)
    assert not is_nearly_parallel(other)


def test_matches_that_are_not_parallel_give_no_poses():
    axes = torch.eye(3, dtype=torch.float64)
    lines = AnchoredLines.of(LineSet.from_segments(torch.stack([-axes, axes + 0.1], 1)))
    scorer = RowScorer(lines, lines, THRESHOLD)
    assert parallel_poses(scorer, MatchGraph.of(scorer, torch.ones(3))).rotation.shape == (0, 3, 3)
