"""Which of many maps may overlap: each map is looked for in an index of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.geometry.lines import LineSet, join_lines
from plueckernet.retrieval.line_index import LineIndex

_SPACING = 5.0  # of the maps in the index, in extents: places of different maps are apart wherever maps overlap
_PLACES = 32  # of a map in the index


def overlap_scores(maps: Sequence[LineSet]) -> Float[Tensor, "m m"]:
    """How much two maps of one unit resemble each other: the score of the best place of one in the other.

    Symmetric; zero where nothing agrees, -1 on the diagonal, infinite for maps without end points, of which nothing is
    known. The maps are put side by side in one index, and each is looked for in it once.
    """
    scores = torch.full((len(maps), len(maps)), math.inf, dtype=torch.float64)
    rows = torch.tensor([row for row, lines in enumerate(maps) if lines.endpoints is not None], dtype=torch.long)
    if len(rows):
        scores[rows[:, None], rows] = _segment_scores([maps[row] for row in rows.tolist()])
    return scores.fill_diagonal_(-1.0)


def candidate_pairs(scores: Float[Tensor, "m m"], per_map: int) -> list[tuple[int, int]]:
    """Pairs ``(i, j)``, ``i < j``, the highest score first: each map with the ``per_map`` that resemble it most.

    Maps of which nothing is known are paired with all others.
    """
    rank = scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1, stable=True)
    chosen = ((rank < per_map) & (scores >= 0)) | scores.isinf()
    rows = (chosen | chosen.mT).triu(1).nonzero()
    order = scores[rows[:, 0], rows[:, 1]].argsort(descending=True, stable=True)
    return [(int(first), int(second)) for first, second in rows[order].tolist()]


def _segment_scores(maps: Sequence[LineSet]) -> Float[Tensor, "m m"]:
    origins = _side_by_side(maps)
    moved = [lines.shifted(lines.midpoints().median(0).values - at) for lines, at in zip(maps, origins, strict=True)]
    index = LineIndex.build(join_lines([LineSet.from_segments(lines.endpoints) for lines in moved]))
    scores = torch.zeros(len(maps), len(maps), dtype=torch.float64)
    start = 0
    for own, lines in enumerate(moved):
        for place in index.places(lines, _PLACES, skipped=(start, start + len(lines))):
            other = int((origins - place.centre).norm(dim=-1).argmin())
            scores[own, other] = max(float(scores[own, other]), place.score)
        start += len(lines)
    return scores.maximum(scores.mT)


def _side_by_side(maps: Sequence[LineSet]) -> Float[Tensor, "m 3"]:
    """Where to put the middle of each map so that no two come near each other: the corners of a square grid."""
    extents = []
    for lines in maps:
        midpoint = lines.midpoints()
        extents.append(float((midpoint - midpoint.median(0).values).norm(dim=-1).max()))
    side = math.isqrt(len(maps) - 1) + 1
    number = torch.arange(len(maps), dtype=torch.float64)
    grid = torch.stack([number % side, number.div(side, rounding_mode="floor"), torch.zeros_like(number)], -1)
    return grid * (_SPACING * max(*extents, 1e-9))
