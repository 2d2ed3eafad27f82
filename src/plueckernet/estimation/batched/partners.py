"""The best partner of each line under many poses of many pairs of maps, among all lines of the other map.

The batched form of :mod:`plueckernet.estimation.infinite_lines` and of :mod:`plueckernet.estimation.line_grid`: a GPU
compares a line with all lines of a map faster than it looks up which of them are near. Lengths are in inlier distances.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines, max_entries
from plueckernet.geometry.pose import Pose

_PAIRS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # of coordinates, each once


class Partners:
    """The lines of one side of each pair of maps, with each of which others are compared."""

    def __init__(self, lines: PaddedLines, distance: Float[Tensor, " b"], angle: float) -> None:
        """``lines`` are in single precision; their padding repeats a line, which changes no minimum."""
        self._unit, self._weight = 1 / distance.float(), angle**-2
        q, e = lines.anchor * self._unit[:, None, None], lines.direction
        self._half_length = None if lines.half_length is None else lines.half_length * self._unit[:, None]
        self._terms = _infinite_terms(q, e) if lines.half_length is None else _segment_terms(q, e)

    def misfit(self, poses: Pose, lines: PaddedLines) -> Float[Tensor, "b h m"]:
        """The squared residual of each moved line and its best partner, in thresholds."""
        size = max(1, max_entries(self._unit.device) // (len(self._unit) * lines.mask.shape[1] * self._terms.shape[-1]))
        rotation, translation = poses.rotation.split(size, 1), poses.translation.split(size, 1)
        return torch.cat([self._block(Pose(*block), lines) for block in zip(rotation, translation, strict=True)], 1)

    def _block(self, poses: Pose, lines: PaddedLines) -> Float[Tensor, "b h m"]:
        unit = self._unit[:, None, None, None]
        point = (poses.act(lines.anchor[:, None]) * unit).flatten(1, 2)  # (b, h m, 3)
        direction = (lines.direction[:, None] @ poses.rotation.mT).flatten(1, 2)
        if self._half_length is None or lines.half_length is None:
            square = _infinite_coefficients(point, direction, self._weight) @ self._terms
        else:
            half = (lines.half_length * self._unit[:, None])[:, None].expand(-1, poses.rotation.shape[1], -1).flatten(1)
            square = self._segment_squares(point, direction, half)
        return square.amin(-1).clamp_min_(0).unflatten(1, (-1, lines.mask.shape[1]))

    def _segment_squares(
        self, point: Float[Tensor, "b k 3"], direction: Float[Tensor, "b k 3"], half: Float[Tensor, "b k"]
    ) -> Float[Tensor, "b k n"]:
        """The gap between the ends of two segments along the line counts like a distance across it."""
        ones, own = torch.ones_like(half)[..., None], point.square().sum(-1, keepdim=True)
        along = torch.cat([point, ones], -1) @ self._terms[:, :4]
        square = torch.cat([point, own, ones], -1) @ self._terms[:, 4:9]
        square.addcmul_(along, along, value=-1).clamp_min_(0)
        gap = along.abs_().sub_(half[..., None]).sub_(self._half_length[:, None]).clamp_min_(0)  # type: ignore[index]
        square.addcmul_(gap, gap)
        cosine = direction @ self._terms[:, 9:]
        return square.addcmul_(cosine, cosine, value=-self._weight).add_(self._weight)


def _segment_terms(q: Float[Tensor, "b n 3"], e: Float[Tensor, "b n 3"]) -> Float[Tensor, "b 12 n"]:
    """For the coordinate along the line, for the squared distance of the anchors and for the cosine."""
    place, square = (e * q).sum(-1, keepdim=True), q.square().sum(-1, keepdim=True)
    return torch.cat([e, -place, -2 * q, torch.ones_like(place), square, e], -1).mT.contiguous()


def _infinite_terms(q: Float[Tensor, "b n 3"], e: Float[Tensor, "b n 3"]) -> Float[Tensor, "b 20 n"]:
    """The functions of a line of which the residual is linear."""
    along = (e * q).sum(-1)
    coordinates, components = q.unbind(-1), e.unbind(-1)
    terms = [*_products(coordinates), *coordinates, *_products(components), *(along * x for x in components)]
    return torch.stack([*terms, along.square(), torch.ones_like(along)], 1)


def _infinite_coefficients(
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
        grid.scatter_(1, self._cell(points).flatten(1), torch.ones_like(grid[:, :1]).expand(-1, points[0, ..., 0].numel()))
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
