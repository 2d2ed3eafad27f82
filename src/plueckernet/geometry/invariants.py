"""Invariants of pairs of lines: quantities that no rigid motion and no change of line sign alters.

Matching pairs of lines have the same invariants in both maps, so lines can be matched without an initial guess.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.geometry.lines import LineSet

_MIN_SINE = 0.05  # sine of the angle below which the common perpendicular is dominated by noise


@dataclass(frozen=True, eq=False)
class PairInvariants:
    """Invariants of ordered pairs ``(i, j)`` of lines: ``r`` lines of a set with ``n`` lines of it."""

    cosine: Float[Tensor, "*batch r n"]  # |cos| of the angle
    sine: Float[Tensor, "*batch r n"]
    distance: Float[Tensor, "*batch r n"]  # between the infinite lines; `anchor_distance` if they are nearly parallel
    anchor_distance: Float[Tensor, "*batch r n"]  # from the anchor of j to line i
    along: Float[Tensor, "*batch r n"]  # |coordinate| of the anchor of j along line i, from the anchor of i
    span: Float[Tensor, "*batch r n"]  # between the anchors


def pairwise_invariants(
    lines: LineSet,
    anchors: Float[Tensor, "*batch n 3"],
    rows: slice | Int[Tensor, " r"] = slice(None),
    columns: slice | Int[Tensor, " c"] = slice(None),
) -> PairInvariants:
    """Invariants of all pairs, or of some rows with all lines or with some, as matrix products.

    With directions ``d``, moments ``m`` and anchors ``a``: ``|d_i . d_j|``; the distance of two skew lines
    ``|d_i . m_j + d_j . m_i| / |d_i x d_j|``, of two nearly parallel lines ``|d_i x (a_j - a_i)|``; and the anchor
    of ``j`` in cylindrical coordinates about line ``i``.
    """
    own, own_moment, own_anchor = (x[..., rows, :] for x in (lines.direction, lines.moment, anchors))
    d, m, anchors = (x[..., columns, :] for x in (lines.direction, lines.moment, anchors))
    ones, own_ones = torch.ones_like(anchors[..., :1]), torch.ones_like(own_anchor[..., :1])
    square, own_square = (x.square().sum(-1, keepdim=True) for x in (anchors, own_anchor))
    cosine = (own @ d.mT).abs_().clamp_(max=1)
    sine = cosine.square().neg_().add_(1).sqrt_()
    homogeneous = torch.cat([anchors, ones, square], -1).mT  # (*, 5, n)
    along = (torch.cat([own, -(own * own_anchor).sum(-1, keepdim=True)], -1) @ homogeneous[..., :4, :]).abs_()
    span_terms = torch.cat([-2 * own_anchor, own_square, own_ones], -1)
    span = (span_terms @ homogeneous).clamp_min_(0)  # still squared
    anchor_distance = torch.addcmul(span, along, along, value=-1).clamp_min_(0).sqrt_()
    skew = torch.cat([own, own_moment], -1) @ torch.cat([m, d], -1).mT
    skew = skew.abs_().div_(sine.clamp_min(_MIN_SINE))
    # Arithmetic instead of a mask, because a CPU mispredicts random branches.
    distance = torch.lerp(anchor_distance, skew, sine.clone().gt_(_MIN_SINE))
    return PairInvariants(cosine, sine, distance, anchor_distance, along, span.sqrt_())
