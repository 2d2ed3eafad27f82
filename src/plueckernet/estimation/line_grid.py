"""Which lines of a map pass near a point in a direction: a grid of cells, each with the lines that come close to it.

Under a pose, only a few lines of the other map can be the partner of a line. Looking them up costs a small fraction of
comparing all pairs, so that a thousand poses can be held against all lines of two maps. A cell is a cube of space and a
patch of directions. Cells are numbered by a hash, so the grid has no border. Two cells of one number only cost time:
their lines are compared exactly.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry.pose import Pose

_NUMBERS_PER_ENTRY = 8  # cells that can be told apart, for each line in each of its cells
_CUBE_BITS = 40  # of a cube of space
_FACTORS = 73_856_093, 19_349_663, 83_492_791, 49_979_693  # primes; they spread neighbouring cells over the numbers
_ANGLES_PER_PATCH = 2.5  # inlier angles across a patch of directions
_TURNS = 8  # about a direction, to learn which patches are within the inlier angle
_MAX_CELLS = 192  # along a line; the samples of a longer one are further apart
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
        self._patches = max(
            1, int(math.pi / 2 / (_ANGLES_PER_PATCH * threshold.angle))
        )  # along an edge of a cube's face
        numbers, self._rows = self._entries(lines, half_length + threshold.distance)
        count = torch.bincount(numbers, minlength=self._numbers)
        self._count, self._start = count, count.cumsum(0) - count

    def misfit(self, poses: Pose, moved: AnchoredLines) -> Float[Tensor, "h m"]:
        """Squared residual, in thresholds, of the anchor and direction of each moved line to the best line here.

        Only lines that pass near the anchor in a similar direction are looked at. The gap between the ends of two
        segments along the line counts like a distance across it.
        """
        points = poses.act(moved.anchor)
        directions = moved.lines.direction @ poses.rotation.mT
        query, line = self._close(points.flatten(0, 1), directions.flatten(0, 1))
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

    def _close(
        self, points: Float[Tensor, "p 3"], directions: Float[Tensor, "p 3"]
    ) -> tuple[Int[Tensor, " c"], Int[Tensor, " c"]]:
        """Rows of points and of the lines in their cells."""
        number = self._number(self._cube(points), _patch(directions, self._patches))
        count = self._count[number]
        query = torch.arange(len(number), device=number.device).repeat_interleave(count)
        skipped = self._start[number] - (count.cumsum(0) - count)
        return query, self._rows[torch.arange(len(query), device=number.device) + skipped[query]]

    def _entries(
        self, lines: AnchoredLines, half_length: Float[Tensor, " n"]
    ) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
        """Numbers of cells and rows of lines, sorted by number: every cube of a line with every patch of it."""
        cube, row = self._cubes(lines, half_length)
        around = _close_directions(lines.lines.direction, self._threshold.angle)
        patches = _patch(around, self._patches).mT.sort(-1).values
        new = torch.cat([patches[:, :1] >= 0, patches[:, 1:] > patches[:, :-1]], -1)
        count = new.sum(-1)
        entry = torch.arange(len(row), device=row.device).repeat_interleave(count[row])
        first = count.cumsum(0) - count  # of the patches of each line
        place = torch.arange(len(entry), device=row.device) - (count[row].cumsum(0) - count[row])[entry]
        self._numbers = 1 << (_NUMBERS_PER_ENTRY * len(entry)).bit_length()
        number, order = self._number(cube[entry], patches[new][first[row][entry] + place]).sort()
        return number, row[entry][order]

    def _cubes(
        self, lines: AnchoredLines, half_length: Float[Tensor, " n"]
    ) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
        """Cubes and rows of lines: the cubes of points on the line, moved to all sides by a margin."""
        count = (2 * half_length * _SAMPLES / self._cell_size).ceil().long().clamp(1, _SAMPLES * _MAX_CELLS)
        row = torch.arange(len(lines), device=count.device).repeat_interleave(count)
        sample = torch.arange(len(row), device=count.device) - (count.cumsum(0) - count)[row]
        along = ((sample + 0.5) / count[row] * 2 - 1) * half_length[row]
        points = lines.anchor[row] + along[:, None] * lines.lines.direction[row]
        margin = math.hypot(self._threshold.distance, self._cell_size / (2 * _SAMPLES))  # of a point between samples
        side = torch.tensor([-margin, margin], device=points.device, dtype=points.dtype)
        cubes = self._cube(points[:, None] + torch.cartesian_prod(side, side, side))  # (s, 8)
        places = ((row[:, None] << _CUBE_BITS) | cubes).unique()
        return places & (2**_CUBE_BITS - 1), places >> _CUBE_BITS

    def _cube(self, points: Float[Tensor, "*n 3"]) -> Int[Tensor, "*n"]:
        """The number of the cube of space."""
        cube = (points / self._cell_size).floor().long()
        x, y, z = (axis * factor for axis, factor in zip(cube.unbind(-1), _FACTORS[:3], strict=True))
        return (x ^ y ^ z) & (2**_CUBE_BITS - 1)

    def _number(self, cube: Int[Tensor, " n"], patch: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The number of each cell."""
        return (cube ^ patch * _FACTORS[3]) & (self._numbers - 1)


def _patch(direction: Float[Tensor, "*n 3"], patches: int) -> Int[Tensor, "*n"]:
    """Where the line of a direction passes through the faces of a cube; opposite directions have the same patch."""
    axis = direction.abs().argmax(-1, keepdim=True)
    main = direction.gather(-1, axis)
    across = torch.cat([direction.gather(-1, (axis + step) % 3) for step in (1, 2)], -1) / main
    u, v = ((across + 1) * (patches / 2)).long().clamp_(0, patches - 1).unbind(-1)
    return (axis[..., 0] * patches + u) * patches + v


def _close_directions(direction: Float[Tensor, "n 3"], angle: float) -> Float[Tensor, "t n 3"]:
    """Directions, and around each of them some that differ from it by an angle."""
    smallest = one_hot(direction.abs().argmin(-1), 3).to(direction)
    first = normalize(torch.linalg.cross(direction, smallest), dim=-1)
    second = torch.linalg.cross(direction, first)
    turn = math.tau / _TURNS * torch.arange(_TURNS, device=direction.device, dtype=direction.dtype)[:, None, None]
    turned = direction + math.tan(angle) * (turn.cos() * first + turn.sin() * second)
    return torch.cat([direction[None], turned])
