"""The partners of infinite lines in many maps, and where maps have segments.

The batched form of :mod:`plueckernet.estimation.infinite_lines` and of :mod:`plueckernet.estimation.occupancy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines, max_entries
from plueckernet.geometry.pose import Pose

_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # of coordinates, each once


class InfinitePartners:
    """The infinite lines of one side of each pair of maps, with each of which others are compared."""

    def __init__(self, lines: PaddedLines, distance: Float[Tensor, " b"], angle: float) -> None:
        """``lines`` are in single precision; their padding repeats a line, which changes no minimum."""
        self._unit, self._weight = 1 / distance.float(), angle**-2
        self._terms = _terms(lines.anchor * self._unit[:, None, None], lines.direction)

    def of_pairs(self, rows: Int[Tensor, " r"]) -> InfinitePartners:
        """Those of some pairs of maps, each as often as it is asked for."""
        some = copy(self)
        some._unit, some._terms = self._unit[rows], self._terms[rows]
        return some

    def misfit(self, poses: Pose, lines: PaddedLines) -> Float[Tensor, "b h m"]:
        """The squared residual of each moved line and its best partner, in thresholds."""
        size = max(1, max_entries(self._unit.device) // (lines.mask.numel() * self._terms.shape[1]))
        rotation, translation = poses.rotation.split(size, 1), poses.translation.split(size, 1)
        return torch.cat([self._block(Pose(*block), lines) for block in zip(rotation, translation, strict=True)], 1)

    def _block(self, poses: Pose, lines: PaddedLines) -> Float[Tensor, "b h m"]:
        by_axis = poses.rotation.transpose(1, 2).flatten(1, 2)  # (b, 3 h, 3)
        shape = len(by_axis), 3, -1, lines.mask.shape[1]
        direction = (by_axis @ lines.direction.mT).view(shape).flatten(2)  # (b, 3, h m)
        point = (by_axis @ lines.anchor.mT).view(shape).add_(poses.translation.mT[..., None])
        point = point.mul_(self._unit[:, None, None, None]).flatten(2)
        # One row for each line here: a minimum over rows reads memory in its order.
        square = self._terms @ _coefficients(point, direction, self._weight)
        return square.amin(1).clamp_min_(0).unflatten(1, (-1, shape[-1]))


def _terms(q: Float[Tensor, "b n 3"], e: Float[Tensor, "b n 3"]) -> Float[Tensor, "b n 20"]:
    """The functions of a line of which the residual is linear."""
    along = (e * q).sum(-1)
    coordinates, components = q.unbind(-1), e.unbind(-1)
    terms = [*_products(coordinates), *coordinates, *_products(components), *(along * x for x in components)]
    return torch.stack([*terms, along.square(), torch.ones_like(along)], -1)


def _coefficients(
    point: Float[Tensor, "b 3 k"], direction: Float[Tensor, "b 3 k"], weight: float
) -> Float[Tensor, "b 20 k"]:
    """What the terms are multiplied by."""
    result = point.new_empty(len(point), 20, point.shape[-1])
    squares, linear, angles, points, rest = result.split([6, 3, 6, 3, 2], 1)
    along = (direction * point).sum(1, keepdim=True)
    _set_products(direction, out=squares)
    _set_products(point, out=angles)
    angles.mul_(-0.5).add_(squares, alpha=-weight)[:, 3:].mul_(2)  # both orders of a pair of different coordinates
    squares[:, :3].mul_(-0.5).add_(1)
    squares[:, 3:].neg_()
    torch.mul(direction, along, out=linear).sub_(point, alpha=2)
    points.copy_(point)
    rest[:, 0] = -0.5
    torch.sum(point.square(), 1, out=rest[:, 1]).addcmul_(along[:, 0], along[:, 0], value=-0.5).add_(weight)
    return result


def _set_products(a: Float[Tensor, "b 3 k"], out: Float[Tensor, "b 6 k"]) -> None:
    """Those of two coordinates, in the order of `_PAIRS`."""
    torch.mul(a, a, out=out[:, :3])
    torch.mul(a[:, :1], a[:, 1:], out=out[:, 3:5])
    torch.mul(a[:, 1], a[:, 2], out=out[:, 5])


def _products(a: Sequence[Tensor]) -> list[Tensor]:
    """Those of two coordinates."""
    return [a[i] * a[j] for i, j in _PAIRS]


class BatchedOccupancy:
    """Where the maps of one side have segments: :class:`~plueckernet.estimation.occupancy.Occupancy`, batched."""

    size = 64  # cells along each axis; points outside count for the border cells

    def __init__(self, lines: PaddedLines, cell_size: float) -> None:
        if lines.half_length is None:
            raise TypeError("infinite lines are everywhere")
        self._cell_size, half = cell_size, lines.half_length
        count = (2 * half / cell_size).ceil().clamp(1, 2 * self.size)
        sample = torch.arange(int(count.max()), device=half.device).to(half)
        sample = torch.minimum(sample, count[..., None] - 1)  # the last one is repeated
        along = ((sample + 0.5) / count[..., None] * 2 - 1) * half[..., None]  # (b, n, s)
        points = lines.anchor[:, :, None] + along[..., None] * lines.direction[:, :, None]
        grid = torch.zeros(len(half), self.size**3, dtype=torch.bool, device=half.device)
        grid.scatter_(
            1, self._cell(points).flatten(1), torch.ones_like(grid[:, :1]).expand(-1, points[0, ..., 0].numel())
        )
        self._occupied = _dilated(grid.unflatten(1, (self.size,) * 3)).flatten(1)

    def of_pairs(self, rows: Int[Tensor, " r"]) -> BatchedOccupancy:
        """That of some maps, each as often as it is asked for."""
        some = copy(self)
        some._occupied = self._occupied[rows]
        return some

    def coverage(self, poses: Pose, lines: PaddedLines) -> Float[Tensor, "b h m"]:
        """The fraction of each moved line inside occupied cells, sampled at three points."""
        if lines.half_length is None:
            raise TypeError("infinite lines are everywhere")
        middle = poses.act(lines.anchor[:, None])
        arm = (lines.direction * lines.half_length[..., None] / 2)[:, None] @ poses.rotation.mT
        inside = [
            self._occupied.gather(1, self._cell(point).flatten(1)).view(point.shape[:-1]).float()
            for point in (middle - arm, middle, middle + arm)
        ]
        return (inside[0] + inside[1] + inside[2]) / 3

    def _cell(self, points: Float[Tensor, "*n 3"]) -> Tensor:
        index = (points / self._cell_size + self.size / 2).long()
        x, y, z = index.clamp_(0, self.size - 1).unbind(-1)
        return (x * self.size + y) * self.size + z


def _dilated(grid: Tensor) -> Tensor:
    """The grids with the neighbours of each occupied cell."""
    for axis in (1, 2, 3):
        length = grid.shape[axis] - 1
        lower, upper = grid.narrow(axis, 0, length), grid.narrow(axis, 1, length)
        wide = grid.clone()
        wide.narrow(axis, 1, length).logical_or_(lower)
        wide.narrow(axis, 0, length).logical_or_(upper)
        grid = wide
    return grid
