"""How far poses are off and how many are right (Sec. 4.1 of the paper). A pose that was not found is infinitely off."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from plueckernet.geometry.pose import Pose

SUCCESS = (5.0, 0.5)  # degrees and metres within which a pose is right
STRICT = (1.0, 0.1)


def pose_error(found: Pose | None, truth: Pose) -> tuple[float, float]:
    """``arccos((tr(R_gt^T R) - 1) / 2)`` in degrees and ``|t_gt - t|`` in metres."""
    if found is None:
        return math.inf, math.inf
    return float(found.angle_to(truth).rad2deg()), float((found.translation - truth.translation).norm())


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third; infinite where they fall among what is infinite."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if not len(ordered):
        return math.inf, math.inf, math.inf
    first, median, third = (_at(ordered, share * (len(ordered) - 1)) for share in (0.25, 0.5, 0.75))
    return first, median, third


def recall(values: Sequence[float], thresholds: Sequence[float]) -> Float[np.ndarray, " t"]:
    """Share of errors below each threshold."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    below = np.searchsorted(ordered, np.asarray(thresholds, dtype=np.float64), side="left")
    return below / max(1, len(ordered))


def area_under_recall(values: Sequence[float], largest: float) -> float:
    """Mean recall over all thresholds from zero to the largest: 1 if nothing is off, 0 if everything is by more."""
    if not len(values):
        return 0.0
    return float(np.mean([max(0.0, 1 - value / largest) for value in values]))


def success_rate(
    rotation: Sequence[float], translation: Sequence[float], limits: tuple[float, float] = SUCCESS
) -> float:
    """Share of poses right to some degrees and metres."""
    right = [turn < limits[0] and shift < limits[1] for turn, shift in zip(rotation, translation, strict=True)]
    return sum(right) / max(1, len(right))


def _at(ordered: Float[np.ndarray, " n"], place: float) -> float:
    """Linear interpolation that never subtracts infinities."""
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    share = place - math.floor(place)
    return float(low) if share == 0 or low == high else float(low + share * (high - low))
