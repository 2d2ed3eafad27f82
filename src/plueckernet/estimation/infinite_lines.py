r"""The partners of lines among infinite lines: these are everywhere, so that no grid can tell which may be near.

A moved line has the point ``p`` and the direction ``d``, another one ``q`` and ``e``. With distances in units of the
inlier distance and the angle in units of its threshold ``a``, their squared residual is

``|p - q|^2 - ((q - p) . d)^2 / 2 - ((p - q) . e)^2 / 2 + (1 - (d . e)^2) / a^2``,

a linear function of ``q_i q_j``, ``q_i``, ``e_i e_j``, ``e_i (e . q)``, ``(e . q)^2`` and 1. So the residuals of many
lines under many poses are one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold
from plueckernet.geometry.pose import Pose

_BLOCK_BUDGET = 4 * BLOCK_ENTRIES  # residuals at once
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
        moved = self._moved(poses, lines)
        misfit = torch.empty_like(moved.point[0])
        for start, square in self._squares(moved, 1):
            torch.amin(square, -1, out=misfit[start : start + len(square)])
        return misfit.clamp_min_(0).unflatten(0, (-1, len(lines)))

    def misfits(self, poses: Pose, lines: AnchoredLines) -> tuple[Float[Tensor, "h m"], Float[Tensor, "h n"]]:
        """The same of the moved lines and, in the other direction, of the lines here: residuals have no direction."""
        moved, count = self._moved(poses, lines), len(lines)
        misfit = torch.empty_like(moved.point[0])
        others = misfit.new_empty(poses.rotation.shape[0], self._terms.shape[-1])
        for start, square in self._squares(moved, count):
            torch.amin(square, -1, out=misfit[start : start + len(square)])
            first, last = start // count, (start + len(square)) // count
            torch.amin(square.unflatten(0, (-1, count)), 1, out=others[first:last])
        return misfit.clamp_min_(0).unflatten(0, (-1, count)), others.clamp_min_(0)

    def _moved(self, poses: Pose, lines: AnchoredLines) -> _Moved:
        by_axis = poses.rotation.transpose(0, 1).flatten(0, 1)  # (3 h, 3)
        shape = 3, poses.rotation.shape[0], len(lines)
        direction = (by_axis @ lines.lines.direction.mT).view(shape).flatten(1)
        point = (by_axis @ lines.anchor.mT).view(shape).add_(poses.translation.mT[..., None]).flatten(1)
        return _Moved(point, direction)

    def _squares(self, moved: _Moved, multiple: int) -> Iterator[tuple[int, Float[Tensor, "k n"]]]:
        """Squared residuals of blocks of moved lines and all lines here, and where each block starts.

        A block holds a multiple of some number of moved lines. It is valid until the next one.
        """
        coefficients = _coefficients(moved.point, moved.direction, self._threshold)
        total, columns = coefficients.shape[1], self._terms.shape[-1]
        size = max(1, _BLOCK_BUDGET // max(1, columns * multiple)) * multiple
        squares = coefficients.new_empty(min(size, total), columns)  # one buffer for all blocks
        for start in range(0, total, size):
            block = coefficients[:, start : start + size]
            square = torch.mm(block.mT, self._terms, out=squares[: block.shape[1]])
            if self._threshold.directed:
                square.masked_fill_(moved.direction[:, start : start + size].mT @ self._direction.mT < 0, torch.inf)
            yield start, square


class _Moved(NamedTuple):
    """Lines under poses, those of one pose after those of another."""

    point: Float[Tensor, "3 k"]
    direction: Float[Tensor, "3 k"]


def _coefficients(
    point: Float[Tensor, "3 k"], direction: Float[Tensor, "3 k"], threshold: InlierThreshold
) -> Float[Tensor, "20 k"]:
    """What the terms of the other lines are multiplied by."""
    p, d, weight = point / threshold.distance, direction, threshold.angle**-2
    result = torch.empty(20, point.shape[1], dtype=point.dtype, device=point.device)
    squares, linear, angles, points = result[:6], result[6:9], result[9:15], result[15:18]
    along = _dot(d.unbind(), p.unbind())
    _set_products(d, out=squares)
    _set_products(p, out=angles)
    angles.mul_(-0.5).add_(squares, alpha=-weight)[3:].mul_(2)  # both orders of a pair of different coordinates
    squares[:3].mul_(-0.5).add_(1)
    squares[3:].neg_()
    torch.mul(d, along, out=linear).sub_(p, alpha=2)
    points.copy_(p)
    result[18] = -0.5
    result[19] = _dot(p.unbind(), p.unbind()).addcmul_(along, along, value=-0.5).add_(weight)
    return result


def _set_products(a: Float[Tensor, "3 k"], out: Float[Tensor, "6 k"]) -> None:
    """Those of two coordinates, in the order of `_PAIRS`."""
    torch.mul(a, a, out=out[:3])
    torch.mul(a[0], a[1:], out=out[3:5])
    torch.mul(a[1], a[2], out=out[5])


def _products(a: Sequence[Float[Tensor, " k"]]) -> list[Float[Tensor, " k"]]:
    """Those of two coordinates."""
    return [a[i] * a[j] for i, j in _PAIRS]


def _dot(a: Sequence[Float[Tensor, " k"]], b: Sequence[Float[Tensor, " k"]]) -> Float[Tensor, " k"]:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
