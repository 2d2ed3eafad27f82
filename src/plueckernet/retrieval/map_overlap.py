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
_PLACES = 4  # of a map in the index, for each of the maps that are asked for


def candidate_pairs(maps: Sequence[LineSet], per_map: int = 8) -> list[tuple[int, int]]:
    """Pairs ``(i, j)``, ``i < j``, of maps of segments in one unit that may overlap, the most probable first.

    Each map is paired with at least ``per_map`` others if as many resemble it. The maps are put side by side in one
    index, and each is looked for in it once.
    """
    if len(maps) < 2:
        return []
    origins = _side_by_side(maps)
    moved = [lines.shifted(lines.midpoints().median(0).values - at) for lines, at in zip(maps, origins, strict=True)]
    index = LineIndex.build(join_lines([LineSet.from_segments(lines.endpoints) for lines in moved]))
    scores: dict[tuple[int, int], float] = {}
    start = 0
    for own, lines in enumerate(moved):
        skipped = (start, start + len(lines))
        start += len(lines)
        best: dict[int, float] = {}
        for place in index.places(lines, per_map * _PLACES, skipped):
            other = int((origins - place.centre).norm(dim=-1).argmin())
            if other != own and (other in best or len(best) < per_map):
                best[other] = max(best.get(other, 0.0), place.score)
        for other, score in best.items():
            pair = (min(own, other), max(own, other))
            scores[pair] = max(scores.get(pair, 0.0), score)
    return sorted(scores, key=lambda pair: -scores[pair])


def _side_by_side(maps: Sequence[LineSet]) -> Float[Tensor, "m 3"]:
    """Where to put the middle of each map so that no two come near each other: the corners of a square grid."""
    extents = []
    for lines in maps:
        midpoint = lines.midpoints()
        extents.append(float((midpoint - midpoint.median(0).values).norm(dim=-1).max()))
    side = math.isqrt(len(maps) - 1) + 1
    number = torch.arange(len(maps), dtype=torch.float64)
    grid = torch.stack([number % side, number.div(side, rounding_mode="floor"), torch.zeros_like(number)], -1)
    return grid * (_SPACING * max(extents))
