"""Nearest neighbours within padded sets, in blocks, so that the distances of a large set never stand in memory."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

_BLOCK = 1 << 21  # pairs whose distances are held at once


@torch.no_grad()
def nearest_neighbours(
    points: Float[Tensor, "s n d"], count: int, mask: Bool[Tensor, "s n"] | None = None
) -> Int[Tensor, "s n k"]:
    """Indices of the ``count`` nearest real points (L2), each point's own first; all points if fewer.

    Between unit vectors the L2 distance grows with the angle, so the same search serves directions. Padding comes
    last, hence only where a set has fewer than ``count`` real points.
    """
    n = points.shape[-2]
    count = torch.sym_min(count, n)  # as `min`, but of sizes that a traced graph leaves open
    points = points - points[:, :1]  # small numbers lose fewer digits in the expanded square
    half_square = points.square().sum(-1)[:, None, :] / 2  # (s, 1, n)
    if mask is not None:
        half_square = half_square.masked_fill(~mask[:, None, :], torch.inf)

    def search(rows: Tensor) -> Tensor:
        closeness = rows @ points.mT - half_square  # (s, rows, n), up to a constant a row
        return closeness.topk(count, -1).indices

    if torch.compiler.is_compiling() or points.shape[0] * n * n <= _BLOCK:
        return search(points)
    step = max(1, _BLOCK // (points.shape[0] * n))
    return torch.cat([search(rows) for rows in points.split(step, -2)], -2)  # (s, n, k)


def gather_lines(value: Shaped[Tensor, "s n *rest"], index: Int[Tensor, "s r k"]) -> Shaped[Tensor, "s r k *rest"]:
    """``value[set, index]`` for every set, by whole rows, which is several times faster than fancy indexing."""
    sets, n = value.shape[:2]
    first = torch.arange(sets, device=index.device)[:, None, None] * n
    rows = value.flatten(0, 1).index_select(0, (index + first).flatten())  # (s r k, *rest)
    return rows.unflatten(0, index.shape)
