"""Invariants of pairs of lines, on which the encoder of the invariant matcher depends.

For lines ``i`` and ``j`` of one set, with unit directions ``d``, anchors ``p`` and ``r = p_j - p_i``, a pair has

    the angle              acos |d_i . d_j|
    the gap                |det[d_i, d_j, r]| / |d_i x d_j|, with weight 0 for parallel lines
    the anchor distances   of p_j to line i and of p_i to line j
    the span               |r|
    the orientation        (d_i . d_j) (d_i . r) (d_j . r) / |r|²
    the handedness         (d_i . d_j) det[d_i, d_j, r] / |r|  and  (d_i . r) (d_j . r) det[d_i, d_j, r] / |r|³

No rotation, translation or change of a line's sign alters any of them. A reflection changes the sign of the last two,
which distinguishes a room from its mirror image. Anchors are midpoints of segments, or, without endpoints, the foot
points of the perpendiculars from the least-squares centre of the lines.

Lengths are divided by one scale for both maps of a pair (:func:`joint_scale`), so maps may have any unit. The network
sees the logarithms of lengths.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.geometry import LineSet
from plueckernet.models.edge_blocks import Products

HALF_WEIGHT_SINE = 0.1  # sine of the angle at which the gap has half its weight
SCALE_NEIGHBOUR = 8  # rank of the neighbour whose median distance is the scale
_MIN_SCALE = 1e-6  # of the extent of a map; less is rounding, where the anchors of most lines coincide


class CentredLines(NamedTuple):
    """Lines relative to the centre of their set, in float64; gathered to ``(s, n, k, ...)`` for sparse edges."""

    direction: Tensor  # (s, n, 3)
    anchor: Tensor  # (s, n, 3)
    moment: Tensor  # (s, n, 3)
    along: Tensor  # (s, n), d . p
    square: Tensor  # (s, n), |p|²


class EdgeInvariants(NamedTuple):
    """Invariants of pairs of lines, each ``(s, n, k)``; see the module docstring."""

    angle: Tensor
    gap: Tensor
    skew: Tensor  # weight of the gap: 0 for parallel lines, 1 for perpendicular lines
    anchor_distances: tuple[Tensor, Tensor]
    span: Tensor
    signed: tuple[Tensor, Tensor, Tensor]  # orientation, two kinds of handedness; in [-1, 1]


def edge_invariants(own: CentredLines, near: CentredLines, dtype: torch.dtype) -> EdgeInvariants:
    """Invariants from inner products alone, without a vector per pair of a dense set.

    Differences are computed in float64, the rest in ``dtype``.
    """
    cosine = _dot(own.direction, near.direction).clamp(-1, 1)
    along = _dot(own.direction, near.anchor) - own.along[..., None]  # d_i . r
    near_along = _column(near.along, cosine) - _dot(own.anchor, near.direction)  # d_j . r
    square = own.square[..., None] + _column(near.square, cosine) - 2 * _dot(own.anchor, near.anchor)
    # The reciprocal product of two lines is the determinant det[d_i, d_j, r] up to sign.
    determinant = -(_dot(own.direction, near.moment) + _dot(own.moment, near.direction)).to(dtype)
    anchor_distance = (square - along.square()).to(dtype).clamp_min(0).sqrt()
    near_anchor_distance = (square - near_along.square()).to(dtype).clamp_min(0).sqrt()
    sine_square = (1 - cosine.square()).to(dtype)
    cosine, along, near_along = cosine.to(dtype), along.to(dtype), near_along.to(dtype)
    span = square.to(dtype).clamp_min(0).sqrt()
    distance = span.clamp_min(1e-6)
    along_product = (along / distance) * (near_along / distance)
    twist = determinant / distance
    # From the tangent of half the angle, which is accurate in float32 near 0 and near 90 degrees.
    angle = 2 * (sine_square.clamp_min(0).sqrt() / (1 + cosine.abs())).atan()
    return EdgeInvariants(
        angle=angle,
        gap=determinant.abs() / (sine_square + 1e-4).sqrt(),
        skew=sine_square / (sine_square + HALF_WEIGHT_SINE**2) * (1 + HALF_WEIGHT_SINE**2),
        anchor_distances=(anchor_distance, near_anchor_distance),
        span=span,
        signed=(cosine * along_product, cosine * twist, along_product * twist),
    )


def edge_products(centred: CentredLines) -> Products:
    """Factors of the products on which all invariants of the lines of one set depend."""
    direction, anchor, moment = centred.direction, centred.anchor, centred.moment
    along, square = centred.along[:, None], centred.square[:, None]
    ones, zeros = torch.ones_like(along), torch.zeros_like(along)
    none = torch.zeros_like(direction)
    own = [(direction, none), (direction, -along, zeros, zeros), (-anchor, ones, zeros, zeros),
           (-2 * anchor, square, ones, zeros), (-direction, -moment)]  # fmt: skip
    near = [(direction, none), (anchor, ones, zeros, zeros), (direction, along, zeros, zeros),
            (anchor, ones, square, zeros), (moment, direction)]  # fmt: skip
    stacked = (torch.stack([torch.cat(row, -1) for row in rows]) for rows in (own, near))  # (5, n, 6)
    return Products(next(stacked), next(stacked).mT)


def centre_lines(lines: LineSet) -> CentredLines:
    """Lines relative to the centre of their set, in float64, so that large offsets cost no precision."""
    weight = torch.ones_like(lines.direction[..., :1], dtype=torch.float64)
    if lines.mask is not None:
        weight = lines.mask[..., None].to(torch.float64)  # (s, n, 1)
    direction = lines.direction.to(torch.float64)
    if lines.endpoints is not None:
        midpoint = lines.endpoints.to(torch.float64).mean(-2)
        anchor = midpoint - (midpoint * weight).sum(-2, keepdim=True) / weight.sum(-2, keepdim=True).clamp_min(1)
    else:
        anchor = _feet_from_centre(direction, lines.moment.to(torch.float64), weight)
    anchor = anchor * weight
    moment = torch.linalg.cross(anchor, direction)
    return CentredLines(direction, anchor, moment, (direction * anchor).sum(-1), anchor.square().sum(-1))


def joint_scale(
    anchor: Float[Tensor, "s n 3"],
    nearest: Int[Tensor, "s n k"],
    mask: Bool[Tensor, "s n"] | None,
) -> Float[Tensor, " s"]:
    """The unit of length for both maps of a pair: the typical distance to the eighth nearest line.

    It is the median over the lines of each map and the geometric mean over the two maps. It follows the density of the
    lines and not the size of the map, so a neighbourhood has the same scale in a room and in a city.
    """
    rank = torch.sym_min(SCALE_NEIGHBOUR, nearest.shape[-1] - 1)
    index = nearest[..., rank, None].expand(-1, -1, 3)
    distance = (anchor - anchor.gather(1, index)).square().sum(-1).sqrt()  # (s, n)
    real = torch.ones_like(distance, dtype=torch.bool) if mask is None else mask
    ordered = distance.masked_fill(~real, torch.inf).sort(-1).values
    middle = (real.sum(-1, keepdim=True) - 1).clamp_min(0) // 2  # (s, 1)
    median = ordered.gather(-1, middle)[:, 0]  # (s,)
    extent = anchor.norm(dim=-1).masked_fill(~real, 0).amax(-1)
    known = median.isfinite() & (median > _MIN_SCALE * extent)
    logarithm = torch.where(known, median, 1.0).log().unflatten(0, (2, -1))  # (2, b)
    weight = known.unflatten(0, (2, -1)).to(logarithm.dtype)
    return ((logarithm * weight).sum(0) / weight.sum(0).clamp_min(1)).exp().repeat(2)


def scaled(centred: CentredLines, scale: Float[Tensor, " s"]) -> CentredLines:
    """The same lines with ``scale`` as the unit of length."""
    unit = scale[:, None]
    anchor, moment = centred.anchor / unit[..., None], centred.moment / unit[..., None]
    return CentredLines(centred.direction, anchor, moment, centred.along / unit, centred.square / unit.square())


# Private


def _feet_from_centre(
    direction: Float[Tensor, "s n 3"], moment: Float[Tensor, "s n 3"], weight: Float[Tensor, "s n 1"]
) -> Float[Tensor, "s n 3"]:
    """Foot points of the perpendiculars from the least-squares centre, relative to it."""
    eye = torch.eye(3, dtype=direction.dtype, device=direction.device)
    outer = (direction * weight).mT @ direction  # (s, 3, 3)
    normal = weight.sum(-2)[..., None].clamp_min(1) * eye - outer
    # A small ridge makes the centre of parallel lines unique; solving again from the new origin removes its bias.
    trace = normal.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    inverse = _inverse(normal + 1e-9 * trace * eye)
    for _ in range(3):
        foot = torch.linalg.cross(direction, moment)
        centre = inverse @ (foot * weight).sum(-2)[..., None]  # (s, 3, 1)
        moment = moment - torch.linalg.cross(centre.mT.expand_as(direction), direction)
    return torch.linalg.cross(direction, moment)


def _inverse(matrix: Float[Tensor, "s 3 3"]) -> Float[Tensor, "s 3 3"]:
    """Inverse of 3x3 matrices by cross products; unlike a solver it does not synchronise the device."""
    a, b, c = matrix.unbind(-2)
    cofactors = torch.stack([torch.linalg.cross(b, c), torch.linalg.cross(c, a), torch.linalg.cross(a, b)], -1)
    return cofactors / (a * cofactors[..., 0]).sum(-1)[..., None, None]


def _dot(own: Tensor, near: Tensor) -> Tensor:
    """Inner products ``(s, n, k)`` of ``(s, n, 3)`` with ``(s, k, 3)`` or with gathered ``(s, n, k, 3)``."""
    return own @ near.mT if near.ndim == own.ndim else (own[..., None, :] * near).sum(-1)


def _column(near: Tensor, like: Tensor) -> Tensor:
    return near if near.ndim == like.ndim else near[:, None, :]
