"""Match probabilities are calibrated: of pairs with probability one half, half are right."""

import math

import numpy as np
import torch

from plueckernet.estimation.correspondence import ClosePairs
from plueckernet.estimation.noise import direction_variance_scale, tail_density
from plueckernet.estimation.scoring import InlierThreshold

SIGMA, LIMIT = 0.2, 1.0  # one sigma of position and direction; threshold of both
FREEDOM = 5.0


def clutter(lines: int = 2000, matched_fraction: float = 0.7, wrong: int = 2, parallel: float = 1.0, seed: int = 0):
    """Each source line sees wrong lines anywhere within the threshold and, with a probability, its match.

    Returns the densities of position and direction relative to uniform ones, and which pairs are right.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(rows):
        return torch.randn(rows, 2, generator=generator, dtype=torch.float64)

    matched = torch.rand(lines, generator=generator) < matched_fraction
    first = torch.cat([torch.arange(lines)[matched], torch.arange(lines).repeat_interleave(wrong)])
    right = torch.arange(len(first)) < int(matched.sum())
    second = torch.arange(len(first))  # a wrong line is nobody's match
    anywhere = LIMIT * torch.rand(len(first), generator=generator, dtype=torch.float64).sqrt()
    distance = torch.where(right, SIGMA * normal(len(first)).norm(dim=-1), anywhere)
    angle = SIGMA * normal(len(first)).norm(dim=-1)
    any_way = torch.rand(len(first), generator=generator) >= parallel
    other = LIMIT * torch.rand(len(first), generator=generator, dtype=torch.float64).sqrt()
    angle = torch.where(~right & any_way, other, angle)
    keep = (distance < LIMIT) & (angle < LIMIT)
    density = [(-(r / SIGMA).square() / 2).exp() * LIMIT**2 / (2 * SIGMA**2) for r in (distance[keep], angle[keep])]
    rows = torch.stack([first[keep], second[keep]], -1)
    return ClosePairs(rows, (lines, len(first)), InlierThreshold(LIMIT, LIMIT)), density, right[keep]


def calibrated(weight, right):
    for low, high in ((0.02, 0.3), (0.3, 0.7), (0.7, 0.98)):
        inside = (weight >= low) & (weight < high)
        if int(inside.sum()) >= 100:
            yield float(weight[inside].mean()), float(right[inside].double().mean())


def test_probabilities_are_kept_among_parallel_lines_and_among_others():
    for parallel in (1.0, 0.5, 0.0):
        pairs, density, right = clutter(parallel=parallel)
        weight, _ = pairs.probability(*density)
        bins = list(calibrated(weight, right))
        assert len(bins) >= 2
        for said, true in bins:
            assert abs(said - true) < 0.12, (parallel, said, true)
        assert float(weight[right].mean()) > 0.6 > 0.2 > float(weight[~right].mean())


def test_direction_tells_nothing_where_all_is_parallel():
    pairs, (position, direction), _ = clutter(parallel=1.0)
    with_it, _ = pairs.probability(position, direction)
    scrambled, _ = pairs.probability(position, direction.flip(0))
    assert float((with_it - scrambled).abs().mean()) < 0.02
    pairs, (position, direction), right = clutter(parallel=0.0)
    with_it, scrambled = (pairs.probability(position, density)[0][right] for density in (direction, direction.flip(0)))
    assert float(with_it.mean()) > 0.1 + float(scrambled.mean())


def test_a_line_has_one_match_at_most():
    rows = torch.tensor([[0, 0], [0, 1], [1, 2], [2, 3], [3, 4]])
    pairs = ClosePairs(rows, (4, 5), InlierThreshold())
    dense = torch.full((5,), 50.0, dtype=torch.float64)
    weight, exclusive = pairs.probability(dense, dense)
    assert pairs.competitors.tolist() == [1, 1, 0, 0, 0]
    assert torch.allclose(weight[:2], torch.full((2,), 0.5, dtype=torch.float64), atol=0.05)
    assert torch.allclose(exclusive, torch.tensor([0.5, 0.5, 1, 1, 1], dtype=torch.float64), atol=0.01)
    assert float(weight[2:].min()) > 0.9


def test_mutual_best_pairs():
    pairs = ClosePairs(torch.tensor([[0, 0], [0, 1], [1, 1], [2, 2]]), (3, 3), InlierThreshold())
    assert pairs.mutual_best(np.array([0.3, 0.6, 0.5, 0.1])).tolist() == [False, True, False, True]


def test_tails_are_a_density_of_unit_variance():
    square = torch.linspace(0, 40_000, 4_000_001, dtype=torch.float64)
    half = tail_density(square, FREEDOM) / 2  # over the plane, d(area) / (2 pi) is half of d(square)
    assert math.isclose(float(torch.trapezoid(half, square)), 1.0, abs_tol=1e-3)
    assert math.isclose(float(torch.trapezoid(half * square, square)), 2.0, abs_tol=0.02)  # one on each axis


def test_the_variance_scale_fits_heavy_tails():
    """Mean squares over the variance scale are the variance, at which the likelihood of Student's t is greatest."""
    generator = torch.Generator().manual_seed(0)
    chi = torch.randn(400_000, 5, generator=generator, dtype=torch.float64).square().mean(-1)
    square = torch.randn(400_000, 2, generator=generator, dtype=torch.float64).square().sum(-1) / chi
    variance = 1.0
    for _ in range(200):
        variance = float((square / direction_variance_scale(square / variance, FREEDOM)).mean()) / 2
    assert math.isclose(variance, 5 / 3, rel_tol=0.01)  # of Student's t with five degrees of freedom
