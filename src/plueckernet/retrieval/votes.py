"""Places of a part in a whole, by votes: every pair of lines of the part that a pair of the whole resembles is a pose.

A pair of neighbouring lines of the part resembles many pairs of a large map, and each of them says where the middle of
the part would be and how it would be turned. The right ones agree; the others are spread over the whole. Pairs that
resemble few others say most, so that the votes of a pair share one vote among them, and the rarest pairs vote first.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.geometry.pose import Pose
from plueckernet.retrieval.line_pairs import LinePairs, joined_pairs
from plueckernet.retrieval.pair_table import PairTable

_MAX_COMPARED = 1_500_000  # pairs of the whole that are compared with those of the part
_WINDOWS = 1200  # of the most votes that are looked at
_MAX_PLACES = 150  # whose rotations are compared
_SAME_ROTATION = math.cos(math.radians(8.0))
_SEEDS = 256  # votes of a place, each of which may have the rotation that most agree with


@dataclass(frozen=True, eq=False)
class VotedPlace:
    """Where a part may lie in a whole."""

    whole_T_part: Pose  # as the votes have it: to some degrees and a few tolerances
    centre: Float[Tensor, "3"]  # of the part, in the frame of the whole
    score: float  # pairs that agree, each divided by one plus the binary logarithm of the number of its votes
    pairs: int  # pairs of lines of the part that agree


@dataclass(frozen=True, eq=False)
class PoseVotes:
    """Rotations and places of the middle of the part, by pairs of lines."""

    rotation: Float[Tensor, "v 3 3"]
    centre: Float[Tensor, "v 3"]
    pair: Int[Tensor, " v"]  # of the part
    weight: Float[Tensor, " v"]  # one over the votes of this pair

    def __len__(self) -> int:
        return len(self.pair)


def pose_votes(
    submap: LinePairs, centre: Float[Tensor, "3"], table: PairTable, skipped: tuple[int, int] = (0, 0)
) -> PoseVotes:
    """The votes of all pairs, the rarest first, until enough are compared; lines of ``skipped`` rows do not vote."""
    variants, pair = _variants(submap, table.tolerance)
    span = table.span(variants)
    compared = torch.zeros(len(submap), dtype=torch.long).index_add_(0, pair, span.size.sum(1))
    order = compared.argsort(stable=True)
    allowed = torch.zeros(len(submap), dtype=torch.bool)
    allowed[order[compared[order].cumsum(0) <= _MAX_COMPARED]] = True
    query, hit = table.similar(variants, span, allowed[pair])
    first = table.rows[hit, 0]
    kept = (first < skipped[0]) | (first >= skipped[1])
    query, hit = query[kept], hit[kept]
    frame, origin = variants.frames()
    whole_frame, whole_origin = table.pairs(hit).frames()
    rotation = whole_frame @ frame[query].mT
    moved = whole_origin + (rotation @ (centre - origin[query])[..., None])[..., 0]
    voter = pair[query]
    weight = 1 / torch.bincount(voter, minlength=len(submap)).clamp_min(1)
    return PoseVotes(rotation, moved, voter, weight[voter])


def voted_places(votes: PoseVotes, centre: Float[Tensor, "3"], cell: float, count: int) -> list[VotedPlace]:
    """The places on which most votes agree, to about a cell and some degrees, best first."""
    if not len(votes):
        return []
    places: list[VotedPlace] = []
    centres = votes.centre.new_zeros(0, 3)
    for rows in _windows(votes, cell):
        middle = votes.centre[rows].mean(0)
        if len(centres) and bool(((centres - middle).square().sum(-1) < cell**2).any()):
            continue
        centres = torch.cat([centres, middle[None]])
        places.append(_place(votes, rows, centre, cell / 2))
        if len(places) == _MAX_PLACES:
            break
    return _apart(sorted(places, key=lambda place: -place.score), cell, count)


def _variants(submap: LinePairs, tolerance: float) -> tuple[LinePairs, Int[Tensor, " k"]]:
    """All ways in which a pair may be stored: either line first, and either direction if the foot is the midpoint."""
    variants, rows = [], []
    for turn in itertools.product((False, True), repeat=3):
        index = torch.ones(len(submap), dtype=torch.bool)
        for column in (0, 1):
            if turn[column]:
                index &= submap.offset[:, column] < tolerance
        chosen = submap[index]
        for column in (0, 1):
            chosen = chosen.reversed(column) if turn[column] else chosen
        variants.append(chosen.swapped() if turn[2] else chosen)
        rows.append(index.nonzero()[:, 0])
    return joined_pairs(variants), torch.cat(rows)


def _windows(votes: PoseVotes, cell: float) -> list[Int[Tensor, " w"]]:
    """Rows of the votes in blocks of two by two by two cells, those with most votes first."""
    index = (votes.centre / cell).floor().long()
    index -= index.amin(0)
    sides = index.amax(0) + 2
    corners = torch.cartesian_prod(*[torch.arange(2)] * 3)
    x, y, z = (index + corners[:, None]).flatten(0, 1).unbind(-1)
    key, order = ((x * sides[1] + y) * sides[2] + z).sort(stable=True)
    row = order % len(votes)
    _, block, size = key.unique_consecutive(return_inverse=True, return_counts=True)
    total = votes.weight.new_zeros(len(size)).index_add_(0, block, votes.weight[row])
    start = size.cumsum(0) - size
    best = total.topk(min(_WINDOWS, len(total))).indices.tolist()
    return [row[int(start[number]) : int(start[number] + size[number])] for number in best]


def _place(votes: PoseVotes, rows: Int[Tensor, " w"], centre: Float[Tensor, "3"], radius: float) -> VotedPlace:
    """The mean of the votes of a window that agree with the vote that most agree with."""
    entries, weight = votes.rotation[rows].flatten(1), votes.weight[rows]
    seeds = torch.linspace(0, len(rows) - 1, min(_SEEDS, len(rows))).long()
    same = (entries[seeds] @ entries.mT - 1) / 2 > _SAME_ROTATION
    same &= torch.cdist(votes.centre[rows[seeds]], votes.centre[rows]) < radius
    members = rows[same[(same.float() @ weight).argmax()]]
    u, _, vt = torch.linalg.svd(votes.rotation[members].double().mean(0))
    sign = torch.tensor([1.0, 1.0, float(torch.linalg.det(u @ vt).sign())], dtype=torch.float64)
    rotation = (u * sign) @ vt
    middle = votes.centre[members].double().mean(0)
    pairs, where = votes.pair[members].unique(return_inverse=True)
    rarity = torch.zeros(len(pairs)).scatter_reduce_(0, where, votes.weight[members], "amax")
    score = float((1 / (1 - rarity.log2())).sum())
    return VotedPlace(Pose(rotation, middle - rotation @ centre.double()), middle, score, len(pairs))


def _apart(places: list[VotedPlace], cell: float, count: int) -> list[VotedPlace]:
    """The first places that differ: neighbouring windows have most of their votes in common."""
    kept: list[VotedPlace] = []
    for place in places:
        if len(kept) == count:
            break
        if not any(_same(place, other, cell) for other in kept):
            kept.append(place)
    return kept


def _same(place: VotedPlace, other: VotedPlace, cell: float) -> bool:
    cosine = (float((place.whole_T_part.rotation * other.whole_T_part.rotation).sum()) - 1) / 2
    return cosine > _SAME_ROTATION and float((place.centre - other.centre).norm()) < 2 * cell
