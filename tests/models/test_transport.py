"""Sinkhorn is POT's, meets its marginals, and does not mind padding, small λ or large matrices."""

import ot
import pytest
import torch

from plueckernet.errors import InputError
from plueckernet.models import transport
from plueckernet.models.transport import SinkhornConfig, pairwise_distance, sinkhorn, top_k_matches

KERNEL, LOGARITHM = 2.0, torch.inf  # cost ranges that choose the path
PATHS = pytest.mark.parametrize("cost_range", [KERNEL, LOGARITHM])


def problem(m: int, n: int, batch: int = 1, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(m + n)
    cost = 2 * torch.rand(batch, m, n, generator=generator, dtype=torch.float64)
    r, s = (torch.randn(batch, k, generator=generator, dtype=torch.float64).log_softmax(-1) for k in (m, n))
    return cost.to(dtype), r.to(dtype), s.to(dtype)


@PATHS
@pytest.mark.parametrize("size", [(20, 30), (30, 20), (1, 7), (7, 1)])
def test_equals_pot_after_any_number_of_iterations(cost_range, size):
    cost, log_r, log_s = problem(*size)
    ours = sinkhorn(cost, log_r, log_s, SinkhornConfig(0.1, 30), cost_range=cost_range)[0].exp()
    # POT updates the second potential first, so it solves the transposed problem in the same order.
    r, s = log_r[0].exp().numpy(), log_s[0].exp().numpy()
    theirs = ot.sinkhorn(s, r, cost[0].T.numpy(), 0.1, numItermax=30, stopThr=0, warn=False).T
    torch.testing.assert_close(ours, torch.from_numpy(theirs), atol=1e-6, rtol=0)


@PATHS
def test_meets_its_marginals(cost_range):
    cost, log_r, log_s = problem(40, 25)
    weights = sinkhorn(cost, log_r, log_s, SinkhornConfig(0.1, 500), cost_range=cost_range).exp()
    torch.testing.assert_close(weights.sum(-1), log_r.exp(), atol=1e-8, rtol=0)
    torch.testing.assert_close(weights.sum(-2), log_s.exp(), atol=1e-8, rtol=0)


def test_float32_survives_small_regularisation():
    cost, log_r, log_s = problem(60, 80)
    config = SinkhornConfig(0.01, 30)
    exact = sinkhorn(cost, log_r, log_s, config, cost_range=KERNEL)
    rough = sinkhorn(cost.float(), log_r.float(), log_s.float(), config, cost_range=KERNEL)
    assert rough.isfinite().all()
    torch.testing.assert_close(rough.exp().double(), exact.exp(), atol=1e-5, rtol=1e-2)


def test_the_two_paths_agree_in_float32():
    cost, log_r, log_s = problem(50, 50, dtype=torch.float32)
    a, b = (sinkhorn(cost, log_r, log_s, cost_range=c) for c in (KERNEL, LOGARITHM))
    torch.testing.assert_close(a, b, atol=2e-4, rtol=0)


@PATHS
def test_padding_changes_nothing(cost_range):
    cost, log_r, log_s = problem(12, 15)
    unpadded = sinkhorn(cost, log_r, log_s, cost_range=cost_range)
    padded = sinkhorn(
        torch.nn.functional.pad(cost, (0, 5, 0, 3), value=1.0),
        torch.nn.functional.pad(log_r, (0, 3), value=-torch.inf),
        torch.nn.functional.pad(log_s, (0, 5), value=-torch.inf),
        cost_range=cost_range,
    )
    torch.testing.assert_close(padded[:, :12, :15], unpadded, atol=1e-9, rtol=0)
    assert padded[:, 12:].isneginf().all()
    assert padded[:, :, 15:].isneginf().all()


@PATHS
def test_gradients(cost_range):
    inputs = [value.requires_grad_() for value in problem(5, 4, batch=2)]

    def solve(*values: torch.Tensor) -> torch.Tensor:
        return sinkhorn(*values, SinkhornConfig(0.2, 6), cost_range=cost_range)

    assert torch.autograd.gradcheck(solve, inputs)


@PATHS
def test_gradient_is_finite_with_padding(cost_range):
    cost, log_r, log_s = problem(5, 4)
    cost.requires_grad_()
    r = log_r.masked_fill(torch.arange(5) > 2, -torch.inf)
    weights = sinkhorn(cost, r, log_s, cost_range=cost_range)
    weights[weights > -torch.inf].sum().backward()
    assert cost.grad.isfinite().all()


@PATHS
def test_blocks_change_nothing(cost_range, monkeypatch):
    cost, log_r, log_s = problem(33, 21, batch=2)
    whole = sinkhorn(cost, log_r, log_s, cost_range=cost_range)
    monkeypatch.setattr(transport, "_BLOCK_ELEMENTS", 100)
    torch.testing.assert_close(sinkhorn(cost, log_r, log_s, cost_range=cost_range), whole)


@PATHS
@pytest.mark.parametrize("size", [(0, 3), (3, 0), (0, 0)])
def test_empty_sets(cost_range, size):
    assert sinkhorn(*problem(*size), cost_range=cost_range).shape == (1, *size)


def test_regularisation_must_be_positive():
    with pytest.raises(InputError, match="positive"):
        sinkhorn(*problem(2, 2), SinkhornConfig(0.0))


def test_pairwise_distance_is_the_distance():
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, n, 8, generator=generator, dtype=torch.float64) for n in (5, 6))
    x, y = (torch.nn.functional.normalize(v, dim=-1) for v in (x, y))
    torch.testing.assert_close(pairwise_distance(x, y), torch.cdist(x, y))
    torch.testing.assert_close(pairwise_distance(x.clone().requires_grad_(), y), torch.cdist(x, y))


@pytest.mark.parametrize("block", [7, 1 << 22])
def test_top_k_matches_are_those_of_a_full_sort(block, monkeypatch):
    monkeypatch.setattr(transport, "_BLOCK_ELEMENTS", block)
    values = torch.randn(3, 11, 9, generator=torch.Generator().manual_seed(0))
    best = top_k_matches(values, 20)
    expected, order = values.flatten(1).sort(-1, descending=True)
    torch.testing.assert_close(best.log_probability, expected[:, :20])
    torch.testing.assert_close(best.source * 9 + best.target, order[:, :20])


def test_mutual_matches_are_best_both_ways():
    values = torch.randn(1, 30, 20, generator=torch.Generator().manual_seed(0))
    best = top_k_matches(values, 50, mutual=True)
    real = best.log_probability[0] > -torch.inf
    rows, columns = best.source[0, real], best.target[0, real]
    pairs = {
        (i, j) for i in range(30) for j in range(20) if values[0, i].argmax() == j and values[0, :, j].argmax() == i
    }
    assert {*zip(rows.tolist(), columns.tolist(), strict=True)} == pairs
    assert best.log_probability.shape == (1, 20)


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("size", [(0, 4), (4, 0)])
def test_no_lines_no_matches(size, mutual):
    best = top_k_matches(torch.zeros(2, *size), 10, mutual=mutual)
    assert best.source.shape == best.target.shape == best.log_probability.shape == (2, 0)


def test_a_map_without_lines_leaves_the_gradients_of_others_finite():
    cost, log_r, log_s = problem(5, 4, batch=2)
    log_r = torch.stack([log_r[0], torch.full_like(log_r[0], -torch.inf)])
    cost.requires_grad_()
    weights = sinkhorn(cost, log_r, log_s, cost_range=KERNEL)
    assert weights[1].isneginf().all()
    weights[0].sum().backward()
    assert cost.grad.isfinite().all()
    assert cost.grad[0].abs().sum() > 0
