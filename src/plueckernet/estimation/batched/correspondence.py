"""The probability that close lines are the same line, for many poses: the batched form of ``correspondence``."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.batched.close_pairs import PairLists, line_sums
from plueckernet.estimation.batched.lines import mean
from plueckernet.estimation.correspondence import CorrespondenceSettings

# Bounds and first guesses, as in `correspondence`.
_MATCHED_BOUNDS = 0.05, 0.999
_PARALLEL_BOUNDS = 0.02, 0.98
_MATCHED_FRACTION, _WRONG_PAIRS, _PARALLEL_FRACTION = 0.7, 0.5, 0.5


def match_probability(
    pairs: PairLists,
    position: Float[Tensor, "q p"],
    direction: Float[Tensor, "q p"],
    settings: CorrespondenceSettings,
) -> tuple[Float[Tensor, "q p"], Float[Tensor, "q p"]]:
    """The probability that a pair is a match, and that no competing pair is the match instead; zero for padding."""
    competitors = pairs.competitors + settings.unseen_competitors
    crowding = competitors / mean(competitors, pairs.mask)[:, None]
    real = pairs.mask.to(position.dtype)
    limit = pairs.max_matches.clamp_min(1).to(position.dtype)[:, None]
    likely = position * direction / crowding * real
    matched, wrong, parallel = (
        torch.full_like(limit, guess) for guess in (_MATCHED_FRACTION, _WRONG_PAIRS, _PARALLEL_FRACTION)
    )
    count = real.sum(-1, keepdim=True)
    from_target = ((1 - matched) / matched).sqrt()  # what a line of the target weighs elsewhere
    for _ in range(settings.iterations):
        alike = parallel * direction
        wrong_direction = alike + (1 - parallel)
        density = likely / (wrong * wrong_direction)
        unmatched = ((1 - matched) / matched).sqrt()  # weight of a line having no match
        to_target = density / _competing_sums(density / from_target, pairs, 0).add_(unmatched)
        from_target = _competing_sums(to_target, pairs, 1).add_(unmatched)
        odds = to_target / from_target
        doubt = real / (1 + odds)
        doubts = doubt.sum(-1, keepdim=True)
        matched = ((count - doubts) / limit).clamp_(*_MATCHED_BOUNDS)
        wrong = doubts.clamp_min(1.0) / limit
        alike_doubt = (doubt * alike).div_(wrong_direction).sum(-1, keepdim=True)
        parallel = (alike_doubt / doubts.clamp_min(1e-9)).clamp_(*_PARALLEL_BOUNDS)
    total = _sums(density, pairs, 0) + _sums(density, pairs, 1) - density
    return odds * doubt, density / total.clamp_min(1e-300)


def _sums(value: Float[Tensor, "q p"], pairs: PairLists, side: int) -> Float[Tensor, "q p"]:
    """The sum over all pairs of the same line."""
    rows, size = pairs.rows[side], pairs.line_counts[side].shape[1]
    return line_sums(value, rows, size).gather(1, rows)


def _competing_sums(value: Float[Tensor, "q p"], pairs: PairLists, side: int) -> Float[Tensor, "q p"]:
    """The same without the pair itself."""
    return _sums(value, pairs, side).sub_(value).clamp_min_(0)
