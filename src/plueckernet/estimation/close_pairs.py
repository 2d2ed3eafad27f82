"""All pairs of lines within an inlier threshold of each other under a pose."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Int
from torch import Tensor

from plueckernet.estimation.correspondence import ClosePairs
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.pose import Pose

_SINGLE_PRECISION_DISTANCE = 1e-3  # normalized; above it single precision resolves the threshold
_BLOCK_ENTRIES = 250_000  # of a residual matrix, small enough for the cache of a CPU
_SLAB_ROWS = 256  # source lines per slab


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
