r"""Pairs of neighbouring lines that cross at an angle: what a rigid motion leaves as it is, and the frame they define.

The common perpendicular of lines ``i`` and ``j`` meets them at the feet ``f_i`` and ``f_j``. Each direction is turned
so that the midpoint of the segment lies ahead of the foot, ``m_i = f_i + a_i d_i`` with ``a_i >= 0``. Then the angle
between ``d_i`` and ``d_j``, the signed gap ``(f_j - f_i) . n`` along ``n = d_i x d_j / |d_i x d_j|`` and both offsets
``a`` are the same in every frame, differ from those of the mirror image, and do not depend on the order of the end
points. The axes ``(d_i + d_j) / |d_i + d_j|`` and ``n`` and the point between the feet are a frame, so that a pair of
one map and a pair of another determine a pose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.geometry.lines import LineSet

# A line is paired with its nearest lines. Few of them are in a thinner map of the same place, so the longest lines are
# also paired with each other, over larger distances.
LEVELS = ((0.0, 12), (0.75, 48), (0.94, 64))  # quantile of the lengths of lines that take part, neighbours of each
_MAX_COSINE = 0.917  # 23.5 degrees; lines at a smaller angle determine the common perpendicular badly
_TILE_LINES = 256  # that are paired at once
_CANDIDATES = 1536  # lines around a tile among which neighbours are looked for


@dataclass(frozen=True, eq=False)
class Segments:
    """Midpoints, directions and half lengths in single precision, about a centre."""

    midpoint: Float[Tensor, "n 3"]
    direction: Float[Tensor, "n 3"]
    half_length: Float[Tensor, " n"]

    @classmethod
    def of(cls, lines: LineSet, centre: Float[Tensor, "3"]) -> Segments:
        """Lines that have end points."""
        midpoint = (lines.midpoints() - centre.to(lines.direction)).float()
        return Segments(midpoint, lines.direction.float(), (lines.lengths() / 2).float())

    def __len__(self) -> int:
        return len(self.midpoint)

    def __getitem__(self, rows: Int[Tensor, " k"]) -> Segments:
        return Segments(self.midpoint[rows], self.direction[rows], self.half_length[rows])


@dataclass(frozen=True, eq=False)
class LinePairs:
    """Pairs of lines with the feet of their common perpendicular, see the module."""

    rows: Int[Tensor, "k 2"]
    direction: Float[Tensor, "k 2 3"]
    foot: Float[Tensor, "k 2 3"]
    offset: Float[Tensor, "k 2"]

    @classmethod
    def of(cls, segments: Segments, rows: Int[Tensor, "k 2"]) -> LinePairs:
        """The pairs of given rows; the lines of a pair must not be parallel."""
        direction, midpoint = segments.direction[rows], segments.midpoint[rows]
        along = (direction @ (midpoint[:, 1] - midpoint[:, 0])[..., None])[..., 0]  # (k, 2)
        cosine = (direction[:, 0] * direction[:, 1]).sum(-1)
        sine_square = (1 - cosine.square()).clamp_min(1e-6)
        first, second = along.unbind(-1)
        position = torch.stack([first - cosine * second, cosine * first - second], -1) / sine_square[:, None]
        sign = torch.where(position <= 0, 1.0, -1.0)
        return LinePairs(rows, direction * sign[..., None], midpoint + position[..., None] * direction, position.abs())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Tensor) -> LinePairs:
        return LinePairs(self.rows[index], self.direction[index], self.foot[index], self.offset[index])

    def swapped(self) -> LinePairs:
        """The second line first."""
        return LinePairs(self.rows.flip(1), self.direction.flip(1), self.foot.flip(1), self.offset.flip(1))

    def reversed(self, column: int) -> LinePairs:
        """With a line turned around; its offset is negative then."""
        sign = torch.ones(2)
        sign[column] = -1
        return replace(self, direction=self.direction * sign[:, None], offset=self.offset * sign)

    def angle(self) -> Float[Tensor, " k"]:
        """Between the directions, in radians up to pi."""
        return (self.direction[:, 0] * self.direction[:, 1]).sum(-1).clamp(-1, 1).acos()

    def lengths(self) -> Float[Tensor, "k 3"]:
        """The signed gap and both offsets."""
        gap = ((self.foot[:, 1] - self.foot[:, 0]) * self._normal()).sum(-1)
        return torch.cat([gap[:, None], self.offset], -1)

    def frames(self) -> tuple[Float[Tensor, "k 3 3"], Float[Tensor, "k 3"]]:
        """Axes as columns, and the origin, of each pair."""
        x = torch.nn.functional.normalize(self.direction.sum(1), dim=-1)
        z = self._normal()
        return torch.stack([x, torch.linalg.cross(z, x), z], -1), self.foot.mean(1)

    def _normal(self) -> Float[Tensor, "k 3"]:
        first, second = self.direction.unbind(1)
        return torch.nn.functional.normalize(torch.linalg.cross(first, second), dim=-1)


def joined_pairs(pairs: Sequence[LinePairs]) -> LinePairs:
    """All pairs, one after the other."""
    return LinePairs(*(torch.cat([getattr(p, name) for p in pairs]) for name in LinePairs.__dataclass_fields__))


def level_lengths(segments: Segments) -> tuple[float, ...]:
    """The half length from which on a line takes part in each level."""
    ordered = segments.half_length.sort().values
    return tuple(float(ordered[min(int(level * len(ordered)), len(ordered) - 1)]) for level, _ in LEVELS)


def neighbouring_pairs(
    segments: Segments, min_half_lengths: Sequence[float], progress: Callable[[float], None] | None = None
) -> Int[Tensor, "k 2"]:
    """Rows of neighbouring lines at an angle, each pair once; computed tile by tile."""
    keys, count = [], len(segments)
    for number, ((_, neighbours), least) in enumerate(zip(LEVELS, min_half_lengths, strict=True)):
        rows = (segments.half_length >= least).nonzero()[:, 0]
        tiles = list(tiles_of(segments.midpoint[rows]))
        for done, tile in enumerate(tiles):
            near = rows[_neighbours(segments[rows], tile, neighbours)]  # (p, 2)
            keys.append((near.amin(1) * count + near.amax(1)).unique())
            if progress is not None:
                progress((number + (done + 1) / len(tiles)) / len(LEVELS))
    key = torch.cat(keys).unique() if keys else torch.zeros(0, dtype=torch.long)
    return torch.stack([key // max(1, count), key % max(1, count)], -1)


def tiles_of(points: Float[Tensor, "n 3"], size: int = _TILE_LINES) -> Iterator[Int[Tensor, " k"]]:
    """Rows of compact tiles of at most ``size`` points: boxes, halved along their longest side."""
    pending = [torch.arange(len(points))]
    while pending:
        rows = pending.pop()
        if len(rows) <= size:
            if len(rows):
                yield rows
            continue
        inside = points[rows]
        axis = int((inside.amax(0) - inside.amin(0)).argmax())
        ordered = rows[inside[:, axis].argsort(stable=True)]
        pending += [ordered[: len(rows) // 2], ordered[len(rows) // 2 :]]


def _neighbours(segments: Segments, tile: Int[Tensor, " t"], count: int) -> Int[Tensor, "p 2"]:
    """Each line of a tile with the nearest lines that cross it at an angle."""
    inside = segments.midpoint[tile]
    centre = (inside.amax(0) + inside.amin(0)) / 2
    distance = (segments.midpoint - centre).square().sum(-1)
    around = distance.topk(min(_CANDIDATES, len(segments)), largest=False).indices
    apart = torch.cdist(inside, segments.midpoint[around])
    cosine = segments.direction[tile] @ segments.direction[around].mT
    apart.masked_fill_(cosine.abs() > _MAX_COSINE, math.inf)
    value, column = apart.topk(min(count, len(around)), largest=False)
    usable = value.isfinite()
    own = tile[:, None].expand_as(column)
    return torch.stack([own[usable], around[column[usable]]], -1)
