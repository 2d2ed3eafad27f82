r"""The partners of lines among infinite lines: these are everywhere, so that no grid can tell which may be near.

A moved line has the point ``p`` and the direction ``d``, another one ``q`` and ``e``. With distances in units of the
inlier distance and the angle in units of its threshold ``a``, their squared residual is

``|p - q|^2 - ((q - p) . d)^2 / 2 - ((p - q) . e)^2 / 2 + (1 - (d . e)^2) / a^2``,

a linear function of ``q_i q_j``, ``q_i``, ``e_i e_j``, ``e_i (e . q)``, ``(e . q)^2`` and 1. So the residuals of many
lines under many poses are one matrix product.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold
from plueckernet.geometry.pose import Pose

_ROW, _COLUMN = (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)  # of a symmetric matrix


class InfiniteLines:
    """Lines with each of which others are compared, as :func:`~plueckernet.estimation.scoring.pair_residuals` does."""

    def __init__(self, lines: AnchoredLines, threshold: InlierThreshold) -> None:
        q, e = lines.anchor / threshold.distance, lines.lines.direction
        along = (e * q).sum(-1, keepdim=True)
        terms = (_products(q, q), q, _products(e, e), e * along, along.square(), torch.ones_like(along))
        self._terms, self._direction, self._threshold = torch.cat(terms, -1).mT.contiguous(), e, threshold

    def misfit(self, poses: Pose, lines: AnchoredLines) -> Float[Tensor, "h m"]:
        """The squared residual of each moved line and its best partner, in thresholds."""
        direction = (lines.lines.direction @ poses.rotation.mT).flatten(0, 1)
        coefficients = _coefficients(poses.act(lines.anchor).flatten(0, 1), direction, self._threshold)
        size = max(1, 4 * BLOCK_ENTRIES // max(1, self._terms.shape[-1]))
        misfit = coefficients.new_empty(len(coefficients))
        squares = coefficients.new_empty(size, self._terms.shape[-1])  # one buffer for all blocks
        for block, heading, out in zip(
            coefficients.split(size), direction.split(size), misfit.split(size), strict=True
        ):
            square = torch.mm(block, self._terms, out=squares[: len(block)])
            if self._threshold.directed:
                square.masked_fill_(heading @ self._direction.mT < 0, torch.inf)
            torch.amin(square, -1, out=out)
        return misfit.clamp_min_(0).unflatten(0, (-1, len(lines)))


def _coefficients(
    point: Float[Tensor, "k 3"], d: Float[Tensor, "k 3"], threshold: InlierThreshold
) -> Float[Tensor, "k 20"]:
    """What the terms of the other lines are multiplied by."""
    p, weight = point / threshold.distance, threshold.angle**-2
    along = (d * p).sum(-1, keepdim=True)
    identity = p.new_tensor([1.0, 1, 1, 0, 0, 0])
    twice = 2 - identity
    squares = identity - 0.5 * twice * _products(d, d)
    angles = -twice * (0.5 * _products(p, p) + weight * _products(d, d))
    rest = p.square().sum(-1, keepdim=True) - 0.5 * along.square() + weight
    return torch.cat([squares, along * d - 2 * p, angles, p, torch.full_like(along, -0.5), rest], -1)


def _products(a: Float[Tensor, "k 3"], b: Float[Tensor, "k 3"]) -> Float[Tensor, "k 6"]:
    """Those of the coordinates, each pair of coordinates once."""
    return a[:, _ROW] * b[:, _COLUMN]
