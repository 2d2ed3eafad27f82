"""All pairs of lines within an inlier threshold of each other under a pose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.correspondence import ClosePairs
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.pose import Pose

_SINGLE_PRECISION_DISTANCE = 1e-3  # normalized; above it single precision resolves the threshold
_BLOCK_ENTRIES = 250_000  # of a residual matrix, small enough for the cache of a CPU
_SLAB_ROWS = 256  # source lines per slab
_WIDENING = 2.0  # of a threshold, to find the pairs that a changed pose may bring within it


class NearbyPairs:
    """The close pairs of two maps under a pose that changes little.

    All lines are compared once, within a wider threshold. After that only the pairs found then are compared, until the
    pose has moved or the threshold has grown so much that others may have come close.
    """

    def __init__(self, source: AnchoredLines, target: AnchoredLines) -> None:
        self.source, self.target = source, target
        self._near: _Near | None = None
        self._reach = 0.0 if source.half_length is None else float(source.half_length.amax())

    def within(self, pose: Pose, threshold: InlierThreshold) -> ClosePairs:
        """Rows of all pairs of lines within the threshold."""
        if self._near is None or not self._near.covers(self._shift(pose, self._near.pose), pose, threshold):
            self._near = _Near.of(pose, self.source, self.target, threshold)
        rows = self._near.rows[self._near.residuals(pose, threshold) < 1]
        return ClosePairs(rows, (len(self.source), len(self.target)), threshold)

    def _shift(self, pose: Pose, other: Pose) -> float:
        """How far any point of a source line is from where it is under another pose, at most."""
        anchor = self.source.anchor
        moved = (pose.act(anchor) - other.act(anchor)).square().sum(-1).amax().sqrt()
        return float(moved) + float(pose.angle_to(other)) * self._reach


@dataclass(frozen=True, eq=False)
class _Near:
    """Pairs of lines within a wide threshold, and what their residuals are computed from."""

    pose: Pose
    threshold: InlierThreshold
    rows: Int[Tensor, "k 2"]
    source: Float[Tensor, "k 6"]  # direction and anchor
    target: Float[Tensor, "k 6"]
    half_lengths: Float[Tensor, " k"] | None  # of both segments, in sum; None if either line is infinite

    @classmethod
    def of(cls, pose: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold) -> _Near:
        infinite = source.half_length is None or target.half_length is None
        # Turned by a little, an infinite line moves the more the further away from its anchor.
        slope = max(threshold.slope, (_WIDENING if infinite else 1.0) * threshold.angle)
        wide = InlierThreshold(_WIDENING * threshold.distance, _WIDENING * threshold.angle, threshold.directed, slope)
        rows = close_pairs(pose, source, target, wide).rows
        dtype = torch.float32 if threshold.distance > _SINGLE_PRECISION_DISTANCE else torch.float64
        columns = rows.unbind(-1)
        first, second = (
            torch.cat([side.lines.direction, side.anchor], -1).to(dtype)[column]
            for side, column in zip((source, target), columns, strict=True)
        )
        if infinite:
            return _Near(pose, wide, rows, first, second, None)
        halves = source.segment_half_length[columns[0]] + target.segment_half_length[columns[1]]
        return _Near(pose, wide, rows, first, second, halves.to(dtype))

    def covers(self, shift: float, pose: Pose, threshold: InlierThreshold) -> bool:
        """Whether all pairs within a threshold are here, under a pose that moves no point by more than the shift."""
        if threshold.slope > self.threshold.slope:
            return False
        if threshold.distance <= _SINGLE_PRECISION_DISTANCE and self.source.dtype is torch.float32:
            return False
        wide, turn = self.threshold, float(pose.angle_to(self.pose))
        asked = max(threshold.distance / wide.distance, threshold.angle / wide.angle)
        return asked + math.hypot(shift / wide.distance, turn / wide.angle) <= 1

    def residuals(self, pose: Pose, threshold: InlierThreshold) -> Float[Tensor, " k"]:
        """Squared residuals in thresholds, as of :func:`~plueckernet.estimation.scoring.pair_residuals`."""
        pose = pose.to(self.source.dtype)
        direction, anchor = self.source.split(3, -1)
        other, other_anchor = self.target.split(3, -1)
        direction = direction @ pose.rotation.mT
        offset = (other_anchor - pose.act(anchor)) / threshold.distance
        lever, back = (offset * direction).sum(-1), (offset * other).sum(-1)
        square = offset.square().sum(-1).addcmul_(lever, lever, value=-0.5).addcmul_(back, back, value=-0.5)
        square.clamp_min_(0)
        if threshold.slope:
            square.div_((lever * threshold.slope).square_().add_(1))
        cosine = (direction * other).sum(-1)
        square.add_((1 - cosine.square()).div_(threshold.angle**2))
        if self.half_lengths is not None:
            gap = lever.abs_().sub_(self.half_lengths / threshold.distance).clamp_min_(0)
            square.addcmul_(gap, gap)
        return square.masked_fill_(cosine < 0, torch.inf) if threshold.directed else square


def close_pairs(pose: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold) -> ClosePairs:
    """Rows of all pairs of lines within the threshold."""
    if threshold.distance > _SINGLE_PRECISION_DISTANCE:
        source, target = source.to(torch.float32), target.to(torch.float32)
    single_pose = Pose(pose.rotation[None], pose.translation[None]).to(source.anchor.dtype)
    counts = len(source), len(target)
    if counts[0] * counts[1] <= _BLOCK_ENTRIES:
        rows = (pair_residuals(single_pose, source, target, threshold)[0] < 1).nonzero()
        return ClosePairs(rows, counts, threshold)
    blocks = [source.anchor.new_zeros(0, 2).long()]
    for rows, columns in _blocks(pose, source, target, threshold):
        residuals = pair_residuals(single_pose, source[rows], target[columns], threshold)[0]
        close = (residuals < 1).nonzero()
        blocks.append(torch.stack([rows[close[:, 0]], columns[close[:, 1]]], -1))
    return ClosePairs(torch.cat(blocks), counts, threshold)


def _blocks(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold
) -> Iterator[tuple[Int[Tensor, " r"], Int[Tensor, " c"]]]:
    """Source rows with the target lines that any of them can be close to; all target lines if lines are infinite.

    Segments are taken in slabs across the longest axis of the map.
    """
    count, every_column = len(source), torch.arange(len(target), device=target.anchor.device)
    rows = max(1, min(count, _BLOCK_ENTRIES // max(1, len(target))))
    if source.half_length is None or target.half_length is None:
        order = torch.arange(count, device=source.anchor.device)
        yield from ((block, every_column) for block in order.split(rows))
        return
    moved = pose.to(source.anchor.dtype).act(source.anchor)
    axis = int((target.anchor.amax(0) - target.anchor.amin(0)).argmax())
    source_place, target_place = moved[:, axis], target.anchor[:, axis]
    margin = target.half_length + 2 * threshold.distance
    for block in source_place.argsort().split(_SLAB_ROWS):
        half_length = source.half_length[block]
        low, high = (source_place[block] - half_length).amin(), (source_place[block] + half_length).amax()
        close = ((target_place + margin > low) & (target_place - margin < high)).nonzero()[:, 0]
        if len(close):
            yield block, close
