"""Which poses are distinct: further apart than the inlier threshold can resolve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import InlierThreshold
from plueckernet.geometry.pose import Pose
from plueckernet.kernels.distinct import distinct_rows
from plueckernet.kernels.library import compiled
from plueckernet.settings import check_positive

_BLOCK = 500  # poses compared at once


@dataclass(frozen=True)
class Distinctness:
    """The smallest difference of two distinct poses."""

    distance: float = 2.0  # inlier distances
    angle: float = 1.0  # inlier angles

    def __post_init__(self) -> None:
        check_positive(self, "distance", "angle")


def close_poses(
    poses: Pose, others: Pose, threshold: InlierThreshold, settings: Distinctness = Distinctness()
) -> Bool[Tensor, "h k"]:
    """Which of ``h`` poses are not distinct from which of ``k`` others."""
    return _closeness(poses, others, threshold, settings) > 0


def close_to_any(
    poses: Pose, others: Pose, threshold: InlierThreshold, settings: Distinctness = Distinctness()
) -> Bool[Tensor, " h"]:
    """Which of ``h`` poses are not distinct from all others."""
    if not others.rotation.shape[0]:
        return torch.zeros_like(poses.translation[:, 0], dtype=torch.bool)
    return _closeness(poses, others, threshold, settings).amax(1) > 0


def _closeness(poses: Pose, others: Pose, threshold: InlierThreshold, settings: Distinctness) -> Float[Tensor, "h k"]:
    """One for poses that are not distinct and zero for others: on a CPU numbers are much faster than logical masks."""
    trace = poses.rotation.flatten(-2) @ others.rotation.flatten(-2).mT  # 1 + 2 cos of the angle between them
    near = _squared_distances(poses.translation, others.translation)
    near = near.lt_((settings.distance * threshold.distance) ** 2)
    return trace.gt_(1 + 2 * math.cos(settings.angle * threshold.angle)).mul_(near)


def _squared_distances(first: Float[Tensor, "h 3"], second: Float[Tensor, "k 3"]) -> Float[Tensor, "h k"]:
    """As one product; `cdist` does the same and takes roots."""
    ones, other_ones = torch.ones_like(first[:, :1]), torch.ones_like(second[:, :1])
    square, other_square = first.square().sum(-1, keepdim=True), second.square().sum(-1, keepdim=True)
    return torch.cat([-2 * first, square, ones], -1) @ torch.cat([second, other_ones, other_square], -1).mT


def are_close(pose: Pose, other: Pose, threshold: InlierThreshold, settings: Distinctness = Distinctness()) -> bool:
    """Whether two poses are not distinct."""
    single, reference = (Pose(p.rotation[None], p.translation[None]) for p in (pose, other))
    return bool(close_poses(single, reference, threshold, settings))


def distinct_poses(
    poses: Pose,
    scores: Float[Tensor, " h"],
    threshold: InlierThreshold,
    max_count: int,
    settings: Distinctness = Distinctness(),
) -> Int[Tensor, " k"]:
    """Greedily the best poses of a positive score that are distinct from all better ones."""
    poses = poses.to(torch.float32)  # half the time, and precise enough for the threshold
    order = scores.argsort(descending=True, stable=True)
    order = order[scores[order] > 0]
    if compiled(poses.rotation):
        limits = 1 + 2 * math.cos(settings.angle * threshold.angle), (settings.distance * threshold.distance) ** 2
        return order[distinct_rows(poses.rotation[order], poses.translation[order], limits, max_count)]
    chosen = order[:0]
    for block in order.split(_BLOCK):
        block = block[~close_to_any(poses[block], poses[chosen], threshold, settings)]
        close = _closeness(poses[block], poses[block], threshold, settings).cpu().numpy() > 0
        kept = _first_apart(close, max_count - len(chosen))
        chosen = torch.cat([chosen, block[kept]])
        if len(chosen) == max_count:
            break
    return chosen


def _first_apart(close: Bool[np.ndarray, "h h"], max_count: int) -> list[int]:
    """Greedily the first rows that are close to no row before them; a row is a whole number, one bit a column."""
    bits = np.packbits(close, axis=1, bitorder="little")
    rows, width = bits.tobytes(), bits.shape[1]
    kept: list[int] = []
    remaining = (1 << len(close)) - 1
    while remaining and len(kept) < max_count:
        row = (remaining & -remaining).bit_length() - 1
        remaining &= ~(int.from_bytes(rows[row * width : (row + 1) * width], "little") | (1 << row))
        kept.append(row)
    return kept
