"""Every consistent group of matches is proposed, not only the largest."""

import math

import pytest
import torch
from tests.estimation.lines_for_tests import errors

from plueckernet.errors import InputError
from plueckernet.estimation.consistency import MatchGraph
from plueckernet.estimation.hypotheses import HypothesisSettings, propose_poses, seed_pairs
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer
from plueckernet.geometry import LineSet, Pose

THRESHOLD = InlierThreshold(0.05, 0.14)


def grouped_matches(counts, seed=0):
    """Row matches of segments: each group agrees on its own pose."""
    generator = torch.Generator().manual_seed(seed)
    poses = [Pose.random(generator=generator, translation=1.0) for _ in counts]
    sides = []
    for count, pose in zip(counts, poses, strict=True):
        ends = torch.randn(count, 2, 3, generator=generator, dtype=torch.float64)
        source = LineSet.from_segments(ends)
        sides.append((ends, (pose @ source).endpoints))
    source, target = (AnchoredLines.of(LineSet.from_segments(torch.cat(side))) for side in zip(*sides, strict=True))
    origin = torch.zeros(3, dtype=torch.float64)
    rows = torch.arange(sum(counts))
    maps = MapPair(source, target, rows, rows, origin, origin, 1.0, THRESHOLD)
    return maps, RowScorer(source, target, THRESHOLD), torch.ones(sum(counts), dtype=torch.float64), poses


def closest(hypotheses, pose):
    return min(max(errors(hypotheses.poses[i], pose)) for i in range(len(hypotheses.scores)))


def test_a_small_group_is_proposed_in_the_second_round():
    maps, scorer, probability, poses = grouped_matches((200, 12))
    drawn, seeded, match_free = propose_poses(maps, scorer, probability, HypothesisSettings(draws=200))
    assert closest(drawn, poses[0]) < 1e-3
    assert closest(drawn, poses[1]) > 1
    assert closest(seeded, poses[1]) < 1e-3
    assert seeded.drawn > drawn.drawn > 0
    assert match_free.scores.tolist() == sorted(match_free.scores.tolist(), reverse=True)


def test_seeds_are_pairs_of_one_group_that_are_not_parallel():
    _, scorer, probability, _ = grouped_matches((40, 40))
    first, second = seed_pairs(MatchGraph.of(scorer, probability), scorer, 6)
    assert len(first) > 100
    assert bool((first < second).all())
    assert float(((first < 40) == (second < 40)).float().mean()) > 0.95
    direction = scorer.source.lines.direction
    assert bool(((direction[first] * direction[second]).sum(-1).abs() <= math.cos(THRESHOLD.angle)).all())


def test_matches_need_probabilities():
    maps, scorer, probability, _ = grouped_matches((10,))
    with pytest.raises(InputError, match="as many probabilities"):
        next(propose_poses(maps, scorer, probability[:5]))
