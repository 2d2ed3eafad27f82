"""Matches of some lines of two maps: of the longest ones first, and of compact parts where that is not enough.

Most maps are registered by their longest lines, and matching a quarter of the lines takes a tenth of the time.

Two maps that share a tenth of their lines share a corner of each. The lines of the rest compete with the right matches
and hide them from the matcher. So both maps are halved twice, with some overlap, and every part of one is matched with
every part of the other: two of these pairs of parts have several times as much in common as the maps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.scoring import AnchoredLines

_HALVINGS = 2
_OVERLAP = 0.2  # of the lines, that are in both halves
MIN_PART_LINES = 12  # of a part
MAX_PART_MATCHES = 200  # of two parts, or of the longest lines


def longest_matches(
    maps: MapPair, count: int, match: Callable[[MapPair], Matches], few: int | None = None
) -> Matches | None:
    """The best matches of the longest lines, as rows of the cores, or of the middle of infinite ones.

    None if both maps have at most ``few`` lines, by default ``count``: all of them are then matched at once.
    """
    if max(maps.core_counts) <= (count if few is None else few):
        return None
    rows = _longest(maps.source, count), _longest(maps.target, count)
    return matches_of_rows(maps, rows, match)


def _longest(lines: AnchoredLines, count: int) -> Int[Tensor, " k"]:
    """Rows of the longest segments; infinite lines are all alike, so of these the ones nearest to the centre.

    Both maps then show the same middle of a place. In single precision, so that rounding does not decide between
    segments of one length.
    """
    if len(lines) <= count:
        return torch.arange(len(lines), device=lines.anchor.device)
    if lines.half_length is None:
        return lines.anchor.float().square().sum(-1).argsort(stable=True)[:count]
    return lines.half_length.float().argsort(descending=True, stable=True)[:count]


def part_matches(maps: MapPair, match: Callable[[MapPair], Matches]) -> Iterator[Matches]:
    """The best matches of every part of the source with every part of the target, as rows of the cores."""
    sides = [map_parts(side.anchor) for side in (maps.source, maps.target)]
    if len(sides[0]) * len(sides[1]) == 1:  # both maps are too small to be halved
        return
    for source_rows, target_rows in itertools.product(*sides):
        matches = matches_of_rows(maps, (source_rows, target_rows), match)
        if matches is not None:
            yield matches


def matches_of_rows(
    maps: MapPair, rows: tuple[Int[Tensor, " k"], Int[Tensor, " l"]], match: Callable[[MapPair], Matches]
) -> Matches | None:
    """The best matches of some lines of the cores, as rows of these; None if the lines make no map."""
    try:
        chosen = maps.of_rows(*rows)
    except InputError:  # they may all pass through one point
        return None
    matches = match(chosen).first(MAX_PART_MATCHES)
    return Matches(rows[0][matches.source], rows[1][matches.target], matches.probability)


def map_parts(anchor: Float[Tensor, "n 3"]) -> list[Int[Tensor, " k"]]:
    """Rows of overlapping parts of about equally many lines, each compact."""
    parts = [torch.arange(len(anchor), device=anchor.device)]
    for _ in range(_HALVINGS):
        parts = [half for rows in parts for half in _halves(rows, anchor)]
    return parts


def _halves(rows: Int[Tensor, " k"], anchor: Float[Tensor, "n 3"]) -> list[Int[Tensor, " h"]]:
    """The two halves along the longest extent, or all rows if a half would have too few."""
    size = round(len(rows) * (0.5 + _OVERLAP / 2))
    if size < MIN_PART_LINES or size == len(rows):
        return [rows]
    centred = anchor[rows] - anchor[rows].mean(0)
    axis = torch.linalg.eigh(centred.mT @ centred).eigenvectors[:, -1]
    order = rows[(centred @ axis).argsort(stable=True)]
    return [order[:size], order[-size:]]
