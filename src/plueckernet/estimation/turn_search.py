r"""Poses without matches of maps whose lines are nearly all parallel, such as poles, posts and edges of facades.

One direction determines no rotation: every turn about it is tried, with either end up. Under a turn ``R``, a lower end
``a`` of the source and a lower end ``b`` of the target vote for the translation ``b - R a``, and so do upper ends.

Posts stand in rows. Rows coincide in many places along each other, with more votes than a right pose of maps that have
little in common. So a cell counts by its excess over the mean ``m`` of the cells on both sides of it, in that direction
across the lines in which they have most votes: ``(v - m) / sqrt(m + 1)``.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize, pad

from plueckernet.estimation.direction_search import dominant_directions, half_length_of, voters
from plueckernet.estimation.distinct import distinct_poses
from plueckernet.estimation.parallel_hypotheses import is_nearly_parallel
from plueckernet.estimation.ransac import in_double
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry.pose import Pose, joined
from plueckernet.geometry.upright import turn_about
from plueckernet.kernels.end_votes import VoteCells, end_vote_peaks
from plueckernet.kernels.library import compiled

_PARALLEL_COSINE = math.cos(0.175)  # of the angle between the axis of a map and the lines that vote
_CELL = 0.6  # inlier distances; width of a cell across the lines
_LAYER = 1.5  # inlier distances; thickness of a layer along them
_TURN = 0.75  # inlier distances at the radius of the map, by which turns differ
_MAX_SIZE = 240  # cells across
_MAX_LAYERS = 100
_MAX_TURNS = 240
_EXTENT_QUANTILE = 0.95  # of the coordinates of ends: translations are searched up to the sum of both maps
_DIRECTIONS = 8  # across the lines, in which a peak is compared with the cells on both sides
_STEPS = (4, 6, 8)  # cells between them
_PEAKS = 2000  # of which the distinct ones are poses; those of one pose are many


def turned_poses(
    source: AnchoredLines,
    target: AnchoredLines,
    threshold: InlierThreshold,
    count: int = 400,
    up: Float[Tensor, "3"] | None = None,
) -> Pose:
    """At most ``count`` poses ``target_T_source``, best first, accurate to about an inlier distance.

    The maps are centred and have a radius of about one. There are no poses of infinite lines, nor if neither map is
    nearly parallel. Where the vertical ``up`` is known, vertical lines are turned about it, and no others.
    The search runs on the CPU; the poses are on the device of the maps.
    """
    device = target.anchor.device
    none = Pose.identity(0, device=str(device))
    if source.half_length is None or target.half_length is None:
        return none
    if not (is_nearly_parallel(source) or is_nearly_parallel(target)):
        return none
    sides = [_AxisEnds.of(voters(side, threshold), up) for side in (source, target)]
    if not all(len(side.ends) for side in sides):
        return none
    grid = _TurnGrid.of(sides[0].ends, sides[1].ends, threshold)
    ways = sides[:1] if up is not None else [sides[0], sides[0].upside_down()]
    voted = [grid.poses(way, sides[1]) for way in ways]
    poses, excess = joined(*(poses for poses, _ in voted)), torch.cat([excess for _, excess in voted])
    return in_double(poses[distinct_poses(poses, excess, threshold, count)]).to(device)


@dataclass(frozen=True, eq=False)
class _AxisEnds:
    """The lines of a map along its axis, by their ends."""

    frame: Float[Tensor, "3 3"]  # rows are two directions across the axis and the axis
    ends: Float[Tensor, "n 2 3"]  # in that frame, the lower ones first

    @classmethod
    def of(cls, lines: AnchoredLines, up: Float[Tensor, "3"] | None) -> _AxisEnds:
        """About the dominant direction, or the given one; without lines if these have none."""
        directions = dominant_directions(lines) if up is None else up.to("cpu", torch.float32)[None]
        axis = directions[0] if len(directions) else torch.eye(3)[2]
        across = normalize(torch.linalg.cross(axis, torch.eye(3)[axis.abs().argmin()]), dim=0)
        frame = torch.stack([across, torch.linalg.cross(axis, across), axis])
        cosine = lines.lines.direction @ axis
        half = lines.lines.direction * (half_length_of(lines) * cosine.sign())[:, None]
        ends = torch.stack([lines.anchor - half, lines.anchor + half], 1) @ frame.mT
        return _AxisEnds(frame, ends[cosine.abs() > _PARALLEL_COSINE] if len(directions) else ends[:0])

    def upside_down(self) -> _AxisEnds:
        """The same ends about the opposite axis."""
        signs = torch.tensor([1.0, -1.0, -1.0])
        return _AxisEnds(signs[:, None] * self.frame, signs * self.ends.flip(1))


@dataclass(frozen=True, eq=False)
class _TurnGrid:
    """Turns about the axis, and translations: cells across it and layers along it."""

    angle: Float[Tensor, " t"]
    cell: float
    size: int  # cells in both directions
    layer: float
    layers: int

    @classmethod
    def of(
        cls, source: Float[Tensor, "m 2 3"], target: Float[Tensor, "n 2 3"], threshold: InlierThreshold
    ) -> _TurnGrid:
        """As fine as the inlier distance asks for, up to a limit."""
        across, along = (
            2 * sum(float(values.abs().flatten().quantile(_EXTENT_QUANTILE)) for values in sides)
            for sides in (
                (source[..., :2].norm(dim=-1), target[..., :2].norm(dim=-1)),
                (source[..., 2], target[..., 2]),
            )
        )
        cell = max(_CELL * threshold.distance, across / _MAX_SIZE)
        layer = max(_LAYER * threshold.distance, along / _MAX_LAYERS)
        turns = min(_MAX_TURNS, math.ceil(2 * math.pi / (_TURN * threshold.distance)))
        angle = torch.arange(turns) * (2 * math.pi / turns)
        return _TurnGrid(angle, cell, math.ceil(across / cell) + 3, layer, math.ceil(along / layer) + 2)

    def poses(self, source: _AxisEnds, target: _AxisEnds) -> tuple[Pose, Float[Tensor, " p"]]:
        """Those of the best peaks, and the excess of each."""
        unit = torch.tensor([self.cell, self.cell, self.layer])
        turns = torch.stack([self.angle.cos(), self.angle.sin()], -1)
        peaks = end_vote_peaks if compiled() else _peaks
        ends = source.ends / unit, target.ends / unit
        excess, place = peaks(ends, VoteCells(turns, self.size, self.layers, _cells_around()), _PEAKS)
        turn = turn_about(torch.eye(3)[2], self.angle)[place[:, 0]]
        middle = torch.tensor([self.size, self.size, self.layers]) / 2
        translation = (place[:, 1:] + 1 - middle) * unit
        return Pose(target.frame.mT @ turn @ source.frame, translation @ target.frame), excess


def _cells_around() -> Int[Tensor, "d s 2"]:
    """Offsets of the cells that a peak is compared with, by direction."""
    angle = torch.arange(_DIRECTIONS) * (math.pi / _DIRECTIONS)
    steps = torch.tensor([*_STEPS, *(-step for step in _STEPS)])
    return (steps[:, None] * torch.stack([angle.cos(), angle.sin()], -1)[:, None]).round().long()


def _peaks(
    ends: tuple[Float[Tensor, "m 2 3"], Float[Tensor, "n 2 3"]], cells: VoteCells, limit: int
) -> tuple[Float[Tensor, " p"], Int[Tensor, "p 4"]]:
    """The same as the kernel."""
    source, target = (side.transpose(0, 1) for side in ends)
    height = (target[:, None, :, 2] - source[:, :, None, 2]) + cells.layers / 2  # (end, m, n)
    excess, place = torch.zeros(0), torch.zeros(0, 4, dtype=torch.int64)
    for layer in range(cells.layers - 1):
        end, row, column = ((height >= layer) & (height < layer + 2)).nonzero().unbind(1)
        if not len(row):
            continue
        sums = _turned_sums(source[end, row, :2], target[end, column, :2], cells.turns, cells.size)
        more, turned_cells = _layer_peaks(sums, cells.around, limit)
        excess = torch.cat([excess, more])
        place = torch.cat([place, pad(turned_cells, (0, 1), value=layer)])
        best = excess.argsort(descending=True, stable=True)[:limit]
        excess, place = excess[best], place[best]
    return excess, place


def _turned_sums(
    source: Float[Tensor, "p 2"], target: Float[Tensor, "p 2"], turns: Float[Tensor, "t 2"], size: int
) -> Float[Tensor, "t x y"]:
    """Votes of pairs of ends under every turn; each cell is the sum of the four of which it is the lowest."""
    cosine, sine = turns[:, :1], turns[:, 1:]
    x = target[:, 0] - (cosine * source[:, 0] - sine * source[:, 1]) + size / 2
    y = target[:, 1] - (sine * source[:, 0] + cosine * source[:, 1]) + size / 2
    inside = (x >= 0) & (y >= 0) & (x < size) & (y < size)
    turn = torch.arange(len(turns))[:, None].expand_as(x)
    cell = (turn[inside] * size + x[inside].long()) * size + y[inside].long()
    votes = cell.bincount(minlength=len(turns) * size * size).float().view(-1, size, size)
    sums = torch.zeros_like(votes)
    sums[:, :-1, :-1] = votes[:, :-1, :-1] + votes[:, 1:, :-1] + votes[:, :-1, 1:] + votes[:, 1:, 1:]
    return sums


def _layer_peaks(
    sums: Float[Tensor, "t x y"], around: Int[Tensor, "d s 2"], limit: int
) -> tuple[Float[Tensor, " p"], Int[Tensor, "p 3"]]:
    """Excess and place (turn, x, y) of the best cells that no cell beside exceeds; of equal ones the first."""
    inner = sums[:, 1:-1, 1:-1]
    is_peak = inner > 0
    size = sums.shape[1]
    for dx, dy in itertools.product((-1, 0, 1), repeat=2):
        beside = sums[:, 1 + dx : size - 1 + dx, 1 + dy : size - 1 + dy]
        if (dx, dy) != (0, 0):
            is_peak &= inner > beside if (dx, dy) < (0, 0) else inner >= beside
    turn, x, y = is_peak.nonzero().unbind(1)
    x, y = x + 1, y + 1
    i, j = x[:, None, None] + around[..., 0], y[:, None, None] + around[..., 1]  # (p, d, s)
    inside = (i >= 0) & (j >= 0) & (i < size) & (j < size)
    votes = sums[turn[:, None, None], i.clamp(0, size - 1), j.clamp(0, size - 1)] * inside
    mean = votes.mean(-1).amax(-1)
    excess = (sums[turn, x, y] - mean) / (mean + 1).sqrt()
    best = excess.argsort(descending=True, stable=True)[:limit]
    best = best[excess[best] > 0]
    return excess[best], torch.stack([turn, x, y], -1)[best]
