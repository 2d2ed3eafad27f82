"""The probability that lines which are close under a pose are the same line.

Some of the close pairs are matches; their residuals follow the noise. The other pairs are close by chance, uniformly
within the threshold, and there are more of them where a pair has more competitors. In buildings most of these are
parallel to the line in question: their directions differ as little as those of matches and say nothing. A wrong pair
therefore has either the direction of a match or any direction, and the fraction of each is estimated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import InlierThreshold
from plueckernet.settings import check_at_least, check_positive

# Bounds that keep the estimated fractions from becoming certainties, which no data could correct.
_MATCHED_BOUNDS = 0.05, 0.999
_PARALLEL_BOUNDS = 0.02, 0.98
# First guesses, which the estimation forgets.
_MATCHED_FRACTION = 0.7  # of the lines in close pairs, those that have a match
_WRONG_PAIRS = 0.5  # per line
_PARALLEL_FRACTION = 0.5  # of the wrong pairs


@dataclass(frozen=True)
class CorrespondenceSettings:
    """The prior of the estimation and its number of iterations."""

    unseen_competitors: float = 0.6  # competitors assumed of every pair beyond those seen
    iterations: int = 4  # twice as many change the pose by a twentieth of its standard deviation

    def __post_init__(self) -> None:
        check_positive(self, "unseen_competitors")
        check_at_least(self, 1, "iterations")


@dataclass(frozen=True, eq=False)
class ClosePairs:
    """Pairs of lines within a threshold of each other."""

    rows: Int[Tensor, "k 2"]
    counts: tuple[int, int]  # lines of each map
    threshold: InlierThreshold

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def columns(self) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " k"]]:
        """Rows of the source and of the target."""
        first, second = np.ascontiguousarray(self.rows.cpu().numpy().T)
        return first, second

    @cached_property
    def _line_counts(self) -> tuple[Int[np.ndarray, " m"], Int[np.ndarray, " n"]]:
        """Number of pairs of each line."""
        first, second = self.columns
        return np.bincount(first, minlength=self.counts[0]), np.bincount(second, minlength=self.counts[1])

    @cached_property
    def competitors(self) -> Int[np.ndarray, " k"]:
        """Number of other pairs that contain one of the two lines."""
        first, second = (count.take(column) for count, column in zip(self._line_counts, self.columns, strict=True))
        return first + second - 2

    @cached_property
    def max_matches(self) -> int:
        """Upper bound of the number of matches: each line has at most one."""
        return min(int(np.count_nonzero(count)) for count in self._line_counts)

    def crowding(self, unseen: float) -> Float[np.ndarray, " k"]:
        """The density of other lines around each pair, relative to the mean."""
        competitors = self.competitors + unseen
        return competitors / competitors.mean()

    def probability(
        self,
        position: Float[Tensor, " k"],
        direction: Float[Tensor, " k"],
        settings: CorrespondenceSettings = CorrespondenceSettings(),
    ) -> tuple[Float[Tensor, " k"], Float[Tensor, " k"]]:
        """The probability that a pair is a match, and that no competing pair is the match instead.

        ``position`` and ``direction`` are the densities of the residuals of a match, relative to a uniform density
        within the threshold. A line has at most one match: competing lines tell each other how likely they are to be
        matched elsewhere (belief propagation on matchings, exact where competing pairs form no loops). The fraction of
        lines with a match, the number of wrong pairs and the fraction of parallel ones are found by expectation
        maximisation.
        """
        device, dtype = position.device, position.dtype
        weight, exclusive = self.match_probability(position.cpu().numpy(), direction.cpu().numpy(), settings)
        return torch.from_numpy(weight).to(device, dtype), torch.from_numpy(exclusive).to(device, dtype)

    def match_probability(
        self, position: Float[np.ndarray, " k"], direction: Float[np.ndarray, " k"], settings: CorrespondenceSettings
    ) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """The same of arrays. NumPy's overhead per operation is small: they are many and on few values."""
        first, second = zip(self.columns, self.counts, strict=True)
        limit = max(self.max_matches, 1)
        matched, wrong, parallel = _MATCHED_FRACTION, _WRONG_PAIRS, _PARALLEL_FRACTION
        back = np.full_like(position, math.sqrt(matched / (1 - matched)))
        at_crowding = position * direction / self.crowding(settings.unseen_competitors)
        for _ in range(settings.iterations):
            wrong_alike = wrong * parallel
            expected = wrong_alike * direction
            expected += wrong - wrong_alike  # density of wrong pairs, of the same direction or of any
            density = at_crowding / expected
            unmatched = math.sqrt((1 - matched) / matched)  # weight of a line having no match
            forward = density / _competing_sum(density * back, *first, unmatched)
            backward = _competing_sum(forward, *second, unmatched)
            back, sums = 1 / backward, backward + forward
            doubt = backward / sums
            doubts = float(np.add.reduce(doubt))
            alike_doubt = wrong_alike * float(doubt @ (direction / expected)) / max(doubts, 1e-9)
            matched = _clamped((len(doubt) - doubts) / limit, _MATCHED_BOUNDS)
            wrong, parallel = max(doubts, 1.0) / limit, _clamped(alike_doubt, _PARALLEL_BOUNDS)
        total = _line_sum(density, *first) + _line_sum(density, *second) - density
        return forward / sums, density / np.maximum(total, 1e-300)

    def mutual_best(self, weight: Float[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Pairs that are the most probable for both of their lines."""
        best = np.ones(len(weight), dtype=bool)
        for column, count in zip(self.columns, self.counts, strict=True):
            largest = np.zeros(count, dtype=weight.dtype)
            np.maximum.at(largest, column, weight)
            best &= weight == largest[column]
        return best


def _line_sum(
    value: Float[np.ndarray, " k"], index: Int[np.ndarray, " k"], count: int
) -> Float[np.ndarray, " k"]:  # fmt: skip
    """The sum over all pairs of the same line."""
    return np.bincount(index, value, count).take(index)


def _competing_sum(
    value: Float[np.ndarray, " k"], index: Int[np.ndarray, " k"], count: int, unmatched: float
) -> Float[np.ndarray, " k"]:  # fmt: skip
    """The same without the pair itself, and the weight of having no match."""
    total = _line_sum(value, index, count)
    total -= value
    np.maximum(total, 0, out=total)
    total += unmatched
    return total


def _clamped(value: float, bounds: tuple[float, float]) -> float:
    return min(max(value, bounds[0]), bounds[1])
