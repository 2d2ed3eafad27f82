"""The encoder of the invariant matcher, which sees only pairwise invariants of lines.

For lines ``i`` and ``j`` of one set, with unit directions ``d``, anchors ``p`` and ``r = p_j - p_i``, an edge has

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, gelu, linear

from plueckernet.geometry import LineSet
from plueckernet.models.attention import Edges, mask_bias
from plueckernet.models.mlp import MLP
from plueckernet.models.neighbours import gather_lines, nearest_neighbours

_RADII = (1.0, 3.0, 9.0)  # Gaussian radii of the averages over edges, in units of the scale; filters use the middle one
_MIN_RADIAL, _MAX_RADIAL = 0.02, 50.0  # range of the radial functions, in units of the scale
_HALF_WEIGHT_SINE = 0.1  # sine of the angle at which the gap has half its weight
_SCALE_NEIGHBOUR = 8  # rank of the neighbour whose median distance is the scale
_BLOCK_BYTES = {"cpu": 1 << 23, "cuda": 1 << 31}  # edge features per block when no gradient is needed
_TABLE_ROWS = 8192  # per function of the first layer; midway between two rows the error is 0.001 of a weight


@dataclass(frozen=True)
class InvariantEncoderConfig:
    """Settings of :class:`InvariantEncoder`."""

    channels: int = 128
    heads: int = 4
    layers: int = 6  # self-attention layers that get edges
    filters: int = 8  # message filters, shared by all layers
    edge_channels: int = 32
    radial: int = 24  # radial functions per distance
    angular: int = 13  # radial functions per angle
    dense_limit: int = 1024  # up to this number of lines every pair has an edge
    neighbours: int = 256  # edges per line in larger sets
    scale: Literal["joint", "metric"] = "joint"  # metric: coordinates are metres, distances are not scaled
    signed: bool = True  # edges include orientation and handedness
    local: bool = True  # edges are averaged over neighbourhoods; False: over the whole set


class CentredLines(NamedTuple):
    """Lines relative to the centre of their set, in float64; gathered to ``(s, n, k, ...)`` for sparse edges."""

    direction: Tensor  # (s, n, 3)
    anchor: Tensor  # (s, n, 3)
    moment: Tensor  # (s, n, 3)
    along: Tensor  # (s, n), d . p
    square: Tensor  # (s, n), |p|²


class InvariantEncoder(nn.Module):
    """Encodes sets of lines as line features ``(s, n, c)`` and edges for each self-attention layer."""

    angle_centres: Tensor
    length_centres: Tensor

    def __init__(self, config: InvariantEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.radii = _RADII if config.local else (torch.inf,)
        edge = config.edge_channels
        shortest, longest = torch.tensor([_MIN_RADIAL, _MAX_RADIAL]).log().tolist()
        self.register_buffer("angle_centres", torch.linspace(0, torch.pi / 2, config.angular), persistent=False)
        self.register_buffer("length_centres", torch.linspace(shortest, longest, config.radial), persistent=False)
        self.radial = nn.Linear(4 * config.radial, edge)
        self.angular = nn.Linear(config.angular + 3 * config.signed, edge, bias=False)
        # One row for infinite lines, one for segments, because their anchors have different meanings.
        self.gain = nn.Parameter(torch.ones(2, edge))
        self.shift = nn.Parameter(torch.zeros(2, edge))
        self.second = nn.Linear(edge, edge)
        self.head = nn.Linear(edge, config.layers * config.heads + config.filters)
        self.unary_gain = nn.Parameter(torch.ones(2, 2, config.radial))
        sizes = (len(self.radii) * edge + 2 * config.radial, 2 * config.channels, config.channels)
        self.line = MLP(sizes, "layer-gelu")

    def forward(self, lines: LineSet) -> tuple[Float[Tensor, "s n c"], list[Edges]]:
        """Encode ``s = 2 b`` sets, the ``b`` sources first; lines with endpoints are segments."""
        centred, mask = centre_lines(lines), lines.mask
        sparse = not torch.compiler.is_exporting() and len(lines) > self.config.dense_limit
        nearest = nearest_neighbours(centred.anchor, self.config.neighbours if sparse else _SCALE_NEIGHBOUR + 1, mask)
        scale = centred.anchor.new_ones(centred.anchor.shape[0])
        if self.config.scale == "joint":
            scale = joint_scale(centred.anchor, nearest, mask)
        neighbours = nearest if sparse else None
        mode, centred = int(lines.endpoints is not None), _scaled(centred, scale)
        bias, filters, pooled = self._all_edges(centred, mask, neighbours, mode)
        x = self.line(torch.cat([pooled, self._unary(lines, centred, scale, mode)], -1))  # (s, n, c)
        x = x if mask is None else x * mask[..., None].to(x.dtype)
        return x, [Edges(layer_bias, filters, neighbours) for layer_bias in bias.split(self.config.heads, 1)]

    def _all_edges(
        self, centred: CentredLines, mask: Tensor | None, neighbours: Tensor | None, mode: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Biases of all layers, filters and local averages of the edges, computed in blocks of lines."""
        (sets, n), first = centred.along.shape, self._first_layer(mode)
        k, step = n if neighbours is None else neighbours.shape[-1], n
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            row_bytes = 4 * self.radial.in_features * sets * k
            step = max(1, _BLOCK_BYTES.get(centred.along.device.type, 1 << 31) // row_bytes)
        if step >= n:
            return self._edges(centred, slice(0, n), mask, neighbours, first)
        buffers = [self.head.weight.new_empty(sets, channels, n, k) for channels in self._channels()]
        pooled = []
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            out = [buffer[:, :, rows] for buffer in buffers]
            pooled.append(self._edges(centred, rows, mask, neighbours, first, out)[2])
        return buffers[0], buffers[1], torch.cat(pooled, 1)

    def _edges(
        self,
        centred: CentredLines,
        rows: slice,
        mask: Tensor | None,
        neighbours: Tensor | None,
        first: Callable[[EdgeInvariants], Tensor],
        out: Sequence[Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor, Tensor]:
        index = None if neighbours is None else neighbours[:, rows]
        own = CentredLines(*(value[:, rows] for value in centred))
        near = centred if index is None else CentredLines(*(gather_lines(value, index) for value in centred))
        real = None if mask is None else mask[:, None] if index is None else gather_lines(mask, index)
        pair = edge_invariants(own, near, self.radial.weight.dtype)
        hidden, span = gelu(self.second(gelu(first(pair)))), pair.span  # (s, r, k, e), (s, r, k)
        weight = torch.stack([(span / radius).square().mul(-0.5).exp() for radius in self.radii], -2)
        if real is not None:
            weight = weight * real[..., None, :].to(weight.dtype)
        weight = weight / weight.sum(-1, keepdim=True).clamp_min(1e-6)  # (s, r, radii, k)
        pooled = (weight.to(hidden.dtype) @ hidden).flatten(-2)  # (s, r, radii * e)
        # Products with the weights on the left give the layout of the attention, (s, layers * heads, r, k).
        weights, constants = (values.split(self._channels()) for values in (self.head.weight, self.head.bias))
        products = zip(weights, constants, out, strict=True)
        bias, filters = (_product(matrix, constant, hidden, buffer) for matrix, constant, buffer in products)
        if real is not None:
            bias = torch.add(bias, mask_bias(real, bias.dtype)[:, None], out=out[0])
        filters = torch.mul(filters, weight[:, None, :, len(self.radii) // 2].to(filters.dtype), out=out[1])
        return bias, filters, pooled

    def _channels(self) -> list[int]:
        """Numbers of channels of the biases of all layers and of the filters."""
        return [self.config.layers * self.config.heads, self.config.filters]

    def _first_layer(self, mode: int) -> Callable[[EdgeInvariants], Tensor]:
        """The first layer on the invariants; from tables on a CPU if no gradient is needed."""
        tabulated = self.radial.weight.device.type == "cpu" and not (
            torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu")
        )
        return partial(self._looked_up, tables=self._tables(mode)) if tabulated else partial(self._first, mode=mode)

    def _first(self, pair: EdgeInvariants, mode: int) -> Tensor:
        lengths = torch.stack([pair.gap, *pair.anchor_distances, pair.span], -1)  # (s, r, k, 4)
        radial = self._bumps_of(lengths)  # (s, r, k, 4, radial)
        radial[..., 0, :] *= pair.skew[..., None]
        angular = _bumps(pair.angle, self.angle_centres.to(lengths.dtype))  # (s, r, k, angular)
        if self.config.signed:
            angular = torch.cat([angular, torch.stack(pair.signed, -1)], -1)  # (s, r, k, angular + 3)
        # Gain and shift are folded into the weights, because there are far fewer weights than edges.
        gain, shift = self.gain[mode], self.shift[mode]
        hidden = linear(radial.flatten(-2), self.radial.weight * gain[:, None], self.radial.bias * gain + shift)
        hidden += linear(angular, self.angular.weight * gain[:, None])
        return hidden

    def _looked_up(self, pair: EdgeInvariants, tables: Float[Tensor, "rows e"]) -> Tensor:
        """The same layer from tables: it is a sum of univariate functions, each read at the nearest row.

        A CPU reads eight rows in a fraction of the time of all bumps and their products.
        """
        lowest, highest = self._length_range()
        lengths = (
            torch.stack([pair.gap, *pair.anchor_distances, pair.span]).add_(_MIN_RADIAL / 2).log_()
        )  # (4, s, r, k)
        table_rows = (
            lengths.sub_(lowest).mul_((_TABLE_ROWS - 1) / (highest - lowest)).add_(0.5).clamp_(0, _TABLE_ROWS - 1)
        )
        functions = [*table_rows, pair.angle * ((_TABLE_ROWS - 1) / (torch.pi / 2)) + 0.5]
        signed = pair.signed if self.config.signed else ()
        rows = torch.empty(*pair.span.shape, len(functions) + len(signed), dtype=torch.int32)
        weights = torch.ones_like(rows, dtype=pair.span.dtype)
        weights[..., 0] = pair.skew
        for column, row in enumerate(functions):
            rows[..., column] = row + column * _TABLE_ROWS  # rounded down
        for last, value in enumerate(signed):
            rows[..., len(functions) + last] = len(functions) * _TABLE_ROWS + last
            weights[..., len(functions) + last] = value
        rows, weights = rows.flatten(0, -2), weights.flatten(0, -2)  # (s r k, 8)
        hidden = embedding_bag(rows, tables, mode="sum", per_sample_weights=weights)
        return hidden.unflatten(0, pair.span.shape)

    def _tables(self, mode: int) -> Float[Tensor, "rows e"]:
        """First-layer contributions of each length and of the angle, sampled over their range; then the signed ones."""
        gain, shift, angular = self.gain[mode], self.shift[mode], self.config.angular
        steps = torch.linspace(0, 1, _TABLE_ROWS, dtype=gain.dtype)
        lowest, highest = self._length_range()
        bumps = _bumps(lowest + (highest - lowest) * steps, self.length_centres.to(gain.dtype))  # (rows, radial)
        radial = bumps @ (self.radial.weight * gain[:, None]).unflatten(1, (4, -1)).permute(1, 2, 0)  # (4, rows, e)
        weight = (self.angular.weight * gain[:, None]).mT  # (angular + 3, e)
        angle = _bumps(steps * (torch.pi / 2), self.angle_centres.to(gain.dtype)) @ weight[:angular]
        return torch.cat([radial.flatten(0, 1), angle + self.radial.bias * gain + shift, weight[angular:]])

    def _length_range(self) -> tuple[float, float]:
        """Range of the logarithms of lengths outside which all bumps are zero."""
        first, second, last = self.length_centres[[0, 1, -1]].tolist()
        return first - 2 * (second - first), last + 2 * (second - first)

    def _unary(self, lines: LineSet, centred: CentredLines, scale: Tensor, mode: int) -> Tensor:
        """Features of single lines: the distance from the centre and, for segments, the length."""
        dtype = self.radial.weight.dtype
        distance = self._bumps_of(centred.square.sqrt().to(dtype))  # (s, n, radial)
        length = torch.zeros_like(distance)
        if lines.endpoints is not None:
            length = self._bumps_of((lines.lengths() / scale[:, None]).to(dtype))
        gain = self.unary_gain[mode]
        return torch.cat([distance * gain[0], length * gain[1]], -1)  # (s, n, 2 * radial)

    def _bumps_of(self, length: Tensor) -> Tensor:
        return _bumps((length + _MIN_RADIAL / 2).log(), self.length_centres.to(length.dtype))


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
        skew=sine_square / (sine_square + _HALF_WEIGHT_SINE**2) * (1 + _HALF_WEIGHT_SINE**2),
        anchor_distances=(anchor_distance, near_anchor_distance),
        span=span,
        signed=(cosine * along_product, cosine * twist, along_product * twist),
    )


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
    rank = torch.sym_min(_SCALE_NEIGHBOUR, nearest.shape[-1] - 1)
    index = nearest[..., rank, None].expand(-1, -1, 3)
    distance = (anchor - anchor.gather(1, index)).square().sum(-1).sqrt()  # (s, n)
    real = torch.ones_like(distance, dtype=torch.bool) if mask is None else mask
    ordered = distance.masked_fill(~real, torch.inf).sort(-1).values
    middle = (real.sum(-1, keepdim=True) - 1).clamp_min(0) // 2  # (s, 1)
    median = ordered.gather(-1, middle)[:, 0]  # (s,)
    known = median.isfinite() & (median > 0)
    logarithm = torch.where(known, median, 1.0).log().unflatten(0, (2, -1))  # (2, b)
    weight = known.unflatten(0, (2, -1)).to(logarithm.dtype)
    return ((logarithm * weight).sum(0) / weight.sum(0).clamp_min(1)).exp().repeat(2)


# Private


def _scaled(centred: CentredLines, scale: Float[Tensor, " s"]) -> CentredLines:
    """The same lines with ``scale`` as the unit of length."""
    unit = scale[:, None]
    anchor, moment = centred.anchor / unit[..., None], centred.moment / unit[..., None]
    return CentredLines(centred.direction, anchor, moment, centred.along / unit, centred.square / unit.square())


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


def _product(
    weight: Float[Tensor, "c e"], constant: Float[Tensor, " c"], hidden: Float[Tensor, "s r k e"], out: Tensor | None
) -> Tensor:
    """A linear layer on every edge, ``(s, c, r, k)``, written to ``out`` if given."""
    left, right = weight.expand(len(hidden), -1, -1), hidden.flatten(1, 2).mT
    if out is None:
        return torch.baddbmm(constant[:, None], left, right).unflatten(-1, hidden.shape[1:3])
    torch.bmm(left, right.to(out.dtype), out=out.flatten(2))
    return out.add_(constant[:, None, None])


def _dot(own: Tensor, near: Tensor) -> Tensor:
    """Inner products ``(s, n, k)`` of ``(s, n, 3)`` with ``(s, k, 3)`` or with gathered ``(s, n, k, 3)``."""
    return own @ near.mT if near.ndim == own.ndim else (own[..., None, :] * near).sum(-1)


def _column(near: Tensor, like: Tensor) -> Tensor:
    return near if near.ndim == like.ndim else near[:, None, :]


def _bumps(x: Tensor, centres: Tensor) -> Tensor:
    """Smooth bumps of ``x``, ``(1 - t² / 4)²`` within ``|t| < 2`` spacings of evenly spaced centres.

    Polynomials, because a CPU evaluates ten of them in the time of one exponential.
    """
    spread = 2 * (centres[1] - centres[0])
    t = (x / spread)[..., None] - centres / spread
    return t.square_().sub_(1).clamp_max_(0).square_()
