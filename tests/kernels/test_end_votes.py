"""Peaks of the votes of ends are those of PyTorch."""

import math

import pytest
import torch
from tests.estimation.test_turn_search import THRESHOLD, parts, posts

from plueckernet.estimation import turn_search
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.kernels.end_votes import VoteCells, end_vote_peaks
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="there are no kernels")
AROUND = turn_search._cells_around()


def turns(count: int) -> torch.Tensor:
    angle = torch.arange(count) * (2 * math.pi / count)
    return torch.stack([angle.cos(), angle.sin()], -1)


def ends(seed: int, count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    lower = torch.randn(count, 1, 3, generator=generator) * torch.tensor([8.0, 8.0, 3.0])
    return torch.cat([lower, lower + torch.tensor([0.0, 0.0, 2.0])], 1)


@pytest.mark.parametrize("limit", [1, 40, 100_000])
@pytest.mark.parametrize(("size", "layers"), [(40, 12), (17, 3), (3, 2)])
@pytest.mark.parametrize("counts", [(30, 25), (1, 40), (0, 5), (5, 0)])
def test_peaks_are_those_of_pytorch(counts, size, layers, limit):
    sides = ends(0, counts[0]), ends(1, counts[1])
    cells = VoteCells(turns(9), size, layers, AROUND)
    fast, plain = end_vote_peaks(sides, cells, limit), turn_search._peaks(sides, cells, limit)
    assert fast[0].shape == plain[0].shape
    assert torch.allclose(fast[0], plain[0], atol=1e-4)
    if limit > 40:  # of equal peaks any may be the last
        assert sorted(map(tuple, fast[1].tolist())) == sorted(map(tuple, plain[1].tolist()))


def test_poses_are_those_of_pytorch(monkeypatch):
    source, target, _ = parts(2)
    fast = turn_search.turned_poses(source, target, THRESHOLD, count=10)
    monkeypatch.setattr(turn_search, "compiled", lambda *tensors: False)
    plain = turn_search.turned_poses(source, target, THRESHOLD, count=10)
    assert torch.allclose(fast.rotation[0], plain.rotation[0], atol=1e-5)
    assert torch.allclose(fast.translation[0], plain.translation[0], atol=1e-5)


def test_numbers_that_are_none_vote_for_nothing():
    sides = ends(0, 20), ends(1, 20)
    broken = torch.cat([sides[0], torch.full((2, 2, 3), math.nan), torch.full((2, 2, 3), math.inf)])
    cells = VoteCells(turns(5), 30, 10, AROUND)
    fast, plain = end_vote_peaks((broken, sides[1]), cells, 100), end_vote_peaks(sides, cells, 100)
    assert torch.equal(fast[0], plain[0])


def test_identical_maps_have_one_best_turn():
    lines = AnchoredLines.of(posts(0, 40))
    pose = turn_search.turned_poses(lines, lines, THRESHOLD, count=1)
    assert torch.allclose(pose.rotation[0], torch.eye(3, dtype=torch.float64), atol=0.03)
    assert float(pose.translation.norm()) < 2 * THRESHOLD.distance
