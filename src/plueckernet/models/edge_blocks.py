"""The layers on edges for inference on a CPU: what the encoder computes, in fewer operations that stay in the cache.

Edges are computed in blocks of ``r`` lines and ``k`` others. All values of a block are planes ``(channels, r, k)``. The
first layer is a sum of univariate functions of the invariants, read from tables by linear interpolation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import embedding_bag

from plueckernet.models.attention import mask_bias

BLOCK_EDGES = 1 << 13  # per block; the memory of a block stays in the cache of a core
TABLE_ROWS = 1024  # per function: all tables fit the cache of a core, and the error is 1e-4 of a weight
FUNCTIONS = 5  # tabulated: of the gap, two anchor distances, the span and the angle


class Products(NamedTuple):
    """Factors whose inner products ``own[c, i] . near[c, :, j]`` are the planes of a set, in float64.

    The planes are, with the symbols of :mod:`plueckernet.models.line_invariants`: ``d_i . d_j``, ``d_i . r``,
    ``d_j . r``, ``|r|²`` and ``det[d_i, d_j, r]``.
    """

    own: Float[Tensor, "5 n 6"]
    near: Float[Tensor, "5 6 n"]


@dataclass(frozen=True)
class EdgeWeights:
    """The layers on edges, as blocks use them."""

    tables: Float[Tensor, "rows e"]  # all functions, then the weights of the signed invariants
    length_range: tuple[float, float]  # of the logarithms in the tables
    length_floor: float  # added to lengths before the logarithm
    half_weight_sine: float
    second: tuple[Float[Tensor, "e e"], Float[Tensor, "e 1"]]
    head: Float[Tensor, "c e"]  # biases of all layers, then filters
    filter_constant: Float[Tensor, "f 1 1"]  # biases need none: a softmax does not depend on it
    decay: Float[Tensor, "radii 1 1"]  # -1 / (2 radius²)


class EdgeBlock:
    """Computes block after block in the same memory: to get new memory costs as much as to compute what is in it."""

    def __init__(self, weights: EdgeWeights, edges: int) -> None:
        self.weights, dtype = weights, weights.head.dtype
        self.signed = len(weights.tables) > FUNCTIONS * TABLE_ROWS
        reads = 2 * FUNCTIONS + 3 * self.signed
        self.products = torch.empty(8, edges, dtype=torch.float64)
        self.values = torch.empty(8, edges, dtype=dtype)
        self.position = torch.empty(FUNCTIONS, edges, dtype=dtype)
        self.row_planes = torch.empty(2 * FUNCTIONS, edges, dtype=dtype)
        self.factor_planes = torch.empty(2 * FUNCTIONS + 3, edges, dtype=dtype)
        self.first_rows = torch.arange(FUNCTIONS, dtype=dtype)[:, None] * TABLE_ROWS
        self.scratch = torch.empty(edges, dtype=dtype)
        self.rows = torch.empty(edges, reads, dtype=torch.int32)
        self.rows[:, 2 * FUNCTIONS :] = torch.arange(3 * self.signed) + FUNCTIONS * TABLE_ROWS
        self.factors = torch.empty(edges, reads, dtype=dtype)
        self.hidden = torch.empty(2, len(weights.second[0]), edges, dtype=dtype)
        self.near = torch.empty(len(weights.decay), edges, dtype=dtype)

    def channels(self, out: Float[Tensor, "c r k"], real: Bool[Tensor, "r k"] | None = None) -> Float[Tensor, "r a"]:
        """Channels of a block whose ``products`` are set, written to ``out``; returns averages around each line.

        ``real`` tells edges to lines from edges to padding.
        """
        weights = self.weights
        self._set_values()
        self._set_reads()
        first = embedding_bag(self.rows, weights.tables, mode="sum", per_sample_weights=self.factors)  # (r k, e)
        second, hidden = self.hidden
        torch.mm(weights.second[0], _gelu_in_place(first).mT, out=second)
        _gelu_to(second.add_(weights.second[1]), out=hidden)
        torch.mm(weights.head, hidden, out=out.flatten(1))
        near = self.near.unflatten(1, out.shape[1:])
        torch.mul(self.values[3].unflatten(0, out.shape[1:]), weights.decay, out=near).exp_()
        if real is not None:
            near *= real.to(near.dtype)
            out += mask_bias(real, out.dtype)
        total = near.sum(-1).clamp_min_(1e-6)  # (radii, r)
        middle, filters = len(near) // 2, out[len(out) - len(weights.filter_constant) :]
        filters.add_(weights.filter_constant).mul_(near[middle] / total[middle, :, None])
        pooled = near.transpose(0, 1) @ hidden.unflatten(1, out.shape[1:]).permute(1, 2, 0)  # (r, radii, e)
        return (pooled / total.mT[..., None]).flatten(1)

    def _set_values(self) -> None:
        """The products, and the squares of the sine and of the anchor distances; differences are taken in float64."""
        products, values = self.products, self.values
        torch.mul(products[:3], products[:3], out=products[5:])
        products[5].neg_().add_(1)
        torch.sub(products[3], products[6:], out=products[6:])
        values.copy_(products)
        values[3].clamp_min_(0)
        values[5:].clamp_min_(0)

    def _set_reads(self) -> None:
        """Which rows of the tables are read, with which factors: of each function two, then the signed invariants."""
        self._set_positions()
        rows, factors, skew = self.row_planes, self.factor_planes, self.scratch
        lower, upper = factors[:FUNCTIONS], factors[FUNCTIONS : 2 * FUNCTIONS]
        torch.floor(self.position, out=rows[:FUNCTIONS])
        torch.sub(self.position, rows[:FUNCTIONS], out=upper)
        torch.sub(1, upper, out=lower)
        constant = self.weights.half_weight_sine**2
        torch.add(self.values[5], constant, out=skew)
        torch.div(self.values[5], skew, out=skew).mul_(1 + constant)
        lower[0].mul_(skew)
        upper[0].mul_(skew)
        rows[:FUNCTIONS].add_(self.first_rows)
        torch.add(rows[:FUNCTIONS], 1, out=rows[FUNCTIONS:])
        self.factors.copy_(factors[: self.factors.shape[1]].mT)
        self.rows[:, : 2 * FUNCTIONS].copy_(rows.mT)

    def _set_positions(self) -> None:
        """Positions in the tables, from lengths and half of the angle, and the signed invariants."""
        cosine, along, near_along, square, determinant, sine_square = self.values[:6]
        position, scratch = self.position, self.scratch
        torch.add(sine_square, 1e-4, out=position[0]).rsqrt_().mul_(determinant).abs_()
        torch.sqrt(self.values[6:], out=position[1:3])
        torch.sqrt(square, out=position[3])
        # The tangent of half the angle, which is accurate in float32 near 0 and near 90 degrees.
        torch.sqrt(sine_square, out=position[4]).div_(torch.abs(cosine, out=scratch).add_(1))
        if self.signed:
            along_product, twist, handed = self.factor_planes[2 * FUNCTIONS :]
            torch.clamp_min(position[3], 1e-6, out=scratch).reciprocal_()
            torch.mul(along, scratch, out=along_product).mul_(near_along).mul_(scratch)
            torch.mul(determinant, scratch, out=twist)
            torch.mul(along_product, twist, out=handed)
            self.factor_planes[2 * FUNCTIONS : -1] *= cosine
        lowest, highest = self.weights.length_range
        position[:4].add_(self.weights.length_floor).log_().sub_(lowest).mul_((TABLE_ROWS - 1) / (highest - lowest))
        position[4].mul_(TABLE_ROWS - 1)
        position.clamp_(0, TABLE_ROWS - 1.001)  # every row that is read has a next row


class EdgeBlocks:
    """Blocks of lines, of which those of the same size use the same memory."""

    def __init__(self, weights: EdgeWeights) -> None:
        self._weights = weights
        self._blocks: dict[int, EdgeBlock] = {}

    def of_lines(self, n: int, k: int) -> Iterator[tuple[slice, EdgeBlock]]:
        """Slices of ``n`` lines with ``k`` edges each, with the memory for a block."""
        if not n:
            return
        step = -(-n // -(-n * k // BLOCK_EDGES))  # both rounded up: blocks of about the same size
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            edges = (rows.stop - start) * k
            if edges not in self._blocks:
                self._blocks[edges] = EdgeBlock(self._weights, edges)
            yield rows, self._blocks[edges]

    def channels_of_set(self, products: Products, out: Float[Tensor, "c n n"]) -> Float[Tensor, "n averages"]:
        """Biases and filters between all lines of a set, written to ``out``; returns averages around each line."""
        n, weights = out.shape[-1], self._weights
        pooled = out.new_empty(n, len(weights.decay) * len(weights.second[0]))
        for rows, block in self.of_lines(n, n):
            torch.bmm(products.own[:, rows], products.near, out=block.products[:5].unflatten(1, (-1, n)))
            pooled[rows] = block.channels(out[:, rows])
        return pooled


_gelu_in_place, _gelu_to = torch.ops.aten.gelu_, torch.ops.aten.gelu.out
