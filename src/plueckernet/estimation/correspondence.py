"""How probable it is that lines which come close to each other are one.

Of all pairs within reach some are matches; their residuals follow the noise. The others happen to lie there, anywhere
within reach, and there are more of them the more rivals a pair has. In what people build most of them are parallel to
the line they might be taken for: their directions then differ just as those of matches do, and tell nothing. So a wrong
pair has either the direction of a match or any direction, and how many have which is found on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import Tolerance

_ALONE = 0.6  # rivals that a pair is taken to have where none is seen
_SHARE = 0.05, 0.999  # of the lines that have pairs, those with a match
_PARALLEL = 0.02, 0.98  # of the wrong pairs


@dataclass(frozen=True, eq=False)
class ClosePairs:
    """Pairs of lines within reach of each other."""

    rows: Int[Tensor, "k 2"]
    counts: tuple[int, int]  # lines of either map
    reach: Tolerance

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def rivals(self) -> Int[Tensor, " k"]:
        """Other pairs that want one of the two lines."""
        first, second = (
            torch.bincount(column, minlength=count)[column]
            for column, count in zip(self.rows.unbind(-1), self.counts, strict=True)
        )
        return first + second - 2

    @cached_property
    def crowd(self) -> Float[Tensor, " k"]:
        """How densely other lines lie around a pair, relative to the usual."""
        rivals = self.rivals + _ALONE
        return rivals / rivals.mean()

    @cached_property
    def most_matches(self) -> int:
        """As many as the map with fewer lines in any pair has such lines."""
        return min(len(column.unique()) for column in self.rows.unbind(-1))

    def probability(
        self, position: Float[Tensor, " k"], direction: Float[Tensor, " k"], iterations: int = 8
    ) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
        """How probable it is that a pair is a match, and that none of its rivals is the match instead.

        ``position`` and ``direction`` are densities of the residuals of a match, in units of an even one within reach.
        A line has at most one match: lines that compete tell each other how likely they are to be taken elsewhere
        (belief propagation on matchings, exact where rivals form no loops). The share of lines that have a match, the
        number of wrong pairs and the share of parallel ones are found by expectation maximisation.
        """
        (first, second), (m, n), most = self.rows.unbind(-1), self.counts, max(self.most_matches, 1)
        share, wrong, parallel = 0.7, 0.5, 0.5  # of lines with a match; wrong pairs of a line; those that are parallel
        back = position.new_tensor(math.sqrt(share / (1 - share)))
        for _ in range(iterations):
            alike = parallel * direction
            anyhow = alike + (1 - parallel)
            density = position * direction / (wrong * self.crowd * anyhow)
            alone = math.sqrt((1 - share) / share)  # how much speaks for a line to have no match
            forth = 1 / (_others(density * back, first, m) + alone)
            back = 1 / (_others(density * forth, second, n) + alone)
            odds = density * forth * back
            weight = odds / (1 + odds)
            doubt = 1 - weight
            share = _within(float(weight.sum()) / most, _SHARE)
            wrong = max(float(doubt.sum()), 1.0) / most
            parallel = _within(float((doubt * alike / anyhow).sum() / doubt.sum().clamp_min(1e-9)), _PARALLEL)
        rivalled = _all(density, first, m) + _all(density, second, n) - density
        return weight, density / rivalled.clamp_min(1e-300)

    def mutual_best(self, weight: Float[Tensor, " k"]) -> Bool[Tensor, " k"]:
        """Pairs that are the most probable for both of their lines."""
        best = torch.ones_like(weight, dtype=torch.bool)
        for column, count in zip(self.rows.unbind(-1), self.counts, strict=True):
            most = weight.new_zeros(count).scatter_reduce(0, column, weight, "amax")
            best &= weight == most[column]
        return best


def _all(value: Float[Tensor, " k"], index: Int[Tensor, " k"], count: int) -> Float[Tensor, " k"]:
    """What all pairs of the same line add up to."""
    return value.new_zeros(count).index_add_(0, index, value)[index]


def _others(value: Float[Tensor, " k"], index: Int[Tensor, " k"], count: int) -> Float[Tensor, " k"]:
    """The same without the pair itself."""
    return (_all(value, index, count) - value).clamp_min_(0)


def _within(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
