"""Which matches can be true together: a rigid motion keeps what two lines share."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK, AnchoredLines, Tolerance
from plueckernet.geometry.invariants import pairwise_invariants


def compatibility(source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance) -> Bool[Tensor, "k k"]:
    """Pairs of row matches that one rigid motion can satisfy.

    The angle of the two lines and their distance must agree. For segments also the distance of their midpoints,
    which may differ by what the ends were cut. A line matched twice is compatible with neither of its matches.
    """
    size = max(1, BLOCK // max(1, len(source)))
    one, two = source.to(torch.float32), target.to(torch.float32)
    rows = [_compatible_rows(one, two, tolerance, slice(i, i + size)) for i in range(0, len(source), size)]
    return torch.cat(rows).fill_diagonal_(False) if rows else torch.zeros(0, 0, dtype=torch.bool)


def second_order(compatible: Bool[Tensor, "k k"]) -> Float[Tensor, "k k"]:
    """For each compatible pair, how many matches are compatible with both (SC², Chen et al. 2022).

    Wrong matches agree with one another by chance; that many agree with the same others is no chance.
    """
    counts = compatible.float()
    return (counts @ counts).mul_(counts)


def match_support(support: Float[Tensor, "k k"], iterations: int = 4) -> Float[Tensor, " k"]:
    """How strongly each match belongs to the largest consistent group: about the leading eigenvector, of length 1."""
    weight = support.sum(-1)
    for _ in range(iterations):
        weight = support @ (weight / weight.norm().clamp_min(1e-30))
    return weight / weight.norm().clamp_min(1e-30)


def _compatible_rows(source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance, rows: slice) -> Tensor:
    a = pairwise_invariants(source.lines, source.anchor, rows)
    b = pairwise_invariants(target.lines, target.anchor, rows)
    # cos(x - y) = cos x cos y + sin x sin y compares angles without computing them.
    agree = (a.cosine * b.cosine).addcmul_(a.sine, b.sine) > math.cos(tolerance.angle)
    agree &= (a.distance - b.distance).abs_() < tolerance.position
    if source.reach is not None and target.reach is not None:
        cut = (source.reach - target.reach).abs()
        agree &= (a.span - b.span).abs_() < cut[rows, None] + (cut + tolerance.position)
    for ids in (source.lines.ids, target.lines.ids):
        if ids is not None:
            agree &= ids[rows, None] != ids
    return agree
