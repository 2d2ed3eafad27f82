r"""The partners of lines among infinite lines: these are everywhere, so that no grid can tell which may be near.

A moved line has the point ``p`` and the direction ``d``, another one ``q`` and ``e``. With distances in units of the
inlier distance and the angle in units of its threshold ``a``, their squared residual is

``|p - q|^2 - ((q - p) . d)^2 / 2 - ((p - q) . e)^2 / 2 + (1 - (d . e)^2) / a^2``,

a linear function of ``q_i q_j``, ``q_i``, ``e_i e_j``, ``e_i (e . q)``, ``(e . q)^2`` and 1. So the residuals of many
lines under many poses are one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold
from plueckernet.geometry.pose import Pose

_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # of coordinates, each once


class InfiniteLines:
    """Lines with each of which others are compared, as :func:`~plueckernet.estimation.scoring.pair_residuals` does."""

    def __init__(self, lines: AnchoredLines, threshold: InlierThreshold) -> None:
        q, e = (lines.anchor / threshold.distance).unbind(-1), lines.lines.direction.unbind(-1)
        along = _dot(e, q)
        terms = (*_products(q), *q, *_products(e), *(along * x for x in e), along.square(), torch.ones_like(along))
        self._terms, self._direction, self._threshold = torch.stack(terms), lines.lines.direction, threshold

    def misfit(self, poses: Pose, lines: AnchoredLines) -> Float[Tensor, "h m"]:
        """The squared residual of each moved line and its best partner, in thresholds."""
        direction = (lines.lines.direction @ poses.rotation.mT).flatten(0, 1)
        coefficients = _coefficients(poses.act(lines.anchor).flatten(0, 1), direction, self._threshold)
        size = max(1, 4 * BLOCK_ENTRIES // max(1, self._terms.shape[-1]))
        misfit = torch.empty_like(coefficients[0])
        squares = coefficients.new_empty(size, self._terms.shape[-1])  # one buffer for all blocks
        for start in range(0, len(misfit), size):
            block = coefficients[:, start : start + size]
            square = torch.mm(block.mT, self._terms, out=squares[: block.shape[1]])
            if self._threshold.directed:
                square.masked_fill_(direction[start : start + size] @ self._direction.mT < 0, torch.inf)
            torch.amin(square, -1, out=misfit[start : start + size])
        return misfit.clamp_min_(0).unflatten(0, (-1, len(lines)))


def _coefficients(
    point: Float[Tensor, "k 3"], direction: Float[Tensor, "k 3"], threshold: InlierThreshold
) -> Float[Tensor, "20 k"]:
    """What the terms of the other lines are multiplied by."""
    p, d = (point / threshold.distance).mT.contiguous().unbind(), direction.mT.contiguous().unbind()
    along, weight = _dot(d, p), threshold.angle**-2
    squares, angles = [], []
    for (i, j), dd, pp in zip(_PAIRS, _products(d), _products(p), strict=True):
        times = 1.0 if i == j else 2.0  # both orders of a pair
        squares.append(float(i == j) - 0.5 * times * dd)
        angles.append(-times * (0.5 * pp + weight * dd))
    linear = [along * x - 2 * y for x, y in zip(d, p, strict=True)]
    rest = _dot(p, p) - 0.5 * along.square() + weight
    return torch.stack([*squares, *linear, *angles, *p, torch.full_like(along, -0.5), rest])


def _products(a: Sequence[Float[Tensor, " k"]]) -> list[Float[Tensor, " k"]]:
    """Those of two coordinates."""
    return [a[i] * a[j] for i, j in _PAIRS]


def _dot(a: Sequence[Float[Tensor, " k"]], b: Sequence[Float[Tensor, " k"]]) -> Float[Tensor, " k"]:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
