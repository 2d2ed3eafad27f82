"""How well confidences predict: bins and expected calibration error."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from plueckernet.evaluation.rates import Rate

BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)
EQUAL_BINS = tuple(i / 10 for i in range(11))


@dataclass(frozen=True)
class ReliabilityBin:
    """Held-out pairs whose confidence lies between two values."""

    low: float
    high: float
    confidence: float  # mean
    right: Rate


@dataclass(frozen=True)
class Reliability:
    """How well the confidence of some held-out pairs predicts which are right."""

    pairs: int
    ece: float  # expected calibration error over ten bins of equal width, weighted by their counts
    adaptive_ece: float  # likewise, over ten bins of equal count
    brier: float  # mean squared error
    bins: tuple[ReliabilityBin, ...]  # of equal width


def measured_reliability(confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Reliability:
    """All of it for some pairs."""
    equal = reliability(confidence, right, EQUAL_BINS)
    return Reliability(
        pairs=len(right),
        ece=calibration_error(confidence, right),
        adaptive_ece=adaptive_calibration_error(confidence, right),
        brier=round(float(((confidence - right) ** 2).mean()), 4) if len(right) else 0.0,
        bins=equal,
    )


def reliability(
    confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], borders: Sequence[float] = BINS
) -> tuple[ReliabilityBin, ...]:
    """How many are right, by confidence."""
    bins = []
    for low, high in itertools.pairwise(borders):
        inside = (confidence >= low) & ((confidence < high) | (high == 1.0))
        if inside.any():
            mean, count = round(float(confidence[inside].mean()), 4), int(right[inside].sum())
            bins.append(ReliabilityBin(low, high, mean, Rate(count, int(inside.sum()))))
    return tuple(bins)


def calibration_error(confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], bins: int = 10) -> float:
    """``sum_b n_b / n |mean confidence_b - fraction right_b|`` over bins of equal width."""
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    return _error([place == i for i in range(bins)], confidence, right)


def adaptive_calibration_error(
    confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], bins: int = 10
) -> float:
    """The same over bins of equal count."""
    rank = np.empty(len(confidence), dtype=np.int64)
    rank[np.argsort(confidence, kind="stable")] = np.arange(len(confidence))
    place = rank * bins // max(1, len(confidence))
    return _error([place == i for i in range(bins)], confidence, right)


def _error(
    members: Sequence[Bool[np.ndarray, " n"]], confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]
) -> float:
    gaps = [abs(float(confidence[inside].sum()) - float(right[inside].sum())) for inside in members]
    return round(sum(gaps) / max(1, len(right)), 5)
