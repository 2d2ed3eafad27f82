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
    """Invariants of all ordered pairs ``(i, j)`` of lines in a set."""

    cosine: Float[Tensor, "*batch n n"]  # |cos| of the angle
    distance: Float[Tensor, "*batch n n"]  # between the infinite lines
    reach: Float[Tensor, "*batch n n"]  # from the anchor of j to line i
    along: Float[Tensor, "*batch n n"]  # |coordinate| of the anchor of j along line i, from the anchor of i
    span: Float[Tensor, "*batch n n"]  # between the anchors


def pairwise_invariants(lines: LineSet, anchors: Float[Tensor, "*batch n 3"]) -> PairInvariants:
    r"""All pairs at once, as matrix products.

    With directions ``d``, moments ``m`` and anchors ``a``: ``|d_i . d_j|``; the distance of two skew lines
    ``|d_i . m_j + d_j . m_i| / |d_i x d_j|``, of two nearly parallel ones ``|d_i x (a_j - a_i)|``; and the anchor
    of ``j`` in cylinder coordinates about line ``i``.
    """
    d, m = lines.direction, lines.moment
    cosine = (d @ d.mT).abs().clamp(max=1)
    along = (d @ anchors.mT - (d * anchors).sum(-1)[..., :, None]).abs()
    span = torch.cdist(anchors, anchors)
    reach = (span.square() - along.square()).clamp_min(0).sqrt()
    sine = (1 - cosine.square()).clamp_min(0).sqrt()
    mutual = d @ m.mT
    skew = (mutual + mutual.mT).abs() / sine.clamp_min(_PARALLEL)
    parallel = (reach + reach.mT) / 2
    return PairInvariants(cosine, torch.where(sine > _PARALLEL, skew, parallel), reach, along, span)
