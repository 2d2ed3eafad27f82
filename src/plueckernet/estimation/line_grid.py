"""Which lines of a map pass near a point: a grid of cells, each with the lines that come close to it.

Under a pose, only a few lines of the other map can be the partner of a line. Looking them up costs a small fraction of
comparing all pairs, so that a thousand poses can be held against all lines of two maps.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry.pose import Pose

_GRID_SIZE = 96  # cells along each axis; points outside count for the border cells
_MIN_CELL_SIZE = 0.05  # radii of the map
_MARGINS_PER_CELL = 2.5  # inlier distances across a cell: the corners of a margin then lie in neighbouring cells
_SAMPLES = 3  # per cell, along a line


class LineGrid:
    """The segments of a map by the cells that they pass within the inlier distance."""

    def __init__(self, lines: AnchoredLines, threshold: InlierThreshold) -> None:
        half_length = lines.segment_half_length
        self._threshold = threshold
        self._cell_size = max(_MARGINS_PER_CELL * threshold.distance, _MIN_CELL_SIZE)
        self._table = torch.cat([lines.lines.direction, lines.anchor, half_length[:, None]], -1)
        cells, self._rows = self._entries(lines, half_length + threshold.distance)
        count = torch.bincount(cells, minlength=_GRID_SIZE**3)
        self._count, self._start = count, count.cumsum(0) - count

    def misfit(self, poses: Pose, moved: AnchoredLines) -> Float[Tensor, "h m"]:
        """Squared residual, in thresholds, of the anchor and direction of each moved line to the best line here.

        Only lines that pass near the anchor are looked at. The gap between the ends of two segments along the line
        counts like a distance across it.
        """
        points = poses.act(moved.anchor)
        directions = moved.lines.direction @ poses.rotation.mT
        query, line = self._close(points.flatten(0, 1))
        direction, anchor, half_length = self._table[line].split([3, 3, 1], -1)
        offset = points.flatten(0, 1)[query] - anchor
        along = (offset * direction).sum(-1)
        cosine = (directions.flatten(0, 1)[query] * direction).sum(-1)
        moved_half_length = moved.segment_half_length[query % points.shape[1]]
        gap = (along.abs() - half_length[:, 0]).sub_(moved_half_length).clamp_min_(0)
        across = offset.square().sum(-1).sub_(along.square_()).clamp_min_(0)
        square = across.addcmul_(gap, gap).mul_(self._threshold.distance**-2)
        square.add_((1 - cosine.square()).mul_(self._threshold.angle**-2))
        if self._threshold.directed:
            square.masked_fill_(cosine < 0, torch.inf)
        best = square.new_full((points.shape[0] * points.shape[1],), torch.inf)
        return best.scatter_reduce_(0, query, square, "amin").view(points.shape[:2])

    def _close(self, points: Float[Tensor, "p 3"]) -> tuple[Int[Tensor, " c"], Int[Tensor, " c"]]:
        """Rows of points and of the lines in their cells."""
        cell = self._cell(points)
        count = self._count[cell]
        query = torch.arange(len(cell), device=cell.device).repeat_interleave(count)
        skipped = self._start[cell] - (count.cumsum(0) - count)
        return query, self._rows[torch.arange(len(query), device=cell.device) + skipped[query]]

    def _entries(
        self, lines: AnchoredLines, half_length: Float[Tensor, " n"]
    ) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
        """Cells and rows of lines, sorted by cell: the cells of points on the line, moved to all sides by a margin."""
        count = (2 * half_length * _SAMPLES / self._cell_size).ceil().long().clamp(1, 2 * _SAMPLES * _GRID_SIZE)
        row = torch.arange(len(lines), device=count.device).repeat_interleave(count)
        sample = torch.arange(len(row), device=count.device) - (count.cumsum(0) - count)[row]
        along = ((sample + 0.5) / count[row] * 2 - 1) * half_length[row]
        points = lines.anchor[row] + along[:, None] * lines.lines.direction[row]
        margin = math.hypot(self._threshold.distance, self._cell_size / (2 * _SAMPLES))  # of a point between samples
        side = torch.tensor([-margin, margin], device=points.device, dtype=points.dtype)
        cells = self._cell(points[:, None] + torch.cartesian_prod(side, side, side))
        places = (cells * len(lines) + row[:, None]).unique()
        return places // len(lines), places % len(lines)

    def _cell(self, points: Float[Tensor, "*n 3"]) -> Int[Tensor, "*n"]:
        index = (points / self._cell_size + _GRID_SIZE / 2).long()
        x, y, z = index.clamp_(0, _GRID_SIZE - 1).unbind(-1)
        return (x * _GRID_SIZE + y) * _GRID_SIZE + z
