"""Message passing without padding, for inference on a CPU: the layers of :class:`MessageLayer` in fewer operations.

The lines of all sets are the rows of one matrix, so the linear layers need no mask and are one product for both maps.
Attention goes from set to set. A layer reads and writes one buffer of rows ``(x, message, filtered message)``, which
needs no concatenation, and weights that follow each other without an activation are multiplied first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from plueckernet.models.attention import MessageLayer


class SetEdges(NamedTuple):
    """Edges between all lines of one set, for one layer."""

    bias: Float[Tensor, "h n n"]
    filters: Float[Tensor, "f n n"]


class PackedLayer:
    """A message layer on the rows of all lines, in place."""

    def __init__(self, layer: nn.Module) -> None:
        if not isinstance(layer, MessageLayer):
            raise TypeError("only message layers can be packed")
        self.config, c = layer.config, layer.config.channels
        first, second = (linear for linear in layer.update.linear if isinstance(linear, nn.Linear))
        own, message, filtered = first.weight.tensor_split((c, 2 * c), 1)
        merged = message @ torch.cat([layer.merge.weight, layer.merge.bias[:, None]], 1)  # (2 c, c + 1)
        self.project = torch.cat([layer.query.weight, layer.key_value.weight])  # (3 c or 4 c, c)
        self.first = torch.cat([own, merged[:, :c], filtered], 1)  # (2 c, 2 c or 3 c)
        self.first_bias = first.bias + merged[:, c]
        self.norm, self.second = layer.update.norm[0], second

    def weights(self) -> list[Tensor]:
        """All weights, in the order of their use."""
        return [self.project, self.first, self.first_bias, *self.norm.parameters(), *self.second.parameters()]

    def own_messages(self, rows: Float[Tensor, "t w"], sets: Sequence[slice], edges: Sequence[SetEdges]) -> None:
        """Messages within each set, by attention and by filters."""
        c, filters = self.config.channels, self.config.filters
        query, key, value, *further = linear(rows[:, :c], self.project).split(c, 1)
        for lines, channels in zip(sets, edges, strict=True):
            rows[lines, c : 2 * c] = self._attend(query[lines], key[lines], value[lines], channels.bias)
            if further:
                values, out = (_heads(t[lines], filters) for t in (further[0], rows[:, 2 * c : 3 * c]))
                torch.bmm(channels.filters, values, out=out)

    def cross_messages(self, rows: Float[Tensor, "t w"], sets: Sequence[slice], across: Sequence[slice]) -> None:
        """Messages to each set from the set across."""
        c = self.config.channels
        query, key, value = linear(rows[:, :c], self.project).split(c, 1)
        for lines, others in zip(sets, across, strict=True):
            rows[lines, c : 2 * c] = self._attend(query[lines], key[others], value[others])

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Float[Tensor, "n c"]:
        """Eq. (4) between the lines of two sets."""
        q, k, v = (_heads(t, self.config.heads)[None] for t in (query, key, value))
        scale, bias = self.config.channels**-0.5, None if bias is None else bias[None]
        message = scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)  # (1, h, n, d)
        return message[0].transpose(0, 1).flatten(1)

    def update(self, rows: Float[Tensor, "t w"]) -> None:
        """Eq. (3): the update from the messages, added to the lines."""
        hidden = torch.addmm(self.first_bias, rows[:, : self.first.shape[1]], self.first.mT)
        hidden = gelu(self.norm(hidden))
        rows[:, : self.config.channels].add_(self.second.bias).addmm_(hidden, self.second.weight.mT)


def pass_messages(
    layers: Sequence[PackedLayer],
    x: Float[Tensor, "t c"],
    edges: Sequence[Sequence[SetEdges]],
    cross_attention: bool,
) -> Float[Tensor, "t c"]:
    """All layers on the lines of ``2 b`` sets, the ``b`` sources first.

    ``edges`` has those of each set for the layers of self attention, one after the other.
    """
    rows = torch.cat([x, torch.zeros_like(x), torch.zeros_like(x)], 1)  # (t, 3 c)
    ends = [0, *accumulate(of_set[0].bias.shape[-1] for of_set in edges)]
    sets = [slice(*limits) for limits in pairwise(ends)]
    across = sets[len(sets) // 2 :] + sets[: len(sets) // 2]
    remaining = zip(*edges, strict=True)
    for t, layer in enumerate(layers, start=1):
        if t % 2 or not cross_attention:
            layer.own_messages(rows, sets, next(remaining))
        else:
            layer.cross_messages(rows, sets, across)
        layer.update(rows)
    return rows[:, : x.shape[1]]


# Private


def _heads(rows: Float[Tensor, "n c"], heads: int) -> Float[Tensor, "h n d"]:
    return rows.unflatten(1, (heads, -1)).transpose(0, 1)
