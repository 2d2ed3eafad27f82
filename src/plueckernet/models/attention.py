"""Self and cross attention between lines (paper Sec. 3.2, "Discriminative feature embedding").

Sources and targets are processed as one batch of ``s = 2 b`` sets, the sources first. Self and cross attention then use
the same kernel, and cross attention is attention to the other half of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from plueckernet.models.mlp import MLP, Style
from plueckernet.models.neighbours import gather_lines

_MASKED = -1e4  # its exp is zero in every float type, and a fully masked row stays finite
# Neighbour edges per block; on the CPU small enough for the allocator to reuse the memory of the previous block.
_BLOCK_EDGES = {"cpu": 1 << 14, "cuda": 1 << 20}

_MAX_SCATTERED = 16  # lines for each neighbour up to which products with all lines are faster than gathered neighbours
_SCATTERED_LINES = 128  # per block of such products


@dataclass(frozen=True)
class AttentionConfig:
    """Settings of :class:`MessageLayer`; the defaults are the paper's."""

    channels: int = 128
    heads: int = 4
    filters: int = 0  # edge filters, which pass messages in addition to the attention
    style: Style = "group-gelu"
    random_features: int = 0  # per head, of an attention in linear time (ablation); 0: the softmax of Eq. (4)


class Edges(NamedTuple):
    """Features of the edges between lines: all ``k = n`` lines of a set, or ``k`` neighbours of each line."""

    bias: Float[Tensor, "s h n k"]  # added to the attention logits
    filters: Float[Tensor, "s f n k"]  # weights of the additional messages
    neighbours: Int[Tensor, "s n k"] | None  # indices of the neighbours; None for all lines


class MessageLayer(nn.Module):
    """One step of message passing, Eq. (3): ``f <- f + U(f || message)``, U = MLP(256, 256, 128) with input 256.

    The message is multi-head attention, Eq. (4). Only self attention has edges. They bias its logits, and ``filters``
    of them pass further messages ``Σ_j e_ij v_j``, whose weights can be negative, unlike those of a softmax.
    """

    projection: Tensor

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.channels
        values = 2 if config.filters else 1
        # No bias: padding is zero and then sends zero messages.
        self.query = nn.Linear(channels, channels, bias=False)
        self.key_value = nn.Linear(channels, (1 + values) * channels, bias=False)
        self.merge = nn.Linear(channels, channels)
        self.update = MLP(((1 + values) * channels, 2 * channels, channels), config.style)
        if config.random_features:
            self.register_buffer("projection", orthogonal_rows(config.random_features, channels // config.heads))

    def forward(
        self,
        x: Float[Tensor, "s n c"],
        context: Float[Tensor, "s l c"],
        mask: Bool[Tensor, "s n"] | None = None,
        context_mask: Bool[Tensor, "s l"] | None = None,
        edges: Edges | None = None,
    ) -> Float[Tensor, "s n c"]:
        """Update the lines ``x`` with messages from ``context``."""
        query, key_value = self.query(x), self.key_value(context)
        key, value, *further = key_value.split(self.config.channels, -1)  # each (s, l, c)
        if edges is not None and edges.neighbours is not None:
            messages = self._from_neighbours(query, key_value, edges)
        else:
            bias = None if edges is None else edges.bias
            messages = [self._attend(query, key, value, bias, context_mask)]
            if further and edges is not None:
                messages.append(_filtered(edges.filters, further[0]))
        message = torch.cat([x, self.merge(messages[0]), *messages[1:]], -1)  # (s, n, 2 c or 3 c)
        x = x + self.update(message, mask)  # Eq. (3)
        return x if mask is None else x * mask[..., None].to(x.dtype)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, mask: Tensor | None) -> Tensor:
        """Eq. (4) with logits ``q k / √D``, D = 128 as printed."""
        q, k, v = (t.unflatten(-1, (self.config.heads, -1)).transpose(1, 2) for t in (query, key, value))
        if self.config.random_features:
            root = self.config.channels**-0.25  # on queries and keys: the scale of their product
            message = linear_attention(root * q, root * k, v, self.projection, mask)
            return message.transpose(1, 2).flatten(-2)
        if bias is None and mask is not None:
            bias = mask_bias(mask, q.dtype)[:, None, None].expand(-1, -1, q.shape[-2], -1)  # (s, 1, n, l)
        elif bias is not None:
            bias = bias.to(q.dtype)
        scale = self.config.channels**-0.5
        message = scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)  # (s, h, n, d)
        return message.transpose(1, 2).flatten(-2)  # (s, n, c)

    def _from_neighbours(self, query: Tensor, key_value: Tensor, edges: Edges) -> list[Tensor]:
        """The same messages from ``k`` neighbours of each line, in blocks of lines."""
        sets, n, k = sparse_neighbours(edges.neighbours).shape
        if query.device.type == "cpu" and n <= _MAX_SCATTERED * k and not torch.is_grad_enabled():
            return [torch.stack(rows) for rows in zip(*(self._scattered(query[i], key_value[i], edges, i)
                                                        for i in range(sets)), strict=True)]  # fmt: skip
        step = max(1, _BLOCK_EDGES.get(query.device.type, 1 << 20) // (sets * k))
        blocks = [self._block(query, key_value, edges, i, min(step, n - i)) for i in range(0, n, step)]
        return [torch.cat(rows, 1) for rows in zip(*blocks, strict=True)]  # each (s, n, c)

    def _scattered(self, query: Tensor, key_value: Tensor, edges: Edges, i: int) -> list[Tensor]:
        """The same messages within set ``i`` by products with all lines, of which a CPU makes many at once."""
        config, index = self.config, sparse_neighbours(edges.neighbours)[i]  # (n, k)
        key, value, *further = key_value.split(config.channels, -1)  # each (n, c)
        messages = [torch.empty_like(query) for _ in (value, *further)]
        for start in range(0, len(query), _SCATTERED_LINES):
            rows = slice(start, start + _SCATTERED_LINES)
            weights = query.new_zeros(len(index[rows]), len(key))  # (r, n), zero wherever there is no edge
            for h, columns in enumerate(_columns(config.channels, config.heads)):
                logits = (query[rows, columns] @ key[:, columns].mT).gather(1, index[rows])  # (r, k)
                bias = edges.bias[i, h, rows].to(logits.dtype)
                weights.scatter_(1, index[rows], torch.add(bias, logits, alpha=config.channels**-0.5).softmax(-1))
                messages[0][rows, columns] = weights @ value[:, columns]
            for f, columns in enumerate(_columns(config.channels, config.filters) if further else []):
                weights.scatter_(1, index[rows], edges.filters[i, f, rows].to(weights.dtype))
                messages[1][rows, columns] = weights @ further[0][:, columns]
        return messages

    def _block(self, query: Tensor, key_value: Tensor, edges: Edges, start: int, rows: int) -> list[Tensor]:
        config, sets = self.config, query.shape[0]
        index = sparse_neighbours(edges.neighbours)[:, start : start + rows]  # (s, r, k)
        gathered = gather_lines(key_value, index)  # (s, r, k, 2c or 3c)
        key, value, *further = gathered.flatten(0, 1).split(config.channels, -1)  # each (s r, k, c)
        q = query[:, start : start + rows].reshape(-1, config.heads, 1, config.channels // config.heads)
        k, v = (t.unflatten(-1, (config.heads, -1)).transpose(1, 2) for t in (key, value))
        bias = edges.bias[:, :, start : start + rows].transpose(1, 2).flatten(0, 1)  # (s r, h, k)
        message = scaled_dot_product_attention(
            q, k, v, attn_mask=bias[:, :, None].to(q.dtype), scale=config.channels**-0.5
        )  # (s r, h, 1, d)
        messages = [message.reshape(sets, rows, config.channels)]
        if further:
            weight = edges.filters[:, :, start : start + rows].transpose(1, 2).flatten(0, 1)  # (s r, f, k)
            channels = further[0].unflatten(-1, (config.filters, -1)).transpose(1, 2)  # (s r, f, k, d)
            passed = weight[:, :, None].to(q.dtype) @ channels  # (s r, f, 1, d)
            messages.append(passed.reshape(sets, rows, config.channels))
        return messages


def linear_attention(
    query: Float[Tensor, "s h n d"],
    key: Float[Tensor, "s h l d"],
    value: Float[Tensor, "s h l d"],
    projection: Float[Tensor, "m d"],
    mask: Bool[Tensor, "s l"] | None,
) -> Float[Tensor, "s h n d"]:
    """Attention in linear time by positive random features (Performer): ``exp(q k) ≈ φ(q) φ(k)``.

    ``φ(x) = exp(W x - |x|²/2)`` with rows ``W`` of normal length and orthogonal directions. A factor that all
    features of a query, or all keys of a set, have in common cancels; it is divided out to stay in range.
    """

    def logits(x: Tensor) -> Tensor:
        return x @ projection.to(x.dtype).mT - x.square().sum(-1, keepdim=True) / 2

    q, k = logits(query), logits(key)
    if mask is not None:
        k = k + mask_bias(mask, k.dtype)[:, None, :, None]
    q = (q - q.amax(-1, keepdim=True)).exp()  # (s, h, n, m)
    k = (k - k.amax((-2, -1), keepdim=True)).exp()  # (s, h, l, m)
    total = q @ k.sum(-2)[..., None]  # (s, h, n, 1)
    return q @ (k.mT @ value) / total.clamp_min(1e-6)


def orthogonal_rows(count: int, channels: int) -> Float[Tensor, "m d"]:
    """Rows as long as normal vectors, in blocks that are orthogonal; always the same."""
    generator = torch.Generator().manual_seed(0)
    blocks = []
    for _ in range(-(-count // channels)):
        q, r = torch.linalg.qr(torch.randn(channels, channels, generator=generator))
        blocks.append((q * r.diagonal().sign()).mT)  # without the signs, directions would not be uniform
    lengths = torch.randn(count, channels, generator=generator).norm(dim=-1, keepdim=True)
    return torch.cat(blocks)[:count] * lengths


def mask_bias(mask: Bool[Tensor, "*shape"], dtype: torch.dtype) -> Float[Tensor, "*shape"]:
    """Bias of the attention logits that masks out padding."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill(~mask, _MASKED)


def other_half(x: Tensor) -> Tensor:
    """``(sources, targets) -> (targets, sources)`` along the first dimension."""
    return torch.cat(x.chunk(2)[::-1])


def _columns(channels: int, groups: int) -> list[slice]:
    """The columns of each head, or of each filter."""
    width = channels // groups
    return [slice(group * width, (group + 1) * width) for group in range(groups)]


def _filtered(filters: Tensor, value: Tensor) -> Tensor:
    """``Σ_j e_ij v_j``, each filter on its own group of channels."""
    channels = value.unflatten(-1, (filters.shape[1], -1)).transpose(1, 2)  # (s, f, n, c/f)
    return (filters.to(value.dtype) @ channels).transpose(1, 2).flatten(-2)  # (s, n, c)


def sparse_neighbours(neighbours: Tensor | None) -> Tensor:
    """The indices of edges that are known to be sparse."""
    if neighbours is None:
        raise TypeError("these edges are dense")
    return neighbours
