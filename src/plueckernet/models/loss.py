"""Losses of the matchers."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.models.matcher import MatchOutput

_MAX_PROBABILITY = 1 - 1e-6  # closer to one, log(1 - p) loses its precision in float32


def matching_loss(log_probability: Float[Tensor, "b m n"], correspondence: Bool[Tensor, "b m n"]) -> Float[Tensor, ""]:
    r"""The balanced loss of the paper, Eq. (9)-(10), averaged over the pairs of maps.

        L = Σ_ij γ_ij F(C_ij, W_ij),   F = -log W_ij       and γ = 1 / A_true   if C_ij = 1
                                       F = -log(1 - W_ij)  and γ = 1 / A_false  if C_ij = 0

    ``log_probability`` is ``log W``, with -inf at padding, which is ignored; ``correspondence`` is ``C``.
    """
    real = log_probability > -torch.inf  # (b, m, n)
    true = correspondence & real
    false = ~correspondence & real
    log_w = log_probability.masked_fill(~real, -1.0)  # any finite number, because its weight is zero
    log_complement = torch.log1p(-log_w.exp().clamp_max(_MAX_PROBABILITY))  # log(1 - W)
    return -(_mean_of(log_w, true) + _mean_of(log_complement, false)).mean()


def matchability_loss(output: MatchOutput, correspondence: Bool[Tensor, "b m n"]) -> Float[Tensor, ""]:
    """Negative log-likelihood of the matchabilities of a dual-softmax matcher.

    On each side, lines with a match and lines without one have the same total weight.
    """
    real = output.log_probability > -torch.inf  # (b, m, n)
    total = torch.zeros((), device=real.device)
    for matchability, dim in ((output.source_matchability, -1), (output.target_matchability, -2)):
        present, matched = real.any(dim), (correspondence & real).any(dim)  # (b, lines)
        p = matchability.clamp(1 - _MAX_PROBABILITY, _MAX_PROBABILITY)
        positive = _mean_of(p.log()[:, None], (matched & present)[:, None])
        negative = _mean_of((1 - p).log()[:, None], (~matched & present)[:, None])
        total = total - (positive + negative).mean() / 4
    return total


def _mean_of(value: Float[Tensor, "b m n"], where: Bool[Tensor, "b m n"]) -> Float[Tensor, " b"]:
    """Mean of the selected entries of each matrix; zero if there are none."""
    weight = where.to(value.dtype)
    return (value * weight).sum((-2, -1)) / weight.sum((-2, -1)).clamp_min(1)
