"""Which poses of many pairs of maps are distinct: :mod:`plueckernet.estimation.distinct`, batched.

A pose is chosen if no better one that is chosen is close to it. Within a block that is solved by repetition: all poses
are taken for chosen, those close to a better one are not, and so on until nothing changes. Every repetition settles one
more link of a chain of close poses, so the end is the greedy choice.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.lines import take_rows
from plueckernet.estimation.distinct import Distinctness
from plueckernet.geometry.pose import Pose

_BLOCK = 512  # poses compared at once
_BEYOND_ALL = 1e9  # normalized; close to nothing


def close_poses(
    poses: Pose, others: Pose, distance: Float[Tensor, " b"], angle: float, settings: Distinctness = Distinctness()
) -> Bool[Tensor, "b h k"]:
    """Which of ``h`` poses are not distinct from which of ``k`` others of the same pair of maps."""
    trace = poses.rotation.flatten(-2) @ others.rotation.flatten(-2).mT  # 1 + 2 cos of the angle between them
    first, second = poses.translation, others.translation
    ones, other_ones = torch.ones_like(first[..., :1]), torch.ones_like(second[..., :1])
    square, other_square = (shift.square().sum(-1, keepdim=True) for shift in (first, second))
    apart = torch.cat([-2 * first, square, ones], -1) @ torch.cat([second, other_ones, other_square], -1).mT
    near = apart < (settings.distance * distance).square()[:, None, None].to(apart.dtype)
    return near.logical_and_(trace > 1 + 2 * math.cos(settings.angle * angle))


def distinct_poses(
    poses: Pose,
    mask: Bool[Tensor, "b h"],
    distance: Float[Tensor, " b"],
    angle: float,
    max_count: int,
    settings: Distinctness = Distinctness(),
) -> tuple[Int[Tensor, "b k"], Bool[Tensor, "b k"]]:
    """Rows of poses, given best first, that are distinct from all better ones; and which rows are real."""
    poses = poses.to(torch.float32)
    chosen = torch.zeros_like(mask)
    for start in range(0, mask.shape[1], _BLOCK):
        block = slice(start, start + _BLOCK)
        own, alive, count = _columns(poses, block), mask[:, block], chosen.sum(1)
        if start:
            if not bool((mask[:, start:].any(1) & (count < max_count)).any()):
                break
            rows, real = _first(chosen[:, :start], int(count.max()))
            others = poses_of(poses, rows)
            others = Pose(others.rotation, others.translation.masked_fill(~real[..., None], _BEYOND_ALL))
            alive = alive & ~close_poses(own, others, distance, angle, settings).any(-1)
        better = close_poses(own, own, distance, angle, settings).tril_(-1)
        chosen[:, block] = _settled(alive, better)
    chosen &= chosen.cumsum(-1) <= max_count
    return _first(chosen, min(max_count, mask.shape[1]))


def _first(chosen: Bool[Tensor, "b h"], count: int) -> tuple[Int[Tensor, "b k"], Bool[Tensor, "b k"]]:
    """The first rows that are chosen, and which of them are."""
    rows = chosen.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :count]
    return rows, chosen.gather(1, rows)


def poses_of(poses: Pose, rows: Int[Tensor, "b k"]) -> Pose:
    """Some of the poses of each pair of maps."""
    rotation = take_rows(poses.rotation.flatten(2), rows).unflatten(2, (3, 3))
    return Pose(rotation, take_rows(poses.translation, rows))


def compacted(poses: Pose, mask: Bool[Tensor, "b h"]) -> tuple[Pose, Bool[Tensor, "b k"], Int[Tensor, "b k"]]:
    """The poses that the mask selects, first and in their order; identities follow. And the rows they come from.

    There is always one column, so that a best pose can be asked for.
    """
    most = max(1, int(mask.sum(1).max()))
    order = mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
    kept, chosen = mask.gather(1, order), poses_of(poses, order)
    eye = torch.eye(3, dtype=chosen.rotation.dtype, device=order.device)
    rotation = torch.where(kept[..., None, None], chosen.rotation, eye)
    return Pose(rotation, torch.where(kept[..., None], chosen.translation, 0.0)), kept, order


def _settled(alive: Bool[Tensor, "b h"], better: Bool[Tensor, "b h h"]) -> Bool[Tensor, "b h"]:
    links, chosen = better.float(), alive  # a product is read faster than a mask is combined with another

    def free(others: Bool[Tensor, "b h"]) -> Bool[Tensor, "b h"]:
        return alive & ((links @ others.float()[..., None])[..., 0] == 0)

    while True:
        once = free(chosen)
        chosen = free(once)
        if torch.equal(once, chosen):
            return chosen


def _columns(poses: Pose, columns: slice) -> Pose:
    return Pose(poses.rotation[:, columns], poses.translation[:, columns])
