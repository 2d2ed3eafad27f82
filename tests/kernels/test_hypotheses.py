"""Compiled hypotheses equal those of PyTorch."""

import pytest
import torch
from tests.kernels.test_refining import shaken_maps, small_motion

from plueckernet.estimation.consistency import MatchGraph, compatibility, second_order
from plueckernet.estimation.ransac import solve_pairs
from plueckernet.estimation.scoring import InlierThreshold, RowScorer
from plueckernet.geometry import LineSet, Pose
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="no compiled kernels")


def matched(kind, count=120, directed=False):
    """Row matches, of which a third are wrong and some have a line in common."""
    source, target = shaken_maps(kind, count)
    rows = torch.arange(len(target))
    wrong = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    columns = torch.where(rows % 3 == 0, wrong, rows)
    return RowScorer(source[rows], target[columns], InlierThreshold(0.05, 0.1, directed))


@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
@pytest.mark.parametrize("count", [1, 2, 80, 200])
def test_support_is_that_of_pytorch(kind, count):
    scorer = matched(kind, count)
    probability = torch.ones(len(scorer.source))
    plain = second_order(compatibility(scorer.source, scorer.target, scorer.threshold))
    assert torch.equal(MatchGraph.of(scorer, probability).support, plain)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["infinite", "segments", "parallel"])
def test_solutions_and_scores_are_those_of_pytorch(kind, directed, monkeypatch):
    scorer = matched(kind, directed=directed)
    count = len(scorer.source)
    pairs = torch.stack([torch.arange(count - 1), torch.arange(1, count)])
    weight = torch.rand(count, generator=torch.Generator().manual_seed(2))
    fast = solve_pairs(scorer, pairs)
    scores = scorer.scores(fast, weight)
    monkeypatch.setattr("plueckernet.estimation.ransac.compiled", lambda *tensors: False)
    monkeypatch.setattr("plueckernet.estimation.scoring.compiled", lambda *tensors: False)
    plain = solve_pairs(scorer, pairs)
    assert fast.rotation.shape == plain.rotation.shape
    assert (len(fast.rotation) > 10) == (kind != "parallel")
    assert torch.allclose(fast.rotation, plain.rotation, atol=1e-4)
    assert torch.allclose(fast.translation, plain.translation, atol=1e-3)
    assert torch.allclose(scores, scorer.scores(fast, weight), rtol=1e-3, atol=2e-3)


def test_no_pairs_give_no_poses():
    scorer = matched("segments")
    poses = solve_pairs(scorer, torch.zeros(2, 0, dtype=torch.int64))
    assert len(poses.rotation) == 0
    assert len(scorer.scores(poses, torch.ones(len(scorer.source)))) == 0


def test_numbers_that_are_none_give_no_poses():
    lines = LineSet(torch.full((3, 3), torch.nan).double(), torch.full((3, 3), torch.nan).double())
    scorer = matched("infinite", 4)
    broken = RowScorer(
        type(scorer.source)(lines, lines.moment, None), type(scorer.source)(lines, lines.moment, None), scorer.threshold
    )
    assert not MatchGraph.of(broken, torch.ones(3)).support.any()
    assert len(solve_pairs(broken, torch.tensor([[0, 1], [1, 2]])).rotation) == 0
    assert torch.isfinite(broken.scores(small_motion_batch(), torch.ones(3))).all()


def small_motion_batch():
    pose = small_motion()
    return Pose(pose.rotation[None], pose.translation[None])
