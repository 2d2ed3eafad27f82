"""The losses are their formulas."""

import math

import torch

from plueckernet.models import matchability_loss, matching_loss
from plueckernet.models.matcher import MatchOutput


def example(b: int = 3, m: int = 5, n: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    log_w = torch.randn(b, m * n, generator=generator, dtype=torch.float64).log_softmax(-1).unflatten(1, (m, n))
    return log_w, torch.rand(b, m, n, generator=generator) < 0.2


def test_the_balanced_loss_is_a_double_loop():
    log_w, truth = example()
    log_w[1, 3:] = -torch.inf  # padding
    total = 0.0
    for w, c in zip(log_w.exp(), truth, strict=True):
        terms: dict[bool, list[float]] = {True: [], False: []}
        for i in range(5):
            for j in range(4):
                if w[i, j] > 0:
                    terms[bool(c[i, j])].append(-math.log(w[i, j] if c[i, j] else 1 - w[i, j]))
        total += sum(sum(term) / len(term) for term in terms.values() if term) / len(log_w)
    torch.testing.assert_close(matching_loss(log_w, truth), torch.tensor(total, dtype=torch.float64))


def test_gradients():
    log_w, truth = example()
    assert torch.autograd.gradcheck(lambda v: matching_loss(v, truth), [log_w.requires_grad_()])


def test_certainty_and_padding_give_finite_gradients():
    log_w = torch.tensor([[[0.0, -200.0], [-torch.inf, -torch.inf]]], requires_grad=True)
    truth = torch.tensor([[[False, True], [True, False]]])
    loss = matching_loss(log_w, truth)
    loss.backward()
    assert loss.isfinite()
    assert log_w.grad.isfinite().all()


def test_no_true_pair_leaves_the_false_ones():
    log_w, truth = example()
    assert matching_loss(log_w, torch.zeros_like(truth)).isfinite()


def test_matchabilities_are_judged_by_likelihood():
    log_p, truth = example(1, 2, 2)
    truth = torch.tensor([[[True, False], [False, False]]])
    r, s = torch.tensor([[0.9, 0.2]], dtype=torch.float64), torch.tensor([[0.6, 0.5]], dtype=torch.float64)
    expected = -(math.log(0.9) + math.log(0.8) + math.log(0.6) + math.log(0.5)) / 4
    torch.testing.assert_close(float(matchability_loss(MatchOutput(log_p, r, s), truth)), expected)
