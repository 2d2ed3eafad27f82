"""Where a map has lines: the cells of a coarse grid."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.pose import Pose

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
        grid[self._cell(lines.anchor[row] + along[:, None] * lines.lines.direction[row])] = True
        self._occupied = _dilated(grid.view(_GRID_SIZE, _GRID_SIZE, _GRID_SIZE)).flatten()

    def coverage(self, poses: Pose, lines: AnchoredLines) -> Float[Tensor, "h m"]:
        """The fraction of each moved line inside occupied cells, sampled at three points."""
        middle = poses.act(lines.anchor)  # (h, m, 3)
        arm = (lines.lines.direction * lines.segment_half_length[:, None] / 2) @ poses.rotation.mT
        inside = [self._occupied[self._cell(point)].float() for point in (middle - arm, middle, middle + arm)]
        return (inside[0] + inside[1] + inside[2]) / 3

    def _cell(self, points: Float[Tensor, "*n 3"]) -> Tensor:
        index = (points / self._cell_size + _GRID_SIZE / 2).long()
        x, y, z = index.clamp_(0, _GRID_SIZE - 1).unbind(-1)
        return (x * _GRID_SIZE + y) * _GRID_SIZE + z


def _dilated(grid: Bool[Tensor, "x y z"]) -> Bool[Tensor, "x y z"]:
    """The grid with the neighbours of each occupied cell."""
    for axis in range(3):
        lower, upper = grid.narrow(axis, 0, _GRID_SIZE - 1), grid.narrow(axis, 1, _GRID_SIZE - 1)
        wide = grid.clone()
        wide.narrow(axis, 1, _GRID_SIZE - 1).logical_or_(lower)
        wide.narrow(axis, 0, _GRID_SIZE - 1).logical_or_(upper)
        grid = wide
    return grid
