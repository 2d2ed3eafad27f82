"""The noise of many pairs of maps, from the residuals of close pairs: :mod:`plueckernet.estimation.noise`, batched."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.batched.close_pairs import PairLists
from plueckernet.estimation.batched.lines import PaddedLines, weighted_median
from plueckernet.estimation.batched.residuals import Thresholds
from plueckernet.estimation.noise import (
    FITTED_LINES,
    MAX_FITTED_RATIO,
    MIN_DIRECTION_RATIO,
    MIN_POSITION_RATIO,
    NOISE_FLOOR,
    RAYLEIGH_MEDIAN,
)
from plueckernet.geometry.residuals import Residuals

_SINGULAR = 1e-15  # determinant over the product of the diagonal, of a matrix of rank one


@dataclass(frozen=True, eq=False)
class NoiseModels:
    """A :class:`~plueckernet.geometry.residuals.NoiseModel` for each pose."""

    position: Float[Tensor, " q"]
    direction: Float[Tensor, " q"]
    endpoint: Float[Tensor, " q"]

    @classmethod
    def initial(cls, threshold: Thresholds, fraction: float) -> NoiseModels:
        """The first guess, a fraction of the threshold."""
        position, direction = threshold.distance * fraction, threshold.angle * fraction
        return NoiseModels(position, direction, torch.zeros_like(position))

    def replaced(self, where: Bool[Tensor, " q"], other: NoiseModels) -> NoiseModels:
        """Those of another where a mask says so."""
        return NoiseModels(
            torch.where(where, other.position, self.position),
            torch.where(where, other.direction, self.direction),
            torch.where(where, other.endpoint, self.endpoint),
        )

    def direction_variance(self, lines: PaddedLines) -> Float[Tensor, "q p"]:
        """The square of the direction sigma of each line."""
        variance = self.direction.square()[:, None]
        if lines.half_length is None:
            return variance.expand(lines.mask.shape)
        slope = self.endpoint[:, None] / (math.sqrt(2) * lines.half_length.clamp_min(5e-13))
        return variance + slope.square()


def fitted_ratio(lines: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
    """By how much a pose lowers the variance of the residuals of position of the lines that it is fitted to."""
    return (lines / (lines - FITTED_LINES).clamp_min(1e-9)).clamp_max(MAX_FITTED_RATIO)


def robust_noise(
    noise: NoiseModels, residuals: Residuals, weight: Float[Tensor, "q p"], max_decrease: float
) -> NoiseModels:
    """From medians of weighted pairs, not much below the previous estimate: the pose has to follow."""
    turn = weighted_median(residuals.direction.norm(dim=-1), weight) / (math.sqrt(2) * RAYLEIGH_MEDIAN)
    direction = turn.clamp_min(NOISE_FLOOR)
    carried = (direction[:, None] * residuals.lever).square()
    ratio = residuals.position.norm(dim=-1) / (2 * noise.position.square()[:, None] + carried).sqrt()
    ratio = weighted_median(ratio, weight) * fitted_ratio(weight.sum(-1)).sqrt()
    position = (ratio / RAYLEIGH_MEDIAN * noise.position).clamp_min(NOISE_FLOOR)
    position = torch.maximum(position, noise.position / max_decrease)
    direction = torch.maximum(direction, noise.direction / max_decrease)
    return NoiseModels(position, torch.maximum(direction, MIN_DIRECTION_RATIO * position), torch.zeros_like(position))


def fitted_noise(
    noise: NoiseModels,
    residuals: Residuals,
    pairs: PairLists,
    variance_scale: Float[Tensor, "q p"],
    trust: Float[Tensor, "q p"],
    num_lines: Float[Tensor, " q"],
) -> NoiseModels:
    """From mean squares of pairs weighted by ``trust``, zero for padding, and by how well the model predicts them.

    The poses were fitted to ``num_lines``.
    """
    turn = noise.direction_variance(pairs.source) + noise.direction_variance(pairs.target)
    square = residuals.direction.square().mean(-1) / variance_scale
    weight = trust / turn.square()
    if pairs.source.half_length is None or pairs.target.half_length is None:
        direction = (weight * square).sum(-1) / (2 * weight.sum(-1))
        endpoint = torch.zeros_like(direction)
    else:
        inverse = 0.5 * (
            pairs.source.half_length.square().reciprocal() + pairs.target.half_length.square().reciprocal()
        )
        direction, endpoint = _non_negative(weight, square, inverse)
    model = NoiseModels(noise.position, direction.sqrt().clamp_min(NOISE_FLOOR), endpoint.sqrt())
    carried = residuals.lever.square() * model.direction_variance(pairs.source) * variance_scale
    weight = trust / (2 * noise.position.square()[:, None] + carried).square()
    square = fitted_ratio(num_lines)[:, None] * residuals.position.square().mean(-1)
    excess = (weight * (square - carried)).sum(-1) / (2 * weight.sum(-1))
    least = (MIN_POSITION_RATIO * noise.position).square().clamp_min(NOISE_FLOOR**2)
    return NoiseModels(torch.maximum(excess, least).sqrt(), model.direction, model.endpoint)


def _non_negative(
    weight: Float[Tensor, "q p"], value: Float[Tensor, "q p"], second: Float[Tensor, "q p"]
) -> tuple[Float[Tensor, " q"], Float[Tensor, " q"]]:
    """Weighted least squares ``value = 2 a + b second`` with ``a, b >= 0``."""
    design = torch.stack([torch.full_like(second, 2.0), second], -1)
    normal = design.mT @ (weight[..., None] * design)
    right = (design.mT @ (weight * value)[..., None])[..., 0]
    (a, b), (_, d) = (row.unbind(-1) for row in normal.unbind(-2))
    determinant = a * d - b.square()
    adjugate = torch.stack([torch.stack([d, -b], -1), torch.stack([-b, a], -1)], -2)
    regular = (determinant > _SINGULAR * a * d)[:, None]
    inverse_right = (adjugate @ right[..., None])[..., 0] / determinant[:, None]
    shortest = (normal @ right[..., None])[..., 0] / (a + d).square()[:, None]  # of rank one
    together = torch.where(regular, inverse_right, shortest)
    single = right / torch.stack([a, d], -1)
    gain = right * single  # by which each term on its own lowers the squared error
    first = gain[:, :1] > gain[:, 1:]
    separate = torch.where(torch.cat([first, ~first], -1), single, 0.0)
    solution = torch.where((together >= 0).all(-1, keepdim=True), together, separate)
    return solution[:, 0], solution[:, 1]
