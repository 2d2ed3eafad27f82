"""Which matches can be true together: a rigid motion keeps what two lines share."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines, Tolerance
from plueckernet.geometry.invariants import PairInvariants, pairwise_invariants


def compatibility(
    source: AnchoredLines,
    target: AnchoredLines,
    tolerance: Tolerance,
) -> Bool[Tensor, "k k"]:
    """Pairs of row matches that one rigid motion can satisfy.

    The angle of the two lines and their distance must agree. For segments also the distance of their midpoints,
    which may differ by what the ends were cut. A line matched twice is compatible with neither of its matches.
    """
    a, b = _invariants(source), _invariants(target)
    agree = (a.cosine.acos() - b.cosine.acos()).abs_() < tolerance.angle
    agree &= (a.distance - b.distance).abs_() < tolerance.position
    if source.reach is not None and target.reach is not None:
        agree &= _midpoints_agree(a, b, (source.reach - target.reach).abs(), tolerance)
    agree &= _differ(source.lines.ids) & _differ(target.lines.ids)
    return agree.fill_diagonal_(False)


def second_order(compatible: Bool[Tensor, "k k"]) -> Float[Tensor, "k k"]:
    """For each compatible pair, how many matches are compatible with both (SC², Chen et al. 2022).

    Wrong matches agree with one another by chance; that many agree with the same others is no chance.
    """
    counts = compatible.float()
    return counts * (counts @ counts)


def match_support(support: Float[Tensor, "k k"], iterations: int = 10) -> Float[Tensor, " k"]:
    """How strongly each match belongs to the largest consistent group: the leading eigenvector, largest entry 1."""
    weight = support.sum(-1)
    for _ in range(iterations):
        weight = support @ (weight / weight.amax().clamp_min(1e-30))
    return weight / weight.amax().clamp_min(1e-30)


def _invariants(lines: AnchoredLines) -> PairInvariants:
    """In single precision, which the tolerances never notice."""
    return pairwise_invariants(lines.lines.to(torch.float32), lines.anchor.float())


def _midpoints_agree(a: PairInvariants, b: PairInvariants, cut: Tensor, tolerance: Tolerance) -> Tensor:
    slack = tolerance.position + (cut[:, None] + cut[None, :])
    return (a.span - b.span).abs_() < slack


def _differ(ids: Tensor | None) -> Tensor:
    """Rows whose line is not the same one; rows without ids are taken as different lines."""
    return torch.ones((), dtype=torch.bool) if ids is None else ids[:, None] != ids[None, :]
