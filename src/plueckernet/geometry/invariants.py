"""What two lines of one map share, whatever the frame and whichever way the lines are written.

Two maps of one place have these numbers in common for matching pairs of lines; everything that matches lines
without an initial guess stands on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.geometry.lines import LineSet

_PARALLEL = 0.05  # sine of the angle under which the common perpendicular is noise


@dataclass(frozen=True, eq=False)
class PairInvariants:
    """Invariants of ordered pairs ``(i, j)`` of lines: ``r`` of the lines of a set with all ``n`` of them."""

    cosine: Float[Tensor, "*batch r n"]  # |cos| of the angle
    sine: Float[Tensor, "*batch r n"]
    distance: Float[Tensor, "*batch r n"]  # between the infinite lines; for nearly parallel ones, `reach`
    reach: Float[Tensor, "*batch r n"]  # from the anchor of j to line i
    along: Float[Tensor, "*batch r n"]  # |coordinate| of the anchor of j along line i, from the anchor of i
    span: Float[Tensor, "*batch r n"]  # between the anchors


def pairwise_invariants(
    lines: LineSet, anchors: Float[Tensor, "*batch n 3"], rows: slice = slice(None)
) -> PairInvariants:
    """All pairs, or those of some rows with all lines, as matrix products.

    With directions ``d``, moments ``m`` and anchors ``a``: ``|d_i . d_j|``; the distance of two skew lines
    ``|d_i . m_j + d_j . m_i| / |d_i x d_j|``, of two nearly parallel ones ``|d_i x (a_j - a_i)|``; and the anchor
    of ``j`` in cylinder coordinates about line ``i``.
    """
    d, m = lines.direction, lines.moment
    own, own_moment, own_anchor = d[..., rows, :], m[..., rows, :], anchors[..., rows, :]
    one = torch.ones_like(anchors[..., :1])
    square = anchors.square().sum(-1, keepdim=True)
    cosine = (own @ d.mT).abs_().clamp_(max=1)
    sine = cosine.square().neg_().add_(1).sqrt_()
    places = torch.cat([anchors, one, square], -1).mT  # (*, 5, n)
    along = (torch.cat([own, -(own * own_anchor).sum(-1, keepdim=True)], -1) @ places[..., :4, :]).abs_()
    span = (torch.cat([-2 * own_anchor, square[..., rows, :], one[..., rows, :]], -1) @ places).clamp_min_(0)
    reach = torch.addcmul(span, along, along, value=-1).clamp_min_(0).sqrt_()
    skew = torch.cat([own, own_moment], -1) @ torch.cat([m, d], -1).mT
    skew = skew.abs_().div_(sine.clamp_min(_PARALLEL))
    # Arithmetic, because a processor guesses at random masks and mostly wrong.
    distance = torch.lerp(reach, skew, sine.clone().gt_(_PARALLEL))
    return PairInvariants(cosine, sine, distance, reach, along, span.sqrt_())
