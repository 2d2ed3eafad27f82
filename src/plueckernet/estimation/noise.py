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

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry.residuals import NoiseModel, Residuals
from plueckernet.settings import check_at_least, check_positive

NOISE_FLOOR = 1e-7  # map radii and radians; no data are better
_MIN_POSITION_RATIO = 0.3  # of one fine estimate to the one before, so that the pose can follow
_RAYLEIGH_MEDIAN = math.sqrt(2 * math.log(2))  # of the norm of two unit normals


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


def direction_variance_scale(square: Float[Tensor, " k"], degrees_of_freedom: float) -> Float[Tensor, " k"]:
    """The most likely scale of the direction variance, for squared residuals in variances."""
    return (degrees_of_freedom - 2 + square) / (degrees_of_freedom + 2)


def tail_density(square: Float[Tensor, " k"], degrees_of_freedom: float) -> Float[Tensor, " k"]:
    """Student's t on two axes at squared residuals in variances, times two pi variances as for a normal density."""
    free = degrees_of_freedom
    return (1 + square / (free - 2)) ** (-(free + 2) / 2) * (free / (free - 2))


def robust_noise(noise: NoiseModel, residuals: Residuals, source: AnchoredLines, target: AnchoredLines) -> NoiseModel:
    """From medians, for matches of which some are wrong; the lengths of segments do not enter."""
    noisier = source.noise_square + target.noise_square  # 2 for lines like all others
    turn = (residuals.direction.norm(dim=-1) / noisier.sqrt()).median() / _RAYLEIGH_MEDIAN
    direction = max(float(turn), NOISE_FLOOR)
    carried = direction**2 * residuals.lever.square() * source.noise_square
    ratio = residuals.position.norm(dim=-1) / (noisier * noise.position**2 + carried).sqrt()
    position = max(float(ratio.median()) / _RAYLEIGH_MEDIAN * noise.position, NOISE_FLOOR)
    return NoiseModel(position, direction)


def fitted_noise(
    noise: NoiseModel,
    residuals: Residuals,
    source: AnchoredLines,
    target: AnchoredLines,
    variance_scale: Float[Tensor, " k"],
    trust: Float[Tensor, " k"],
) -> NoiseModel:
    """From mean squares of matches weighted by ``trust`` and by how well the model predicts them.

    ``variance_scale`` is the :func:`direction_variance_scale` of each match.
    """
    sd, td = source.sigmas(noise)[1].square(), target.sigmas(noise)[1].square()
    square = residuals.direction.square().mean(-1) / variance_scale
    weight = trust / (sd + td).square()
    noisier = source.noise_square + target.noise_square
    if source.half_length is None or target.half_length is None:
        direction, endpoint = float((weight * noisier * square).sum() / (weight * noisier.square()).sum()), 0.0
    else:
        inverse = source.noise_square / source.half_length.square() + target.noise_square / target.half_length.square()
        direction, endpoint = _non_negative(weight, square, noisier, 0.5 * inverse)  # 2 (1/l^2 + 1/l'^2)
    model = NoiseModel(noise.position, max(math.sqrt(direction), NOISE_FLOOR), math.sqrt(endpoint))
    carried = residuals.lever.square() * source.sigmas(model)[1].square() * variance_scale
    weight = trust / (noisier * noise.position**2 + carried).square() * noisier
    excess = (weight * (residuals.position.square().mean(-1) - carried)).sum() / (weight * noisier).sum()
    position = max(float(excess), (_MIN_POSITION_RATIO * noise.position) ** 2, NOISE_FLOOR**2)
    return NoiseModel(math.sqrt(position), model.direction, model.endpoint)


def _non_negative(
    weight: Float[Tensor, " k"], value: Float[Tensor, " k"], first: Float[Tensor, " k"], second: Float[Tensor, " k"]
) -> tuple[float, float]:
    """Weighted least squares ``value = a first + b second`` with ``a, b >= 0``."""
    design = torch.stack([first, second], -1)
    normal = (design.mT @ (weight[:, None] * design)).cpu()  # two by two; only the CPU has a rank-revealing solver
    right = (design.mT @ (weight * value)).cpu()
    solution = torch.linalg.lstsq(normal, right[:, None], driver="gelsd").solution[:, 0]
    if bool((solution >= 0).all()):
        return float(solution[0]), float(solution[1])
    single = right / normal.diagonal()
    gain = right * single  # by which each term on its own lowers the squared error
    return (float(single[0]), 0.0) if gain[0] > gain[1] else (0.0, float(single[1]))
