"""The partners of infinite lines in many maps, and where maps have segments.

The batched form of :mod:`plueckernet.estimation.infinite_lines` and of :mod:`plueckernet.estimation.occupancy`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
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

    def misfit(self, poses: Pose, lines: PaddedLines) -> Float[Tensor, "b h m"]:
        """The squared residual of each moved line and its best partner, in thresholds."""
        size = max(1, max_entries(self._unit.device) // (lines.mask.numel() * self._terms.shape[-1]))
        rotation, translation = poses.rotation.split(size, 1), poses.translation.split(size, 1)
        return torch.cat([self._block(Pose(*block), lines) for block in zip(rotation, translation, strict=True)], 1)

    def _block(self, poses: Pose, lines: PaddedLines) -> Float[Tensor, "b h m"]:
        point = (poses.act(lines.anchor[:, None]) * self._unit[:, None, None, None]).flatten(1, 2)  # (b, h m, 3)
        direction = (lines.direction[:, None] @ poses.rotation.mT).flatten(1, 2)
        square = _coefficients(point, direction, self._weight) @ self._terms
        return square.amin(-1).clamp_min_(0).unflatten(1, (-1, lines.mask.shape[1]))


def _terms(q: Float[Tensor, "b n 3"], e: Float[Tensor, "b n 3"]) -> Float[Tensor, "b 20 n"]:
    """The functions of a line of which the residual is linear."""
    along = (e * q).sum(-1)
    coordinates, components = q.unbind(-1), e.unbind(-1)
    terms = [*_products(coordinates), *coordinates, *_products(components), *(along * x for x in components)]
    return torch.stack([*terms, along.square(), torch.ones_like(along)], 1)


def _coefficients(
    point: Float[Tensor, "b k 3"], direction: Float[Tensor, "b k 3"], weight: float
) -> Float[Tensor, "b k 20"]:
    """What the terms are multiplied by."""
    times = point.new_tensor([1.0 if i == j else 2.0 for i, j in _PAIRS])
    same = point.new_tensor([float(i == j) for i, j in _PAIRS])
    dd, pp = (torch.stack(_products(vectors.unbind(-1)), -1) for vectors in (direction, point))
    along = (direction * point).sum(-1, keepdim=True)
    rest = point.square().sum(-1, keepdim=True) - 0.5 * along.square() + weight
    squares, angles = same - 0.5 * times * dd, -times * (0.5 * pp + weight * dd)
    linear = along * direction - 2 * point
    return torch.cat([squares, linear, angles, point, torch.full_like(along, -0.5), rest], -1)


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
