"""Read the noise of line maps off the residuals of matched lines.

For a match with lever ``s`` the residuals of :mod:`plueckernet.geometry.residuals` have on each axis the variances
``2 position^2 + s^2 sd^2`` and ``sd^2 + td^2``, where ``sd`` and ``td`` are the direction sigmas of the two lines,
``direction^2 + 2 (endpoint / length)^2`` squared for segments. All are linear in the squared parameters.

Directions have heavier tails than positions: some lines are seen well and some badly. They follow Student's t, which is
a normal distribution whose variance is the usual one times a factor of each match's own, its :func:`slack`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.residuals import NoiseModel, Residuals

_RAYLEIGH_MEDIAN = math.sqrt(2 * math.log(2))  # of the norm of two unit normals
_TAIL = 5.0  # degrees of freedom of Student's t; what fits a normal turn about a random axis best is 6


def slack(square: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
    """The factor on the variance of directions that squared residuals, in variances, make most likely."""
    return (_TAIL - 2 + square) / (_TAIL + 2)


def tail_density(square: Float[Tensor, " k"]) -> Float[Tensor, " k"]:
    """Student's t on two axes at squared residuals in variances, times two pi variances as for a normal density."""
    return (1 + square / (_TAIL - 2)) ** (-(_TAIL + 2) / 2) * (_TAIL / (_TAIL - 2))


def robust_noise(noise: NoiseModel, residuals: Residuals, floor: float) -> NoiseModel:
    """From medians, for matches of which some are still wrong; lengths are not looked at."""
    turn = residuals.direction.norm(dim=-1).median() / _RAYLEIGH_MEDIAN / math.sqrt(2)
    direction = max(float(turn), floor)
    carried = direction**2 * residuals.lever.square()
    ratio = residuals.position.norm(dim=-1) / (2 * noise.position**2 + carried).sqrt()
    position = max(float(ratio.median()) / _RAYLEIGH_MEDIAN * noise.position, floor)
    return NoiseModel(position, direction)


def fitted_noise(
    noise: NoiseModel,
    residuals: Residuals,
    source: AnchoredLines,
    target: AnchoredLines,
    factor: Float[Tensor, " k"],
    trust: Float[Tensor, " k"],
    floor: float,
) -> NoiseModel:
    """From mean squares of matches that count by trust; the better predicted count for more.

    ``factor`` is the :func:`slack` of each.
    """
    sd, td = noise.sigmas(source.lines)[1].square(), noise.sigmas(target.lines)[1].square()
    square = residuals.direction.square().mean(-1) / factor
    weight = trust / (sd + td).square()
    one = torch.full_like(square, 2.0)
    if source.reach is None or target.reach is None:
        direction, endpoint = float((weight * square).sum() / (weight * one).sum()), 0.0
    else:
        slope = 0.5 * (source.reach.square().reciprocal() + target.reach.square().reciprocal())  # 2 (1/l^2 + 1/l'^2)
        direction, endpoint = _non_negative(weight, square, one, slope)
    model = NoiseModel(noise.position, max(math.sqrt(direction), floor), math.sqrt(endpoint))
    carried = residuals.lever.square() * model.sigmas(source.lines)[1].square() * factor
    weight = trust / (2 * noise.position**2 + carried).square()
    excess = (weight * (residuals.position.square().mean(-1) - carried)).sum() / (2 * weight.sum())
    position = max(float(excess), (0.3 * noise.position) ** 2, floor**2)
    return NoiseModel(math.sqrt(position), model.direction, model.endpoint)


def _non_negative(
    weight: Float[Tensor, " k"], value: Float[Tensor, " k"], first: Float[Tensor, " k"], second: Float[Tensor, " k"]
) -> tuple[float, float]:
    """Weighted least squares ``value = a first + b second`` with ``a, b >= 0``."""
    design = torch.stack([first, second], -1)
    normal = design.mT @ (weight[:, None] * design)
    right = design.mT @ (weight * value)
    both = torch.linalg.lstsq(normal, right[:, None], driver="gelsd").solution[:, 0]
    if bool((both >= 0).all()):
        return float(both[0]), float(both[1])
    alone = right / normal.diagonal()
    gain = right * alone  # by which either alone lowers the squared error
    return (float(alone[0]), 0.0) if gain[0] > gain[1] else (0.0, float(alone[1]))
