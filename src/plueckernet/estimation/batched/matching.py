"""Putative matches of the longest lines of many pairs of maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.geometry.lines import LineSet

MatchBatch = Callable[[LineSet, LineSet], Float[Tensor, "b m n"]]
"""Log-probability of each pair of lines of padded maps; -inf for padding."""


@dataclass(frozen=True, eq=False)
class BatchedMatches:
    """The most probable matches of each pair of maps, the best first."""

    source: Int[Tensor, "b k"]
    target: Int[Tensor, "b k"]
    probability: Float[Tensor, "b k"]  # zero where there are fewer
    mask: Bool[Tensor, "b k"]


def match_longest(maps: BatchedMaps, match: MatchBatch, lines: int, limit: int) -> BatchedMatches:
    """The ``limit`` best matches of the longest ``lines`` of each map, or of the middle of infinite ones."""
    rows = [_longest(side, lines) for side in maps.sides]
    chosen = [side.rows(*chosen_rows) for side, chosen_rows in zip(maps.sides, rows, strict=True)]
    log_probability = match(_as_lines(chosen[0]), _as_lines(chosen[1])).nan_to_num(
        nan=-math.inf, posinf=-math.inf, neginf=-math.inf
    )
    columns = log_probability.shape[-1]
    value, index = log_probability.flatten(1).topk(min(limit, log_probability[0].numel()), -1)
    source, target = rows[0][0].gather(1, index // columns), rows[1][0].gather(1, index % columns)
    possible = (chosen[0].count * chosen[1].count)[:, None]
    mask = torch.arange(value.shape[1], device=value.device) < possible
    return BatchedMatches(source, target, value.exp().double() * mask, mask)


def _longest(lines: PaddedLines, count: int) -> tuple[Int[Tensor, "b k"], Bool[Tensor, "b k"]]:
    """Rows of the longest segments, or of the infinite lines nearest to the centre; and which of them are real."""
    size = min(count, lines.mask.shape[1])
    real = torch.arange(size, device=lines.mask.device) < lines.count[:, None].clamp_max(count)
    if count >= lines.mask.shape[1]:  # all of them, in their order
        return torch.arange(size, device=real.device).expand_as(real), real
    rank = -lines.anchor.float().square().sum(-1) if lines.half_length is None else lines.half_length.float()
    rank = rank.masked_fill(~lines.mask, -math.inf)
    return rank.argsort(dim=1, descending=True, stable=True)[:, :size], real


def _as_lines(lines: PaddedLines) -> LineSet:
    """As a network wants them."""
    endpoints = None
    if lines.half_length is not None:
        arm = lines.direction * lines.half_length[..., None]
        endpoints = torch.stack([lines.anchor - arm, lines.anchor + arm], -2)
    return LineSet(lines.direction, lines.moment, endpoints, mask=lines.mask)
