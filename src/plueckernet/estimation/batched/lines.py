"""Padded lines of many maps, and statistics of padded values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from plueckernet.geometry.lines import LineSet

# Entries of a temporary tensor: on a GPU a gibibyte in single precision, on a CPU what its cache holds.
_MAX_ENTRIES = {"cuda": 1 << 28, "cpu": 1 << 20}


def max_entries(device: torch.device) -> int:
    """How many entries a temporary tensor may have."""
    return _MAX_ENTRIES.get(device.type, 1 << 24)


@dataclass(frozen=True, eq=False)
class PaddedLines:
    """Lines of ``b`` maps with one point of each, as of :class:`~plueckernet.estimation.scoring.AnchoredLines`."""

    direction: Float[Tensor, "b n 3"]
    moment: Float[Tensor, "b n 3"]
    anchor: Float[Tensor, "b n 3"]
    half_length: Float[Tensor, "b n"] | None  # of segments; None for infinite lines
    mask: Bool[Tensor, "b n"]  # False for padding, which repeats the first line of the map

    @cached_property
    def count(self) -> Int[Tensor, " b"]:
        """Lines of each map."""
        return self.mask.sum(1)

    @property
    def lines(self) -> LineSet:
        """Without anchors."""
        return LineSet(self.direction, self.moment)

    @cached_property
    def single(self) -> PaddedLines:
        """In single precision."""
        half = None if self.half_length is None else self.half_length.float()
        return PaddedLines(self.direction.float(), self.moment.float(), self.anchor.float(), half, self.mask)

    def rows(self, index: Int[Tensor, "b k"], mask: Bool[Tensor, "b k"]) -> PaddedLines:
        """Some lines of each map."""
        half = None if self.half_length is None else self.half_length.gather(1, index)
        vectors = torch.cat([self.direction, self.moment, self.anchor], -1)
        direction, moment, anchor = take_rows(vectors, index).split(3, -1)
        return PaddedLines(direction, moment, anchor, half, mask)

    def maps(self, index: Int[Tensor, " q"] | slice) -> PaddedLines:
        """Some of the maps, each as often as it is asked for."""
        half = None if self.half_length is None else self.half_length[index]
        return PaddedLines(self.direction[index], self.moment[index], self.anchor[index], half, self.mask[index])

    def sample(self, count: int, fewer: Int[Tensor, " b"] | None = None) -> PaddedLines:
        """At most ``count`` lines of each map, or ``fewer``, spread evenly."""
        size = min(count, self.mask.shape[1])
        total, place = self.count[:, None], torch.arange(size, device=self.mask.device)
        chosen = total.clamp_max(count)
        chosen = chosen if fewer is None else torch.minimum(chosen, fewer[:, None])
        real = place < chosen
        return self.rows(torch.where(real, place * total // chosen.clamp_min(1), 0), real)


def of_pairs(value: Any, rows: Int[Tensor, " r"]) -> Any:
    """A dataclass of tensors ``(b, ...)``, or of such dataclasses, for some pairs of maps."""
    if isinstance(value, Tensor):
        return value[rows]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{field.name: of_pairs(getattr(value, field.name), rows) for field in fields(value)})


def take_rows(values: Shaped[Tensor, "b n c"], index: Int[Tensor, "b k"]) -> Shaped[Tensor, "b k c"]:
    """``values[b, index[b]]`` for every ``b``."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))


def padded(rows: Sequence[Tensor], device: torch.device | str) -> tuple[Tensor, Bool[Tensor, "b n"]]:
    """Tensors of different lengths as one, the first row of each repeated at its end; and which rows are real."""
    counts = torch.tensor([len(row) for row in rows])
    stacked = pad_sequence([row.to("cpu", torch.float64) for row in rows], batch_first=True).to(device)
    mask = (torch.arange(stacked.shape[1]) < counts[:, None]).to(device)
    return torch.where(mask.view(*mask.shape, *(1,) * (stacked.ndim - 2)), stacked, stacked[:, :1]), mask


def median(values: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, " b"]:
    """The lower median of the values that the mask selects, as of ``torch.median``; infinite where it selects none."""
    ordered = values.masked_fill(~mask, math.inf).sort(-1).values
    return ordered.gather(-1, (mask.sum(-1, keepdim=True) - 1).clamp_min(0) // 2)[:, 0]


def weighted_median(values: Float[Tensor, "b n"], weight: Float[Tensor, "b n"]) -> Float[Tensor, " b"]:
    """The first value below or at which there is half of the weight."""
    ordered, order = values.sort(-1)
    total = weight.gather(-1, order).cumsum(-1)
    place = torch.searchsorted(total, total[:, -1:] / 2)
    return ordered.gather(-1, place.clamp_max(values.shape[-1] - 1))[:, 0]


def quantile(values: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"], fraction: float) -> Float[Tensor, " b"]:
    """The quantile of the values that the mask selects, interpolated as by ``torch.quantile``."""
    ordered = values.masked_fill(~mask, math.inf).sort(-1).values
    place = (mask.sum(-1, keepdim=True) - 1).clamp_min(0) * fraction
    low, high = (ordered.gather(-1, edge.long())[:, 0] for edge in (place.floor(), place.ceil()))
    return torch.lerp(low, high, (place - place.floor())[:, 0].to(low.dtype))


def mean(values: Float[Tensor, "*b n"], mask: Bool[Tensor, "*b n"]) -> Float[Tensor, "*b"]:
    """The mean of the values that the mask selects; zero where it selects none."""
    return values.masked_fill(~mask, 0).sum(-1) / mask.sum(-1).clamp_min(1)
