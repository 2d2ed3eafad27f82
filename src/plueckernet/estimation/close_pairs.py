"""All pairs of lines within an inlier threshold of each other under a pose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.correspondence import ClosePairs
from plueckernet.estimation.masks import places_below
from plueckernet.estimation.paired_lines import LineColumns, PairedLines, PoseArrays, dot
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.kernels.close_pairs import Limits, close_places, close_rows, largest_shift
from plueckernet.kernels.library import compiled
from plueckernet.kernels.refining import Pairs
from plueckernet.kernels.refining_near import Nearby

_SINGLE_PRECISION_DISTANCE = 1e-3  # normalized; above it single precision resolves the threshold
_BLOCK_ENTRIES = 250_000  # of a residual matrix, small enough for the cache of a CPU
_SLAB_ROWS = 256  # source lines per slab
_KEPT_POSES = 3  # whose pairs are kept
_WIDENING = 2.0  # of a threshold, to find the pairs that a changed pose may bring within it


class NearbyPairs:
    """The close pairs of two maps under a pose that changes little.

    All lines are compared once, within a wider threshold. After that only the pairs found then are compared, until the
    pose has moved or the threshold has grown so much that others may have come close. Those of a few poses are kept: a
    candidate that was refined briefly is often refined again.
    """

    def __init__(self, source: AnchoredLines, target: AnchoredLines) -> None:
        self._maps = source, target
        self._source, self._target = LineColumns.of(source), LineColumns.of(target)
        self._near: list[_Near] = []  # the last one first
        self._max_half_length = 0.0 if source.half_length is None else float(source.half_length.amax())

    def within(self, pose: PoseArrays, threshold: InlierThreshold) -> tuple[ClosePairs, PairedLines]:
        """All pairs of lines within the threshold, by their rows and as arrays."""
        near = self._covering(pose, threshold)
        close = near.within(pose, threshold)
        rows, counts = near.rows.take(close, 0), (len(self._source), len(self._target))
        source, target = near.lines.source.taken(close), near.lines.target.taken(close)
        kernel = Pairs(source.values, target.values, rows, counts) if compiled() else None
        return ClosePairs(torch.from_numpy(rows), counts, threshold), PairedLines(source, target, kernel)

    def kernel(self, pose: PoseArrays, threshold: InlierThreshold) -> Nearby:
        """Pairs for a compiled refinement, among them all within the threshold."""
        near, anchors = self._covering(pose, threshold), self._source.anchor
        sides, maps = (near.lines.source.values, near.lines.target.values), (len(self._target), self._max_half_length)
        origin = near.pose.numbers(), limits_of(near.threshold)
        return Nearby(sides, near.half_lengths, near.rows, (anchors, *maps), origin)

    @property
    def has_infinite_lines(self) -> bool:
        """Whether the lines of either map are infinite."""
        return self._source.infinite or self._target.infinite

    def _covering(self, pose: PoseArrays, threshold: InlierThreshold) -> _Near:
        """Pairs found under this or another pose, among them all within the threshold."""
        near = next((near for near in self._near if near.covers(self._shift(pose, near.pose), pose, threshold)), None)
        if near is None:
            near = self._compared(pose, threshold)
            self._near = [near, *self._near[: _KEPT_POSES - 1]]
        return near

    def _shift(self, pose: PoseArrays, other: PoseArrays) -> float:
        """How far any point of a source line is from where it is under another pose, at most."""
        if compiled():
            square = largest_shift(pose.numbers(), other.numbers(), self._source.anchor)
        else:
            square = np.square(pose.act(self._source.anchor) - other.act(self._source.anchor)).sum(0).max()
        return math.sqrt(square) + pose.angle_to(other) * self._max_half_length

    def _compared(self, pose: PoseArrays, threshold: InlierThreshold) -> _Near:
        """The pairs within a wider threshold."""
        source, target = self._maps
        infinite = source.half_length is None or target.half_length is None
        # Turned by a little, an infinite line moves the more the further away from its anchor.
        slope = max(threshold.slope, (_WIDENING if infinite else 1.0) * threshold.angle)
        wide = InlierThreshold(_WIDENING * threshold.distance, _WIDENING * threshold.angle, threshold.directed, slope)
        on_device = Pose(*(torch.from_numpy(value).to(source.anchor) for value in (pose.rotation, pose.translation)))
        rows = close_pairs(on_device, source, target, wide).rows.cpu().numpy()
        lines = PairedLines(self._source.taken(rows[:, 0]), self._target.taken(rows[:, 1]))
        if source.half_length is None or target.half_length is None:
            return _Near(pose, wide, rows, lines, None)
        halves = (
            side.segment_half_length.cpu().numpy()[column] for side, column in zip(self._maps, rows.T, strict=True)
        )
        return _Near(pose, wide, rows, lines, sum(halves).astype(np.float64, copy=False))


@dataclass(frozen=True, eq=False)
class _Near:
    """Pairs of lines within a wide threshold, and what their residuals are computed from, in double precision.

    A pair that rounding puts on the other side of a threshold may change the pose by a tenth of its standard deviation.
    """

    pose: PoseArrays
    threshold: InlierThreshold
    rows: Int[np.ndarray, "k 2"]
    lines: PairedLines
    half_lengths: Float[np.ndarray, " k"] | None  # of both segments, in sum; None if either line is infinite

    def covers(self, shift: float, pose: PoseArrays, threshold: InlierThreshold) -> bool:
        """Whether all pairs within a threshold are here, under a pose that moves no point by more than the shift."""
        if threshold.slope > self.threshold.slope:
            return False
        wide, turn = self.threshold, pose.angle_to(self.pose)
        asked = max(threshold.distance / wide.distance, threshold.angle / wide.angle)
        return asked + math.hypot(shift / wide.distance, turn / wide.angle) <= 1

    def within(self, pose: PoseArrays, threshold: InlierThreshold) -> Int[np.ndarray, " c"]:
        """Which pairs are within a threshold under a pose."""
        if compiled():
            sides = self.lines.source.values, self.lines.target.values
            return close_places(pose.numbers(), *sides, self.half_lengths, limits_of(threshold))
        return np.flatnonzero(self._residuals(pose, threshold) < 1)

    def _residuals(self, pose: PoseArrays, threshold: InlierThreshold) -> Float[np.ndarray, " k"]:
        """Squared residuals in thresholds, as of :func:`~plueckernet.estimation.scoring.pair_residuals`."""
        direction, other = pose.rotation @ self.lines.source.direction, self.lines.target.direction
        offset = self.lines.target.anchor - pose.act(self.lines.source.anchor)
        offset /= threshold.distance
        lever, back = dot(offset, direction), dot(offset, other)
        square = np.maximum(dot(offset, offset) - 0.5 * (lever * lever + back * back), 0)
        if threshold.slope:
            square /= np.square(lever * threshold.slope) + 1
        cosine = dot(direction, other)
        square += (1 - cosine * cosine) / threshold.angle**2
        if self.half_lengths is not None:
            gap = np.maximum(np.abs(lever) - self.half_lengths / threshold.distance, 0)
            square += gap * gap
        return np.where(cosine < 0, np.inf, square) if threshold.directed else square


def close_pairs(pose: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold) -> ClosePairs:
    """Rows of all pairs of lines within the threshold."""
    if compiled(source.anchor, target.anchor):
        first, second = ((side.lines.direction, side.anchor, side.half_length) for side in (source, target))
        rows = close_rows(PoseArrays.of(pose).numbers(), first, second, limits_of(threshold))
        return ClosePairs(rows, (len(source), len(target)), threshold)
    if threshold.distance > _SINGLE_PRECISION_DISTANCE:
        source, target = source.to(torch.float32), target.to(torch.float32)
    single_pose = Pose(pose.rotation[None], pose.translation[None]).to(source.anchor.dtype)
    counts = len(source), len(target)
    if counts[0] * counts[1] <= _BLOCK_ENTRIES:
        places = places_below(pair_residuals(single_pose, source, target, threshold), 1.0)
        return ClosePairs(torch.stack([places // counts[1], places % counts[1]], -1), counts, threshold)
    blocks = [source.anchor.new_zeros(0, 2).long()]
    for rows, columns in _blocks(pose, source, target, threshold):
        places = places_below(pair_residuals(single_pose, source[rows], target[columns], threshold), 1.0)
        blocks.append(torch.stack([rows[places // len(columns)], columns[places % len(columns)]], -1))
    pairs = torch.cat(blocks)
    return ClosePairs(pairs[(pairs[:, 0] * counts[1] + pairs[:, 1]).argsort()], counts, threshold)


def limits_of(threshold: InlierThreshold) -> Limits:
    """The threshold of compiled comparisons."""
    return Limits(threshold.distance, threshold.angle, threshold.slope, threshold.directed)


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
