"""How far poses are off and how many are right (Sec. 4.1 of the paper). A pose that was not found is infinitely off."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from plueckernet.evaluation.outcomes import RIGHT, is_right
from plueckernet.evaluation.rates import Rate
from plueckernet.geometry.pose import Pose


def pose_error(pose: Pose | None, truth: Pose) -> tuple[float, float]:
    """``arccos((tr(R_gt^T R) - 1) / 2)`` in degrees and ``|t_gt - t|`` in metres."""
    if pose is None:
        return math.inf, math.inf
    return float(pose.angle_to(truth).rad2deg()), float((pose.translation - truth.translation).norm())


def family_error(
    pose: Pose | None, truths: Sequence[Pose], free_direction: Float[Tensor, "3"] | None = None
) -> tuple[float, float]:
    """The error to the closest of several true poses; a shift along the free direction of the target is no error."""
    if pose is None or not truths:
        return math.inf, math.inf
    errors = []
    for truth in truths:
        degrees, _ = pose_error(pose, truth)
        shift = pose.translation - truth.translation
        if free_direction is not None:
            shift = shift - (shift @ free_direction) * free_direction
        errors.append((degrees, float(shift.norm())))
    return min(errors, key=lambda error: max(error[0] / RIGHT[0], error[1] / RIGHT[1]))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """First quartile, median and third; infinite where they fall among what is infinite."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if not len(ordered):
        return math.inf, math.inf, math.inf
    first, median, third = (_at(ordered, fraction * (len(ordered) - 1)) for fraction in (0.25, 0.5, 0.75))
    return first, median, third


def recall(values: Sequence[float], thresholds: Sequence[float]) -> Float[np.ndarray, " t"]:
    """Fraction of errors below each threshold."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    below = np.searchsorted(ordered, np.asarray(thresholds, dtype=np.float64), side="left")
    return below / max(1, len(ordered))


def area_under_recall(values: Sequence[float], largest: float) -> float:
    """Mean recall over all thresholds from zero to the largest: 1 if nothing is off, 0 if everything is by more."""
    if not len(values):
        return 0.0
    return float(np.mean([max(0.0, 1 - value / largest) for value in values]))


def success_rate(errors: Sequence[tuple[float, float]], limits: tuple[float, float] = RIGHT) -> Rate:
    """How many errors are below some degrees and metres."""
    return Rate.of([is_right(error, limits) for error in errors])


def _at(ordered: Float[np.ndarray, " n"], place: float) -> float:
    """Linear interpolation that never subtracts infinities."""
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    weight = place - math.floor(place)
    return float(low) if weight == 0 or low == high else float(low + weight * (high - low))
