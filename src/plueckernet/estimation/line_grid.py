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

from plueckernet.estimation.moved_lines import MovedLines
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold

NUMBERS_PER_ENTRY = 8  # cells that can be told apart, for each line in each of its cells
_CUBE_BITS = 32  # of a cube of space
FACTORS = 73_856_093, 19_349_663, 83_492_791, 49_979_693  # primes; they spread neighbouring cells over the numbers
ANGLES_PER_PATCH = 2.5  # inlier angles across a patch of directions
_TURNS = 8  # about a direction, to learn which patches are within the inlier angle
MAX_CELLS = 192  # along a line; the samples of a longer one are further apart
MIN_CELL_SIZE = 0.05  # radii of the map
MARGINS_PER_CELL = 2.5  # inlier distances across a cell: the corners of a margin then lie in neighbouring cells
SAMPLES = 3  # per cell, along a line


class LineGrid:
    """The segments of a map by the cells that they pass within the inlier distance."""

    def __init__(self, lines: AnchoredLines, threshold: InlierThreshold) -> None:
        half_length = lines.segment_half_length
        self._threshold = threshold
        self._cell_size = max(MARGINS_PER_CELL * threshold.distance, MIN_CELL_SIZE)
        self._table = torch.cat([lines.lines.direction, lines.anchor, half_length[:, None]], -1).mT.contiguous()
        # Patches along an edge of a cube's face.
        self._patches = max(1, int(math.pi / 2 / (ANGLES_PER_PATCH * threshold.angle)))
        numbers, self._rows = self._entries(lines, half_length + threshold.distance)
        # Where the rows of each cell start. One small table, because memory of this size is slow to get.
        start = torch.zeros(self._numbers + 1, dtype=torch.int32, device=numbers.device)
        ones = torch.ones_like(numbers, dtype=torch.int32)
        self._start = start.scatter_add_(0, numbers + 1, ones).cumsum_(0)

    def misfit(self, moved: MovedLines) -> Float[Tensor, "h m"]:
        """Squared residual, in thresholds, of the anchor and direction of each moved line to the best line here.

        Only lines that pass near the anchor in a similar direction are looked at. The gap between the ends of two
        segments along the line counts like a distance across it.
        """
        points, directions = moved.point.flatten(1), moved.direction.flatten(1)  # (3, h m)
        query, line = self._close(points, directions)
        own, table = torch.cat([directions, points]).index_select(1, query), self._table.index_select(1, line)
        offset = own[3:] - table[3:6]
        along, cosine = _dot(offset, table[:3]), _dot(own[:3], table[:3])
        across = _dot(offset, offset).addcmul_(along, along, value=-1).clamp_min_(0)
        half_length = moved.half_length.index_select(0, query % len(moved.half_length))
        gap = along.abs_().sub_(table[6]).sub_(half_length).clamp_min_(0)
        square = across.addcmul_(gap, gap).mul_(self._threshold.distance**-2)
        square.add_((1 - cosine.square()).mul_(self._threshold.angle**-2))
        if self._threshold.directed:
            square.masked_fill_(cosine < 0, torch.inf)
        best = square.new_full((points.shape[1],), torch.inf)
        return best.scatter_reduce_(0, query, square, "amin").view(moved.point.shape[1:])

    def _close(
        self, points: Float[Tensor, "3 p"], directions: Float[Tensor, "3 p"]
    ) -> tuple[Int[Tensor, " c"], Int[Tensor, " c"]]:
        """Rows of points and of the lines in their cells."""
        number = self._number(self._cube(points), _patch(directions, self._patches))
        start = self._start.index_select(0, number)
        count = self._start.index_select(0, number + 1).sub_(start)
        occupied = count.nonzero()[:, 0]  # most cells are empty
        start, count = start.index_select(0, occupied).long(), count.index_select(0, occupied).long()
        entry = torch.arange(len(occupied), device=count.device).repeat_interleave(count)
        skipped = start - (count.cumsum(0) - count)
        place = torch.arange(len(entry), device=count.device) + skipped.index_select(0, entry)
        return occupied.index_select(0, entry), self._rows.index_select(0, place)

    def _entries(
        self, lines: AnchoredLines, half_length: Float[Tensor, " n"]
    ) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
        """Numbers of cells and rows of lines, sorted by number: every cube of a line with every patch of it."""
        cube, row = self._cubes(lines, half_length)
        around = close_directions(lines.lines.direction, self._threshold.angle)  # (t, n, 3)
        patches = _patch(around.permute(2, 1, 0), self._patches).sort(-1).values  # (n, t)
        new = torch.cat([patches[:, :1] >= 0, patches[:, 1:] > patches[:, :-1]], -1)
        count = new.sum(-1)
        entry = torch.arange(len(row), device=row.device).repeat_interleave(count[row])
        first = count.cumsum(0) - count  # of the patches of each line
        place = torch.arange(len(entry), device=row.device) - (count[row].cumsum(0) - count[row])[entry]
        self._numbers = 1 << (NUMBERS_PER_ENTRY * len(entry)).bit_length()
        number, order = self._number(cube[entry], patches[new][first[row][entry] + place]).sort()
        return number, row[entry][order]

    def _cubes(
        self, lines: AnchoredLines, half_length: Float[Tensor, " n"]
    ) -> tuple[Int[Tensor, " e"], Int[Tensor, " e"]]:
        """Cubes and rows of lines: the cubes of points on the line, moved to all sides by a margin."""
        count = (2 * half_length * SAMPLES / self._cell_size).ceil().long().clamp(1, SAMPLES * MAX_CELLS)
        row = torch.arange(len(lines), device=count.device).repeat_interleave(count)
        sample = torch.arange(len(row), device=count.device) - (count.cumsum(0) - count)[row]
        along = ((sample + 0.5) / count[row] * 2 - 1) * half_length[row]
        points = lines.anchor[row] + along[:, None] * lines.lines.direction[row]
        margin = math.hypot(self._threshold.distance, self._cell_size / (2 * SAMPLES))  # of a point between samples
        side = torch.tensor([-margin, margin], device=points.device, dtype=points.dtype)
        cubes = self._cube((points[:, None] + torch.cartesian_prod(side, side, side)).permute(2, 0, 1))  # (s, 8)
        places = ((row[:, None] << _CUBE_BITS) | cubes.long().bitwise_and_(2**_CUBE_BITS - 1)).unique()
        return (places & (2**_CUBE_BITS - 1)).int(), places >> _CUBE_BITS

    def _cube(self, points: Float[Tensor, "3 *n"]) -> Int[Tensor, "*n"]:
        """The number of the cube of space; products overflow, which spreads them as well."""
        x, y, z = (points / self._cell_size).floor_().int()
        return x.mul_(FACTORS[0]).bitwise_xor_(y.mul_(FACTORS[1])).bitwise_xor_(z.mul_(FACTORS[2]))

    def _number(self, cube: Int[Tensor, " n"], patch: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The number of each cell."""
        return (patch * FACTORS[3]).bitwise_xor_(cube).bitwise_and_(self._numbers - 1)


def _patch(direction: Float[Tensor, "3 *n"], patches: int) -> Int[Tensor, "*n"]:
    """Where the line of a direction passes through the faces of a cube; opposite directions have the same patch."""
    x, y, z = direction
    absolute = direction.abs()
    is_x = (absolute[0] >= absolute[1]) & (absolute[0] >= absolute[2])
    is_y = absolute[1] >= absolute[2]  # if it is not x
    main, first, second = (
        torch.where(is_x, a, torch.where(is_y, b, c)) for a, b, c in ((x, y, z), (y, z, x), (z, x, y))
    )
    u, v = ((across / main).add_(1).mul_(patches / 2).int().clamp_(0, patches - 1) for across in (first, second))
    axis = torch.where(is_x, 0, torch.where(is_y, 1, 2)).int()
    return axis.mul_(patches).add_(u).mul_(patches).add_(v)


def _dot(a: Float[Tensor, "3 c"], b: Float[Tensor, "3 c"]) -> Float[Tensor, " c"]:
    return (a[0] * b[0]).addcmul_(a[1], b[1]).addcmul_(a[2], b[2])


def close_directions(direction: Float[Tensor, "n 3"], angle: float) -> Float[Tensor, "t n 3"]:
    """Directions, and around each of them some that differ from it by an angle."""
    smallest = one_hot(direction.abs().argmin(-1), 3).to(direction)
    first = normalize(torch.linalg.cross(direction, smallest), dim=-1)
    second = torch.linalg.cross(direction, first)
    turn = math.tau / _TURNS * torch.arange(_TURNS, device=direction.device, dtype=direction.dtype)[:, None, None]
    turned = direction + math.tan(angle) * (turn.cos() * first + turn.sin() * second)
    return torch.cat([direction[None], turned])
