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
    cosine = (poses.rotation.flatten(-2) @ others.rotation.flatten(-2).mT - 1) / 2
    shift = torch.cdist(poses.translation, others.translation)
    return (cosine > math.cos(settings.angle * threshold.angle)) & (shift < settings.distance * threshold.distance)


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
    chosen = order[:0]
    for block in order.split(_BLOCK):
        block = block[~close_poses(poses[block], poses[chosen], threshold, settings).any(1)]
        close = close_poses(poses[block], poses[block], threshold, settings).cpu().numpy()
        kept: list[int] = []
        remaining = np.ones(len(block), dtype=bool)
        while len(chosen) + len(kept) < max_count and remaining.any():
            kept.append(int(remaining.argmax()))
            remaining &= ~close[kept[-1]]
        chosen = torch.cat([chosen, block[kept]])
        if len(chosen) == max_count:
            break
    return chosen
