"""Where a map has lines: the cells of a coarse grid."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.moved_lines import MovedLines
from plueckernet.estimation.scoring import AnchoredLines

_GRID_SIZE = 64  # cells along each axis; points outside count for the border cells


class Occupancy:
    """The cells of a grid about the origin that contain segments of a map, and the cells beside them."""

    def __init__(self, lines: AnchoredLines, cell_size: float) -> None:
        self._cell_size = cell_size
        half = lines.segment_half_length
        count = (2 * half / cell_size).ceil().long().clamp(1, 2 * _GRID_SIZE)
        row = torch.arange(len(lines), device=count.device).repeat_interleave(count)
        sample = torch.arange(len(row), device=count.device) - (count.cumsum(0) - count)[row]
        along = ((sample + 0.5) / count[row] * 2 - 1) * half[row]
        grid = torch.zeros(_GRID_SIZE**3, dtype=torch.bool, device=count.device)
        points = lines.anchor[row] + along[:, None] * lines.lines.direction[row]
        grid[self._cell(points.mT)] = True
        self._occupied = _dilated(grid.view(_GRID_SIZE, _GRID_SIZE, _GRID_SIZE)).flatten().to(torch.uint8)

    def coverage(self, lines: MovedLines) -> Float[Tensor, "h m"]:
        """The fraction of each moved line inside occupied cells, sampled at three points."""
        arm = lines.direction * (lines.half_length / 2)
        cells = self._cell(torch.stack([lines.point - arm, lines.point, lines.point + arm], 1).flatten(1))
        inside = self._occupied.index_select(0, cells).view(3, *lines.point.shape[1:])
        return (inside[0] + inside[1] + inside[2]) / 3

    def _cell(self, points: Float[Tensor, "3 n"]) -> Int[Tensor, " n"]:
        """The number of the cell; whole numbers of this size are exact in single precision."""
        x, y, z = (points / self._cell_size).add_(_GRID_SIZE / 2).clamp_(0, _GRID_SIZE - 0.5).floor_()
        return x.mul_(_GRID_SIZE).add_(y).mul_(_GRID_SIZE).add_(z).int()


def _dilated(grid: Bool[Tensor, "x y z"]) -> Bool[Tensor, "x y z"]:
    """The grid with the neighbours of each occupied cell."""
    for axis in range(3):
        lower, upper = grid.narrow(axis, 0, _GRID_SIZE - 1), grid.narrow(axis, 1, _GRID_SIZE - 1)
        wide = grid.clone()
        wide.narrow(axis, 1, _GRID_SIZE - 1).logical_or_(lower)
        wide.narrow(axis, 0, _GRID_SIZE - 1).logical_or_(upper)
        grid = wide
    return grid
