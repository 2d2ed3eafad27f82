"""The pairs of lines of a large map, sorted so that those of like shape are looked up at once."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.retrieval.line_pairs import LinePairs, Segments

_CELL = 1.5  # tolerances
_BITS = 20  # of a cell along each axis
_SAME_ANGLE = math.radians(8.0)
_BLOCK = 1 << 20  # pairs whose shape is computed at once


class Span(NamedTuple):
    """Stretches of a table in which pairs of like shape are."""

    start: Int[Tensor, "q 8"]
    size: Int[Tensor, "q 8"]


class PairTable:
    """Angle, gap and offsets of all pairs, by cells of gap and offsets."""

    def __init__(self, segments: Segments, rows: Int[Tensor, "k 2"], tolerance: float) -> None:
        self.tolerance, self._segments = tolerance, segments
        shapes = [self._shapes(block) for block in rows.split(_BLOCK)] or [self._shapes(rows)]
        key, lengths, angle = (torch.cat(values) for values in zip(*shapes, strict=True))
        self._key, order = key.sort(stable=True)
        self.rows, self._lengths, self._angle = rows[order], lengths[order], angle[order]

    def __len__(self) -> int:
        return len(self.rows)

    def pairs(self, hit: Int[Tensor, " h"]) -> LinePairs:
        """The pairs at rows of the table."""
        return LinePairs.of(self._segments, self.rows[hit])

    def span(self, pairs: LinePairs) -> Span:
        """Where the pairs are that may resemble the given ones: in their own cell and in the nearest ones beside it."""
        lengths = pairs.lengths() / (_CELL * self.tolerance)
        cell = lengths.floor()
        beside = torch.where(lengths - cell > 0.5, 1.0, -1.0)
        keys = torch.stack(
            [_packed(cell + beside * torch.tensor(corner)) for corner in itertools.product((0.0, 1.0), repeat=3)], -1
        )
        start = torch.searchsorted(self._key, keys)
        return Span(start, torch.searchsorted(self._key, keys, right=True) - start)

    def similar(
        self, pairs: LinePairs, span: Span, allowed: Bool[Tensor, " q"]
    ) -> tuple[Int[Tensor, " h"], Int[Tensor, " h"]]:
        """Rows of the given pairs that are allowed, and of the pairs of the table that resemble them."""
        chosen = allowed.nonzero()[:, 0]
        start, count = span.start[chosen].flatten(), span.size[chosen].flatten()
        query = chosen.repeat_interleave(span.start.shape[1]).repeat_interleave(count)
        hit = torch.arange(len(query)) + (start - (count.cumsum(0) - count)).repeat_interleave(count)
        same = ((self._lengths[hit] - pairs.lengths()[query]).abs() < self.tolerance).all(-1)
        query, hit = query[same], hit[same]
        same = (self._angle[hit] - pairs.angle()[query]).abs() < _SAME_ANGLE
        return query[same], hit[same]

    def _shapes(self, rows: Int[Tensor, "k 2"]) -> tuple[Int[Tensor, " k"], Float[Tensor, "k 3"], Float[Tensor, " k"]]:
        pairs = LinePairs.of(self._segments, rows)
        lengths = pairs.lengths()
        return _packed((lengths / (_CELL * self.tolerance)).floor()), lengths, pairs.angle()


def _packed(cell: Float[Tensor, "*n 3"]) -> Int[Tensor, "*n"]:
    """Three cells as one number; cells further away than can be stored share one."""
    half = 1 << (_BITS - 1)
    x, y, z = (cell.clamp(-half, half - 1).long() + half).unbind(-1)
    return (((x << _BITS) | y) << _BITS) | z
