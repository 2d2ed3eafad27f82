"""All pairs of lines within a threshold under many poses, padded to one number of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines, max_entries
from plueckernet.estimation.batched.residuals import Thresholds, pair_squares
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose

_SINGLE_PRECISION_DISTANCE = 1e-3  # normalized; above it single precision resolves the threshold
_TEMPORARIES = 6  # tensors of all pairs of lines that are alive at once


@dataclass(frozen=True, eq=False)
class PosedMaps:
    """A pair of maps for each of ``q`` poses."""

    source: PaddedLines
    target: PaddedLines

    @property
    def is_infinite(self) -> bool:
        """Whether lines have no ends."""
        return self.source.half_length is None or self.target.half_length is None


@dataclass(frozen=True, eq=False)
class PairLists:
    """The close pairs of each pose and the lines of each pair."""

    maps: PosedMaps
    rows: tuple[Int[Tensor, "q p"], Int[Tensor, "q p"]]  # of the source and of the target
    mask: Bool[Tensor, "q p"]
    threshold: Thresholds

    @cached_property
    def source(self) -> PaddedLines:
        """The source line of each pair."""
        return self.maps.source.rows(self.rows[0], self.mask)

    @cached_property
    def target(self) -> PaddedLines:
        """The target line of each pair."""
        return self.maps.target.rows(self.rows[1], self.mask)

    @cached_property
    def lines(self) -> tuple[LineSet, LineSet]:
        """Both lines of each pair."""
        return self.source.lines, self.target.lines

    @cached_property
    def line_counts(self) -> list[Float[Tensor, "q n"]]:
        """Number of pairs of each line of either map."""
        ones = self.mask.to(self.source.anchor.dtype)
        sizes = (side.mask.shape[1] for side in (self.maps.source, self.maps.target))
        return [line_sums(ones, rows, size) for rows, size in zip(self.rows, sizes, strict=True)]

    @cached_property
    def competitors(self) -> Float[Tensor, "q p"]:
        """Number of other pairs that contain one of the two lines."""
        first, second = (counts.gather(1, rows) for counts, rows in zip(self.line_counts, self.rows, strict=True))
        return (first + second - 2).clamp_min_(0)  # of padding it may be less

    @cached_property
    def max_matches(self) -> Int[Tensor, " q"]:
        """Upper bound of the number of matches: each line has at most one."""
        first, second = ((counts > 0).sum(-1) for counts in self.line_counts)
        return torch.minimum(first, second)

    def mutual_best(self, weight: Float[Tensor, "q p"]) -> Bool[Tensor, "q p"]:
        """Pairs that are the most probable for both of their lines."""
        best = self.mask
        for rows, side in zip(self.rows, (self.maps.source, self.maps.target), strict=True):
            largest = weight.new_zeros(side.mask.shape).scatter_reduce(1, rows, weight, "amax")
            best = best & (weight == largest.gather(1, rows))
        return best


def line_sums(value: Float[Tensor, "q p"], rows: Int[Tensor, "q p"], size: int) -> Float[Tensor, "q n"]:
    """The sum over all pairs of each line; padding has the value zero."""
    return value.new_zeros(len(value), size).scatter_add_(1, rows, value)


def close_pairs(poses: Pose, maps: PosedMaps, threshold: Thresholds) -> PairLists:
    """Rows of all pairs of lines within the threshold of each pose."""
    m, n = maps.source.mask.shape[1], maps.target.mask.shape[1]
    size = max(1, max_entries(poses.rotation.device) * 2 // (_TEMPORARIES * m * n))
    blocks = [slice(start, start + size) for start in range(0, max(1, len(threshold.distance)), size)]
    close = [_close(poses[block], maps, threshold.poses(block), block) for block in blocks]
    count = torch.cat([counts for _, counts in close])
    flat = torch.cat([index + block.start * m * n for (index, _), block in zip(close, blocks, strict=True)])
    most = max(3, int(count.max())) if len(count) else 3
    pose = flat // (m * n)
    place = torch.arange(len(flat), device=flat.device) - (count.cumsum(0) - count)[pose]
    rows = flat.new_zeros(len(count), most)
    rows[pose, place] = flat % (m * n)
    mask = torch.arange(most, device=flat.device) < count[:, None]
    return PairLists(maps, (rows // n, rows % n), mask, threshold)


def _close(
    poses: Pose, maps: PosedMaps, threshold: Thresholds, block: slice
) -> tuple[Int[Tensor, " k"], Int[Tensor, " q"]]:
    """Flat indices of close pairs of some poses, and how many each has."""
    source, target = maps.source.maps(block), maps.target.maps(block)
    close = pair_squares(poses.to(torch.float32), source.single, target.single, threshold) < 1
    fine = threshold.distance <= _SINGLE_PRECISION_DISTANCE
    if bool(fine.any()):
        close[fine] = pair_squares(poses[fine], source.maps(fine), target.maps(fine), threshold.poses(fine)) < 1
    close &= source.mask[:, :, None] & target.mask[:, None]
    return close.flatten().nonzero()[:, 0], close.sum((1, 2))
