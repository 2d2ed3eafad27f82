"""Which matches can be true together: a rigid motion keeps what two lines share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK, AnchoredLines, Tolerance
from plueckernet.geometry.invariants import pairwise_invariants
from plueckernet.geometry.lines import LineSet


def compatibility(source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance) -> Float[Tensor, "k k"]:
    """1 for pairs of row matches that one rigid motion can satisfy, 0 for the others.

    The angle of the two lines and their distance must agree. For segments also the distance of their midpoints,
    which may differ by what the ends were cut. A line matched twice is compatible with neither of its matches.
    """
    count = len(source)
    both = _Sides.of(source, target)
    compatible = torch.zeros(count, count, device=source.anchor.device)
    size = max(1, 2 * BLOCK // max(1, count))
    for start in range(0, count, size):  # pairs (i, j) with i < j, and some more
        compatible[start : start + size, start:] = _margin(both, tolerance, start, size).gt_(0)
    compatible.triu_(1)
    return compatible + compatible.mT


def second_order(compatible: Float[Tensor, "k k"]) -> Float[Tensor, "k k"]:
    """For each compatible pair, how many matches are compatible with both (SC², Chen et al. 2022).

    Wrong matches agree with one another by chance; that many agree with the same others is no chance.
    """
    return (compatible @ compatible).mul_(compatible)


def match_support(support: Float[Tensor, "k k"], iterations: int = 4) -> Float[Tensor, " k"]:
    """How strongly each match belongs to the largest consistent group: about the leading eigenvector, of length 1."""
    scale = 1 / max(1, len(support)) ** 2  # entries are at most the number of matches, so this keeps them below one
    weight = support.sum(-1).mul_(scale)
    for _ in range(iterations):
        weight = (support @ weight).mul_(scale)
    return weight / weight.norm().clamp_min(1e-30)


@dataclass(frozen=True, eq=False)
class _Sides:
    """The matched lines of both maps in single precision, source first."""

    lines: LineSet  # (2, k)
    anchor: Tensor  # (2, k, 3)
    cut: Tensor | None  # (k,), how much the ends of segments can have moved their middles apart
    ids: list[Tensor]

    @classmethod
    def of(cls, source: AnchoredLines, target: AnchoredLines) -> _Sides:
        direction = torch.stack([source.lines.direction, target.lines.direction]).float()
        moment = torch.stack([source.lines.moment, target.lines.moment]).float()
        cut = None
        if source.reach is not None and target.reach is not None:
            cut = (source.reach - target.reach).abs().float()
        return _Sides(
            LineSet(direction, moment),
            torch.stack([source.anchor, target.anchor]).float(),
            cut,
            [side.lines.ids for side in (source, target) if side.lines.ids is not None],
        )


def _margin(both: _Sides, tolerance: Tolerance, start: int, size: int) -> Float[Tensor, "r n"]:
    """Positive where all invariants agree. Numbers, not truth values, which processors compare several times slower."""
    lines = LineSet(both.lines.direction[:, start:], both.lines.moment[:, start:])
    pairs = pairwise_invariants(lines, both.anchor[:, start:], slice(size))
    # cos(x - y) = cos x cos y + sin x sin y compares angles without computing them.
    margin = (pairs.cosine[0] * pairs.cosine[1]).addcmul_(*pairs.sine).sub_(math.cos(tolerance.angle))
    apart = (pairs.distance[0] - pairs.distance[1]).abs_()
    margin = torch.minimum(margin, tolerance.position - apart)
    if both.cut is not None:
        cut = both.cut[start:]
        apart = (pairs.span[0] - pairs.span[1]).abs_().sub_(cut[:size, None])
        margin = torch.minimum(margin, (cut + tolerance.position) - apart)
    for ids in both.ids:  # zero for the same line
        margin = torch.minimum(margin, (ids[start : start + size, None] - ids[start:]).abs_().to(margin.dtype))
    return margin
