"""Every consistent group of matches is proposed, not only the largest."""

import math

import pytest
import torch
from tests.estimation.lines_for_tests import errors

from plueckernet.errors import InputError
from plueckernet.estimation.consistency import MatchGraph
from plueckernet.estimation.hypotheses import HypothesisSettings, propose_poses, seed_pairs
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.ransac import Hypotheses, draw_pairs, solve_pairs
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


def test_a_small_group_is_proposed_beside_the_largest():
    maps, scorer, probability, poses = grouped_matches((200, 12))
    drawn = solve_pairs(scorer, draw_pairs(MatchGraph.of(scorer, probability).draw_weights(), 200, 0))
    drawn = Hypotheses.none(2000).merged(drawn, scorer.scores(drawn, probability), 200)
    assert closest(drawn, poses[0]) < 1e-3
    assert closest(drawn, poses[1]) > 1
    proposed, match_free = propose_poses(maps, scorer, probability, HypothesisSettings(draws=200))
    assert closest(proposed, poses[0]) < 1e-3
    assert closest(proposed, poses[1]) < 1e-3
    assert match_free.scores.tolist() == sorted(match_free.scores.tolist(), reverse=True)


def test_matches_of_parts_have_a_round_of_their_own():
    maps, scorer, probability, poses = grouped_matches((60, 9, 9))
    rows = torch.arange(78)
    asked = []

    def parts():
        for part_rows in (rows[60:69], rows[69:]):
            asked.append(len(part_rows))
            yield maps.match_scorer(part_rows, part_rows), Matches(part_rows, part_rows, probability[part_rows])

    largest = rows[:60]
    scorer = RowScorer(maps.source[largest], maps.target[largest], THRESHOLD)
    rounds = propose_poses(maps, scorer, probability[:60], parts=parts())
    first = next(rounds)
    assert asked == []
    assert min(closest(first, pose) for pose in poses[1:]) > 1
    second = next(rounds)
    assert asked == [9, 9]
    assert max(closest(second, pose) for pose in poses[1:]) < 1e-3
    assert second.scores.tolist() == sorted(second.scores.tolist(), reverse=True)


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
