"""The encoder of the invariant matcher, which sees only the pairwise invariants of :mod:`.line_invariants`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from plueckernet.geometry import LineSet
from plueckernet.kernels.encoder import EncoderKernel
from plueckernet.models.attention import Edges, mask_bias, sparse_neighbours
from plueckernet.models.edge_blocks import (
    TABLE_ROWS,
    EdgeBlocks,
    EdgeWeights,
)
from plueckernet.models.line_invariants import (
    HALF_WEIGHT_SINE,
    SCALE_NEIGHBOUR,
    CentredLines,
    EdgeInvariants,
    centre_lines,
    edge_invariants,
    edge_products,
    joint_scale,
    scaled,
)
from plueckernet.models.mlp import MLP
from plueckernet.models.neighbours import gather_lines, nearest_neighbours
from plueckernet.models.packed import SetEdges
from plueckernet.models.prepared_weights import PreparedWeights

_RADII = (1.0, 3.0, 9.0)  # Gaussian radii of the averages over edges, in units of the scale; filters use the middle one
_MIN_RADIAL, _MAX_RADIAL = 0.02, 50.0  # range of the radial functions, in units of the scale
_BLOCK_BYTES = {"cpu": 1 << 23, "cuda": 1 << 31}  # edge features per block when no gradient is needed


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


class _Placed(NamedTuple):
    """Sets of lines in units of their scale."""

    centred: CentredLines
    scale: Tensor  # (s,)
    neighbours: Tensor | None  # (s, n, k) indices; None: every pair of lines has an edge
    mode: int  # 0 for infinite lines, 1 for segments


class InvariantEncoder(nn.Module):
    """Encodes sets of lines as line features ``(s, n, c)`` and edges for each self-attention layer."""

    angle_centres: Tensor
    length_centres: Tensor

    def __init__(self, config: InvariantEncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.radii = _RADII if config.local else (torch.inf,)
        self._prepared = PreparedWeights()
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
        placed, mask = self._placed(lines), lines.mask
        if placed.neighbours is not None and self.reads_tables():
            bias, filters, pooled = self._neighbour_edges(placed, mask)
        else:
            bias, filters, pooled = self._all_edges(placed, mask)
        x = self._line_features(pooled, lines, placed)  # (s, n, c)
        x = x if mask is None else x * mask[..., None].to(x.dtype)
        return x, [Edges(layer_bias, filters, placed.neighbours) for layer_bias in bias.split(self.config.heads, 1)]

    def packed(self, lines: LineSet, real: Sequence[Int[Tensor, " _"]]) -> tuple[Tensor, list[list[SetEdges]]]:
        """Encode sets without their padding, for inference on a CPU.

        ``real`` has the indices of the lines of each set. Returns the features of all lines, set after set, and for
        each set the edges of all layers.
        """
        placed = self._placed(lines)
        blocks, edges = EdgeBlocks(self._edge_weights(placed.mode)), []
        pooled = self.head.weight.new_zeros(*placed.centred.along.shape, len(self.radii) * self.config.edge_channels)
        for i, index in enumerate(real):
            products = edge_products(CentredLines(*(value[i, index] for value in placed.centred)))
            channels = self.head.weight.new_empty(sum(self._channels()), len(index), len(index))
            pooled[i, index] = blocks.channels_of_set(products, channels)
            bias, filters = channels.split(self._channels())
            edges.append([SetEdges(of_layer, filters) for of_layer in bias.split(self.config.heads)])
        x = self._line_features(pooled, lines, placed)
        return torch.cat([x[i, index] for i, index in enumerate(real)]), edges

    def kernel(self, lines: LineSet) -> EncoderKernel:
        """What :meth:`packed` computes, compiled."""
        mode = int(lines.endpoints is not None)
        return self._prepared.get(self, ("kernel", mode), lambda: self._prepared_kernel(mode))

    def reads_tables(self) -> bool:
        """Whether edges are read from tables: on a CPU if no gradient is needed."""
        weight = self.radial.weight
        return (
            weight.device.type == "cpu"
            and weight.dtype in (torch.float32, torch.float64)
            and not (torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"))
        )

    def is_sparse(self, lines: LineSet) -> bool:
        """Whether lines have edges to neighbours only."""
        return not torch.compiler.is_exporting() and len(lines) > self.config.dense_limit

    def _placed(self, lines: LineSet) -> _Placed:
        centred, sparse = centre_lines(lines), self.is_sparse(lines)
        count = self.config.neighbours if sparse else SCALE_NEIGHBOUR + 1
        nearest = nearest_neighbours(centred.anchor, count, lines.mask)
        scale = centred.anchor.new_ones(centred.anchor.shape[0])
        if self.config.scale == "joint":
            scale = joint_scale(centred.anchor, nearest, lines.mask)
        mode = int(lines.endpoints is not None)
        return _Placed(scaled(centred, scale), scale, nearest if sparse else None, mode)

    def _line_features(self, pooled: Tensor, lines: LineSet, placed: _Placed) -> Float[Tensor, "s n c"]:
        unary = self._unary(lines, placed.centred, placed.scale, placed.mode)
        return self.line(torch.cat([pooled, unary], -1))

    def _all_edges(self, placed: _Placed, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Biases of all layers, filters and local averages of the edges, computed in blocks of lines."""
        sets, n = placed.centred.along.shape
        k, step = n if placed.neighbours is None else placed.neighbours.shape[-1], n
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            row_bytes = 4 * self.radial.in_features * sets * k
            step = max(1, _BLOCK_BYTES.get(placed.scale.device.type, 1 << 31) // row_bytes)
        if step >= n:
            return self._edges(placed, slice(0, n), mask)
        buffers = [self.head.weight.new_empty(sets, channels, n, k) for channels in self._channels()]
        pooled = []
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            pooled.append(self._edges(placed, rows, mask, [buffer[:, :, rows] for buffer in buffers])[2])
        return buffers[0], buffers[1], torch.cat(pooled, 1)

    def _neighbour_edges(self, placed: _Placed, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The same for edges to neighbours, from tables."""
        index = sparse_neighbours(placed.neighbours)
        sets, n, k = index.shape
        channels = self.head.weight.new_empty(sets, sum(self._channels()), n, k)
        pooled = channels.new_empty(sets, n, len(self.radii) * self.config.edge_channels)
        blocks = EdgeBlocks(self._edge_weights(placed.mode))
        for i in range(sets):
            products = edge_products(CentredLines(*(value[i] for value in placed.centred)))
            for rows, block in blocks.of_lines(n, k):
                near = index[i, rows]  # (r, k)
                planes = (products.own[:, rows] @ products.near).gather(2, near.expand(5, -1, -1))
                block.products[:5] = planes.flatten(1)
                real = None if mask is None else mask[i, near]
                pooled[i, rows] = block.channels(channels[i, :, rows], real)
        bias, filters = channels.split(self._channels(), 1)
        return bias, filters, pooled

    def _edges(
        self, placed: _Placed, rows: slice, mask: Tensor | None, out: Sequence[Tensor | None] = (None, None)
    ) -> tuple[Tensor, Tensor, Tensor]:
        centred, index = placed.centred, None if placed.neighbours is None else placed.neighbours[:, rows]
        own = CentredLines(*(value[:, rows] for value in centred))
        near = centred if index is None else CentredLines(*(gather_lines(value, index) for value in centred))
        real = None if mask is None else mask[:, None] if index is None else gather_lines(mask, index)
        pair = edge_invariants(own, near, self.radial.weight.dtype)
        hidden, span = gelu(self.second(gelu(self._first(pair, placed.mode)))), pair.span  # (s, r, k, e), (s, r, k)
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

    def _edge_weights(self, mode: int) -> EdgeWeights:
        """The layers on edges as tables and matrices, for inference on a CPU."""
        return self._prepared.get(self, mode, lambda: self._prepared_edges(mode))

    def _prepared_edges(self, mode: int) -> EdgeWeights:
        gain = self.gain[mode]
        tables = [self._tables(mode).flatten(0, 1), (self.angular.weight * gain[:, None]).mT[self.config.angular :]]
        biases, _ = self._channels()
        radii = torch.tensor(self.radii, dtype=gain.dtype)
        return EdgeWeights(
            tables=torch.cat(tables),
            length_range=self._length_range(),
            length_floor=_MIN_RADIAL / 2,
            half_weight_sine=HALF_WEIGHT_SINE,
            second=(self.second.weight, self.second.bias[:, None]),
            head=self.head.weight,
            filter_constant=self.head.bias[biases:, None, None],
            decay=(-0.5 / radii.square())[:, None, None],
        )

    def _prepared_kernel(self, mode: int) -> EncoderKernel:
        weights = self._edge_weights(mode)
        edges = {
            "tables": weights.tables,
            "second": weights.second[0],
            "second_bias": weights.second[1].flatten(),
            "head": weights.head,
            "constants": weights.filter_constant.flatten(),
            "decay": weights.decay.flatten(),
        }
        lowest, highest = weights.length_range
        scalars = {
            "lowest": lowest,
            "steps": (TABLE_ROWS - 1) / (highest - lowest),
            "floor": weights.length_floor,
            "half_weight": weights.half_weight_sine**2,
            "is_segment": mode,
            "is_joint": int(self.config.scale == "joint"),
            "spread": float(_spread(self.length_centres)),
        }
        unary = self.length_centres, self.unary_gain[mode]
        return EncoderKernel(edges, unary, self.line.weights(), scalars)

    def _tables(self, mode: int) -> Float[Tensor, "functions rows e"]:
        """First-layer contributions of each length and of the angle, sampled over their range."""
        gain, shift = self.gain[mode], self.shift[mode]
        steps = torch.linspace(0, 1, TABLE_ROWS, dtype=gain.dtype)
        lowest, highest = self._length_range()
        bumps = _bumps(lowest + (highest - lowest) * steps, self.length_centres.to(gain.dtype))  # (rows, radial)
        radial = bumps @ (self.radial.weight * gain[:, None]).unflatten(1, (4, -1)).permute(1, 2, 0)  # (4, rows, e)
        weight = (self.angular.weight * gain[:, None]).mT[: self.config.angular]  # (angular, e)
        angle = _bumps(2 * steps.atan(), self.angle_centres.to(gain.dtype)) @ weight  # even steps of tan(angle / 2)
        return torch.cat([radial, (angle + self.radial.bias * gain + shift)[None]])

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


# Private


def _product(
    weight: Float[Tensor, "c e"], constant: Float[Tensor, " c"], hidden: Float[Tensor, "s r k e"], out: Tensor | None
) -> Tensor:
    """A linear layer on every edge, ``(s, c, r, k)``, written to ``out`` if given."""
    left, right = weight.expand(len(hidden), -1, -1), hidden.flatten(1, 2).mT
    if out is None:
        return torch.baddbmm(constant[:, None], left, right).unflatten(-1, hidden.shape[1:3])
    torch.bmm(left, right.to(out.dtype), out=out.flatten(2))
    return out.add_(constant[:, None, None])


def _bumps(x: Tensor, centres: Tensor) -> Tensor:
    """Smooth bumps of ``x``, ``(1 - t² / 4)²`` within ``|t| < 2`` spacings of evenly spaced centres.

    Polynomials, because a CPU evaluates ten of them in the time of one exponential.
    """
    spread = _spread(centres)
    t = (x / spread)[..., None] - centres / spread
    return t.square_().sub_(1).clamp_max_(0).square_()


def _spread(centres: Tensor) -> Tensor:
    """The distance from its centre at which a bump is zero."""
    return 2 * (centres[1] - centres[0])
