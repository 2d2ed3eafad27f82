"""Compiled draws of pairs of matches equal those of PyTorch."""

import pytest
import torch
from tests.kernels.test_hypotheses import matched
from tests.kernels.test_refining import shaken_maps

from plueckernet.estimation.consistency import MatchGraph
from plueckernet.estimation.hypotheses import seed_pairs
from plueckernet.estimation.parallel_hypotheses import other_direction_fraction
from plueckernet.estimation.ransac import Hypotheses, draw_pairs, solve_pairs
from plueckernet.geometry import Pose
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="no compiled kernels")


@pytest.fixture
def plainly(monkeypatch):
    """Calls a function without kernels."""

    def call(function, *arguments):
        with monkeypatch.context() as patch:
            for module in ("ransac", "hypotheses", "parallel_hypotheses"):
                patch.setattr(f"plueckernet.estimation.{module}.compiled", lambda *tensors: False)
            return function(*arguments)

    return call


def graph_of(kind, count):
    scorer = matched(kind, count)
    probability = torch.rand(len(scorer.source), generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    return MatchGraph.of(scorer, probability), scorer


@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
@pytest.mark.parametrize("count", [1, 2, 5, 80, 200])
@pytest.mark.parametrize("draws", [1, 300, 100_000])
def test_drawn_pairs_are_those_of_pytorch(kind, count, draws, plainly):
    weight = graph_of(kind, count)[0].draw_weights()
    assert torch.equal(draw_pairs(weight, draws, 3), plainly(draw_pairs, weight, draws, 3))


@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
@pytest.mark.parametrize("count", [1, 2, 5, 80, 200])
@pytest.mark.parametrize("partners", [1, 2, 6])
def test_partners_are_those_of_pytorch(kind, count, partners, plainly):
    graph, scorer = graph_of(kind, count)
    assert torch.equal(seed_pairs(graph, scorer, partners), plainly(seed_pairs, graph, scorer, partners))


@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
@pytest.mark.parametrize("count", [1, 5, 300, 700])
def test_the_dominant_direction_is_that_of_pytorch(kind, count, plainly):
    lines = shaken_maps(kind, count)[0]
    assert other_direction_fraction(lines) == pytest.approx(plainly(other_direction_fraction, lines), abs=1e-12)


@pytest.mark.parametrize("limit", [10, 1000])
def test_merged_poses_are_those_of_pytorch(limit, plainly):
    graph, scorer = graph_of("segments", 80)
    poses = solve_pairs(scorer, seed_pairs(graph, scorer, 3))
    scores = torch.rand(len(poses.rotation), generator=torch.Generator().manual_seed(5))
    fast = Hypotheses.none(limit).merged(poses, scores)
    plain = plainly(Hypotheses.none(limit).merged, poses, scores)
    assert torch.equal(fast.scores, plain.scores)
    assert torch.allclose(fast.poses.rotation, plain.poses.rotation, rtol=0, atol=1e-15)
    assert torch.equal(fast.poses.translation, plain.poses.translation)


def test_weights_that_are_no_numbers_draw_nothing():
    weight = torch.full((4, 4), float("nan"))
    assert draw_pairs(weight, 5, 0).shape == (2, 0)
    assert Hypotheses.none(3).merged(Pose.identity(0).to(torch.float32), torch.zeros(0)).drawn == 0
