"""Which lines of many maps pass near points: one :class:`~plueckernet.estimation.line_grid.LineGrid` for all of them.

Cells of different maps have different numbers. Those of one map are numbered as in its own grid, so that the same lines
are looked at.
"""

from __future__ import annotations

import math
from copy import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines, max_entries
from plueckernet.estimation.line_grid import (
    ANGLES_PER_PATCH,
    FACTORS,
    MARGINS_PER_CELL,
    MAX_CELLS,
    MIN_CELL_SIZE,
    NUMBERS_PER_ENTRY,
    SAMPLES,
    close_directions,
)
from plueckernet.geometry.pose import Pose

_CUBE_BITS = 40  # of a cube of space of all maps
_LINES_PER_QUERY = 16  # entries that a line takes when it is looked up, about


class BatchedLineGrid:
    """The segments of one side of each pair of maps by the cells that they pass within the inlier distance."""

    def __init__(self, lines: PaddedLines, distance: Float[Tensor, " b"], angle: float) -> None:
        """``lines`` are segments in single precision."""
        if lines.half_length is None:
            raise TypeError("infinite lines are everywhere")
        self._distance, self._angle = distance.float(), angle
        self._cell_size = (MARGINS_PER_CELL * self._distance).clamp_min(MIN_CELL_SIZE)
        self._patches = max(1, int(math.pi / 2 / (ANGLES_PER_PATCH * angle)))  # along an edge of a cube's face
        self._maps = torch.arange(len(distance), device=distance.device)  # that are looked up
        self._owner = lines.mask.nonzero()[:, 0]  # the map of each line
        self._table = torch.cat([lines.direction, lines.anchor, lines.half_length[..., None]], -1)[lines.mask]
        self._numbers, self._rows = self._entries()

    def of_pairs(self, rows: Int[Tensor, " r"]) -> BatchedLineGrid:
        """That of some maps, each as often as it is asked for."""
        some = copy(self)
        some._maps = self._maps[rows]
        return some

    def misfit(self, poses: Pose, moved: PaddedLines) -> Float[Tensor, "b h m"]:
        """Squared residual, in thresholds, of the anchor and direction of each moved line to the best line here."""
        per_pose = moved.mask.numel() * _LINES_PER_QUERY
        size = max(1, max_entries(moved.mask.device) // per_pose)
        blocks = zip(poses.rotation.split(size, 1), poses.translation.split(size, 1), strict=True)
        return torch.cat([self._misfit(Pose(*block), moved) for block in blocks], 1)

    def _misfit(self, poses: Pose, moved: PaddedLines) -> Float[Tensor, "b h m"]:
        points = poses.act(moved.anchor[:, None])
        directions = moved.direction[:, None] @ poses.rotation.mT
        shape, half = points.shape[:3], torch.zeros_like(points[..., 0])
        if moved.half_length is not None:
            half = half + moved.half_length[:, None]
        owner = self._maps[:, None, None].expand(shape).flatten()
        query, line = self._close(points.flatten(0, 2), directions.flatten(0, 2), owner)
        direction, anchor, half_length = self._table[line].split([3, 3, 1], -1)
        offset = points.flatten(0, 2)[query] - anchor
        along = (offset * direction).sum(-1)
        cosine = (directions.flatten(0, 2)[query] * direction).sum(-1)
        gap = (along.abs() - half_length[:, 0]).sub_(half.flatten()[query]).clamp_min_(0)
        across = offset.square().sum(-1).sub_(along.square_()).clamp_min_(0)
        square = across.addcmul_(gap, gap).mul_(self._distance.pow(-2)[owner[query]])
        square.add_((1 - cosine.square()).mul_(self._angle**-2))
        best = square.new_full((len(owner),), torch.inf)
        return best.scatter_reduce_(0, query, square, "amin").view(shape)

    def _close(
        self, points: Float[Tensor, "p 3"], directions: Float[Tensor, "p 3"], owner: Int[Tensor, " p"]
    ) -> tuple[Int[Tensor, " c"], Int[Tensor, " c"]]:
        """Rows of points and of the lines in their cells."""
        number = self._number(self._cube(points, owner), _patch(directions, self._patches), owner)
        start = torch.searchsorted(self._numbers, number)
        count = torch.searchsorted(self._numbers, number, right=True) - start
        query = torch.arange(len(number), device=number.device).repeat_interleave(count)
        skipped = start - (count.cumsum(0) - count)
        return query, self._rows[torch.arange(len(query), device=number.device) + skipped[query]]

    def _entries(self) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
        """Numbers of cells and rows of lines, sorted by number: every cube of a line with every patch of it."""
        cube, row = self._cubes()
        around = close_directions(self._table[:, :3], self._angle)
        patches = _patch(around, self._patches).mT.sort(-1).values
        new = torch.cat([patches[:, :1] >= 0, patches[:, 1:] > patches[:, :-1]], -1)
        count = new.sum(-1)
        entry = torch.arange(len(row), device=row.device).repeat_interleave(count[row])
        first = count.cumsum(0) - count  # of the patches of each line
        place = torch.arange(len(entry), device=row.device) - (count[row].cumsum(0) - count[row])[entry]
        owner = self._owner[row][entry]
        entries = torch.bincount(owner, minlength=len(self._distance)).tolist()
        sizes = torch.tensor([1 << (NUMBERS_PER_ENTRY * size).bit_length() for size in entries], device=row.device)
        self._sizes, self._first = sizes, sizes.cumsum(0) - sizes
        number, order = self._number(cube[entry], patches[new][first[row][entry] + place], owner).sort()
        return number, row[entry][order]

    def _cubes(self) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
        """Cubes and rows of lines: the cubes of points on the line, moved to all sides by a margin."""
        distance, cell_size = self._distance[self._owner], self._cell_size[self._owner]
        half_length = self._table[:, 6] + distance
        count = (2 * half_length * SAMPLES / cell_size).ceil().long().clamp(1, SAMPLES * MAX_CELLS)
        row = torch.arange(len(count), device=count.device).repeat_interleave(count)
        sample = torch.arange(len(row), device=count.device) - (count.cumsum(0) - count)[row]
        along = ((sample + 0.5) / count[row] * 2 - 1) * half_length[row]
        points = self._table[row, 3:6] + along[:, None] * self._table[row, :3]
        margin = torch.hypot(distance, cell_size / (2 * SAMPLES))[row]  # of a point between samples
        sides = torch.tensor([-1.0, 1.0], device=points.device)
        corners = torch.cartesian_prod(sides, sides, sides) * margin[:, None, None]  # (s, 8, 3)
        cubes = self._cube(points[:, None] + corners, self._owner[row][:, None])
        places = ((row[:, None] << _CUBE_BITS) | cubes).unique()
        return places & (2**_CUBE_BITS - 1), places >> _CUBE_BITS

    def _cube(self, points: Float[Tensor, "*n 3"], owner: Int[Tensor, "*#n"]) -> Int[Tensor, "*n"]:
        """The number of the cube of space."""
        cube = (points / self._cell_size[owner][..., None]).floor().long()
        x, y, z = (axis * factor for axis, factor in zip(cube.unbind(-1), FACTORS[:3], strict=True))
        return (x ^ y ^ z) & (2**_CUBE_BITS - 1)

    def _number(self, cube: Int[Tensor, " n"], patch: Int[Tensor, " n"], owner: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The number of each cell; those of a map follow those of the map before."""
        return ((cube ^ patch * FACTORS[3]) & (self._sizes[owner] - 1)) + self._first[owner]


def _patch(direction: Float[Tensor, "*n 3"], patches: int) -> Int[Tensor, "*n"]:
    """Where the line of a direction passes through the faces of a cube; opposite directions have the same patch."""
    axis = direction.abs().argmax(-1, keepdim=True)
    main = direction.gather(-1, axis)
    across = torch.cat([direction.gather(-1, (axis + step) % 3) for step in (1, 2)], -1) / main
    u, v = ((across + 1) * (patches / 2)).long().clamp_(0, patches - 1).unbind(-1)
    return (axis[..., 0] * patches + u) * patches + v
