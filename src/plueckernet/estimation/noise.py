"""The noise of two maps, from the residuals of matched lines.

For a match with lever ``s`` the residuals of :mod:`plueckernet.geometry.residuals` have on each axis the variances
``2 position^2 + s^2 sd^2`` and ``sd^2 + td^2``, where ``sd`` and ``td`` are the direction sigmas of the two lines. For
segments ``sd^2 = direction^2 + 2 (endpoint / length)^2``. All are linear in the squared parameters. Where the noise of
each line is known, all sigmas of a line are multiplied by its noise factor, and the common noise is estimated.

Direction errors have heavier tails than position errors, because some lines are observed well and some badly. They
follow Student's t distribution: a normal distribution whose variance has a scale for each match,
:func:`direction_variance_scale`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.paired_lines import PairedLines, ResidualValues
from plueckernet.estimation.scoring import InlierThreshold
from plueckernet.geometry.residuals import NoiseModel
from plueckernet.kernels.refining import FittedPairs
from plueckernet.settings import check_at_least, check_positive

NOISE_FLOOR = 1e-7  # map radii and radians; no data are better
MIN_POSITION_RATIO = 0.3  # of one fine estimate to the one before, so that the pose can follow
# Of a rough estimate, in rad for each map radius of the position: half of the noise of a line across the whole map.
# Lines that are parallel to the last digit must not shut out all others.
MIN_DIRECTION_RATIO = 0.5
FITTED_LINES = 3  # whose two residuals of position each a pose of six parameters can make zero
MAX_FITTED_RATIO = 6.0
Squares = TypeVar("Squares", Tensor, np.ndarray)
RAYLEIGH_MEDIAN = math.sqrt(2 * math.log(2))  # of the norm of two unit normals


@dataclass(frozen=True)
class NoiseSettings:
    """How the noise is estimated."""

    degrees_of_freedom: float = 5.0  # of Student's t; a normal turn about a random axis is fitted best by 6
    initial_fraction: float = 0.25  # of the inlier threshold, the first guess of one sigma
    max_decrease: float = 6.0  # factor from one rough estimate to the next: the pose has to follow

    def __post_init__(self) -> None:
        check_positive(self, "initial_fraction")
        check_at_least(self, 2.1, "degrees_of_freedom")
        check_at_least(self, 1, "max_decrease")

    def initial(self, threshold: InlierThreshold) -> NoiseModel:
        """The first guess."""
        return NoiseModel(threshold.distance * self.initial_fraction, threshold.angle * self.initial_fraction)


@dataclass(frozen=True)
class KnownNoise:
    """The parts of the noise that are given, in normalized units and radians; None is estimated."""

    position: float | None = None
    direction: float | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing is left to estimate."""
        return self.position is not None and self.direction is not None

    def applied(self, model: NoiseModel) -> NoiseModel:
        """The model with its known parts replaced."""
        if self.position is not None:
            model = replace(model, position=self.position)
        if self.direction is not None:
            model = replace(model, direction=self.direction, endpoint=0.0)
        return model


def direction_variance_scale(square: Squares, degrees_of_freedom: float) -> Squares:
    """The most likely scale of the direction variance, for squared residuals in variances."""
    return (degrees_of_freedom - 2 + square) / (degrees_of_freedom + 2)


def tail_density(square: Squares, degrees_of_freedom: float) -> Squares:
    """Student's t on two axes at squared residuals in variances, times two pi variances as for a normal density."""
    free = degrees_of_freedom
    return (1 + square / (free - 2)) ** (-(free + 2) / 2) * (free / (free - 2))


def fitted_ratio(lines: float) -> float:
    """By how much a pose lowers the variance of the residuals of position of the lines that it is fitted to."""
    return min(lines / max(lines - FITTED_LINES, 1e-9), MAX_FITTED_RATIO)


def robust_noise(
    noise: NoiseModel,
    residuals: ResidualValues,
    pairs: PairedLines,
    rows: Int[np.ndarray, " r"],
    probability: Float[np.ndarray, " r"],
    kernel: FittedPairs | None = None,
) -> NoiseModel:
    """From medians, for matches of which some are wrong; the lengths of segments do not enter.

    ``rows`` are the pairs that count, each as much as its ``probability``. The probable pairs alone would be those with
    small residuals: their median is too small, the next one smaller, until few lines are left.
    """
    if kernel is None:
        direction, ratio = _medians(noise, residuals, pairs, rows, probability)
    else:
        direction, ratio = kernel.medians(rows, noise.position, RAYLEIGH_MEDIAN, NOISE_FLOOR)
    ratio *= math.sqrt(fitted_ratio(float(probability.sum())))
    return NoiseModel(max(ratio * noise.position, NOISE_FLOOR), direction)


def _medians(
    noise: NoiseModel,
    residuals: ResidualValues,
    pairs: PairedLines,
    rows: Int[np.ndarray, " r"],
    probability: Float[np.ndarray, " r"],
) -> tuple[float, float]:
    """Of the noise of the direction, and of the ratio of the noise of the position to the previous one."""
    factor = pairs.source.noise_square.take(rows)
    noisier = factor + pairs.target.noise_square.take(rows)  # 2 for lines like all others
    turn, shift = (
        np.sqrt(np.square(values.take(rows, 1)).sum(0)) for values in (residuals.direction, residuals.position)
    )
    direction = max(_median(turn / np.sqrt(noisier), probability) / RAYLEIGH_MEDIAN, NOISE_FLOOR)
    carried = direction**2 * np.square(residuals.lever.take(rows)) * factor
    ratio = _median(shift / np.sqrt(noisier * noise.position**2 + carried), probability)
    return direction, ratio / RAYLEIGH_MEDIAN


def _median(values: Float[np.ndarray, " k"], weight: Float[np.ndarray, " k"]) -> float:
    """The first value below or at which there is half of the weight."""
    order = values.argsort()
    total = weight.take(order).cumsum()
    return float(values[order[total.searchsorted(total[-1] / 2)]])


def fitted_noise(
    noise: NoiseModel,
    residuals: ResidualValues,
    pairs: PairedLines,
    variance_scale: Float[np.ndarray, " k"],
    trust: Float[np.ndarray, " k"],
    num_lines: float,
    kernel: FittedPairs | None = None,
) -> NoiseModel:
    """From mean squares of matches weighted by ``trust`` and by how well the model predicts them.

    ``variance_scale`` is the :func:`direction_variance_scale` of each match. The pose was fitted to ``num_lines``.
    """
    if kernel is None:
        products = _direction_sums(noise, residuals, pairs, variance_scale, trust)
    else:
        products = kernel.direction_sums(trust, _sigmas(noise))
    if pairs.source.infinite or pairs.target.infinite:
        direction, endpoint = float(products[0, 2] / products[0, 0]), 0.0
    else:
        direction, endpoint = _non_negative(products)
    model = NoiseModel(noise.position, max(math.sqrt(direction), NOISE_FLOOR), math.sqrt(endpoint))
    if kernel is None:
        excess, total = _position_sums(model, residuals, pairs, variance_scale, trust, fitted_ratio(num_lines))
    else:
        excess, total = kernel.position_sums(trust, _sigmas(model), fitted_ratio(num_lines))
    position = max(excess / total, (MIN_POSITION_RATIO * noise.position) ** 2, NOISE_FLOOR**2)
    return NoiseModel(math.sqrt(position), model.direction, model.endpoint)


def _sigmas(noise: NoiseModel) -> tuple[float, float, float]:
    return noise.position, noise.direction, noise.endpoint


def _direction_sums(
    noise: NoiseModel,
    residuals: ResidualValues,
    pairs: PairedLines,
    variance_scale: Float[np.ndarray, " k"],
    trust: Float[np.ndarray, " k"],
) -> Float[np.ndarray, "2 3"]:
    """Normal equations of the squared noise of directions and ends, and in the last column their right side."""
    source, target = pairs.source, pairs.target
    square = np.square(residuals.direction).mean(0) / variance_scale
    weight = trust / np.square(source.variances(noise)[1] + target.variances(noise)[1])
    inverse = source.noise_square * source.inverse_length_square
    inverse += target.noise_square * target.inverse_length_square
    design = np.stack([source.noise_square + target.noise_square, 2 * inverse, square])
    products: np.ndarray = (design[:2] * weight) @ design.T
    return products


def _position_sums(
    noise: NoiseModel,
    residuals: ResidualValues,
    pairs: PairedLines,
    variance_scale: Float[np.ndarray, " k"],
    trust: Float[np.ndarray, " k"],
    ratio: float,
) -> tuple[float, float]:
    """Of squared positions times ``ratio`` beyond what the direction carries to them, and of the noise factors."""
    noisier = pairs.source.noise_square + pairs.target.noise_square
    carried = np.square(residuals.lever) * pairs.source.variances(noise)[1] * variance_scale
    weight = trust / np.square(noisier * noise.position**2 + carried) * noisier
    square = ratio * np.square(residuals.position).mean(0)
    return float(weight @ (square - carried)), float(weight @ noisier)


def _non_negative(products: Float[np.ndarray, "2 3"]) -> tuple[float, float]:
    """Weighted least squares ``value = a first + b second`` with ``a, b >= 0``, from its normal equations."""
    normal, right = products[:, :2], products[:, 2]
    a, b = np.linalg.lstsq(normal, right)[0].tolist()
    if a >= 0 and b >= 0:
        return a, b
    single = right / normal.diagonal()
    gain = right * single  # by which each term on its own lowers the squared error
    return (float(single[0]), 0.0) if gain[0] > gain[1] else (0.0, float(single[1]))
