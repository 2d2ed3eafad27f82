"""Wrong matches do not matter, the same seed gives the same answer, and nothing to find gives nothing."""

import pytest
import torch
from tests.estimation.lines_for_tests import errors, matched_lines

from plueckernet.errors import InputError
from plueckernet.estimation.consistency import compatibility, match_support, second_order
from plueckernet.estimation.ransac import RansacSettings, ransac_pose
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer
from plueckernet.geometry import LineSet, Pose


def hypotheses(source, target, probability, threshold=InlierThreshold(), settings=RansacSettings(), seed=0):
    return ransac_pose(RowScorer(source, target, threshold), probability, settings, seed)


def uniform(count: int) -> torch.Tensor:
    return torch.ones(count, dtype=torch.float64)


@pytest.mark.parametrize("wrong", [0.0, 0.5, 0.9, 0.97])
def test_finds_the_pose_among_wrong_matches(wrong):
    for seed in range(5):
        source, target, pose, _ = matched_lines(wrong=wrong, seed=seed)
        result = hypotheses(source, target, uniform(200))
        turn, shift = errors(result.poses[0], pose)
        assert turn < 5
        assert shift < 0.5


def test_same_seed_same_answer():
    source, target, _, _ = matched_lines(wrong=0.8)
    first, second = (hypotheses(source, target, uniform(200), seed=3) for _ in range(2))
    assert torch.equal(first.poses.matrix(), second.poses.matrix())
    assert torch.equal(first.scores, second.scores)


def test_stops_early_when_it_may():
    source, target, _, _ = matched_lines(wrong=0.2)
    assert hypotheses(source, target, uniform(200)).drawn < 1000
    patient = hypotheses(source, target, uniform(200), settings=RansacSettings(confidence=1.0))
    assert patient.drawn == 1000


def test_hypotheses_come_best_first():
    source, target, _, _ = matched_lines(wrong=0.5)
    scores = hypotheses(source, target, uniform(200)).scores
    assert bool((scores.diff() <= 0).all())


def test_matches_without_probability_are_ignored():
    source, target, pose, bad = matched_lines(wrong=0.9)
    probability = uniform(200)
    probability[:bad] = 0
    result = hypotheses(source, target, probability, settings=RansacSettings(iterations=20))
    assert errors(result.poses[0], pose)[0] < 5


def test_parallel_lines_give_no_hypothesis():
    points = torch.randn(10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lines = LineSet.from_point_direction(points, torch.tensor([[0.0, 0, 1]], dtype=torch.float64).expand(10, 3))
    result = hypotheses(AnchoredLines.of(lines), AnchoredLines.of(lines), uniform(10))
    assert len(result.scores) == 0


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_matches_give_no_hypothesis(count):
    source, target, _, _ = matched_lines(count=5)
    rows = torch.arange(count)
    assert len(hypotheses(source[rows], target[rows], uniform(count)).scores) == 0


def test_unequal_rows_are_refused():
    source, target, _, _ = matched_lines(count=5)
    with pytest.raises(InputError, match="as many probabilities"):
        hypotheses(source, target, uniform(4))
    with pytest.raises(InputError, match="as many source as target"):
        hypotheses(source, target[torch.arange(4)], uniform(5))


def test_directed_lines_need_one_sign_only():
    source, _, _, _ = matched_lines(count=50)
    pose = Pose.random(generator=torch.Generator().manual_seed(9), translation=5.0)
    target = AnchoredLines.of(pose @ source.lines, pose.translation)
    result = hypotheses(source, target, uniform(50), InlierThreshold(directed=True))
    assert errors(result.poses[0], pose)[0] < 1e-3


def test_true_matches_support_one_another():
    source, target, _, bad = matched_lines(wrong=0.8, seed=2)
    compatible = compatibility(source, target, InlierThreshold())
    assert torch.equal(compatible, compatible.mT)
    support = match_support(second_order(compatible))
    best = support.topk(40).indices
    assert float((best >= bad).double().mean()) > 0.9


def test_a_line_matched_twice_is_not_consistent_with_itself():
    source, target, _, _ = matched_lines(count=6, position=0, degrees=0)
    rows = torch.tensor([0, 0, 1, 2, 3])
    agree = compatibility(source[rows], target[torch.arange(5)], InlierThreshold(100.0, 3.0))
    assert not bool(agree[0, 1])
    assert bool(agree[0, 2])
