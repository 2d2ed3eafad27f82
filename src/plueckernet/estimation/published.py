"""Pose estimation as published in the paper (Sec. 3.4), for directed lines; its network is evaluated with it.

Two matches are drawn at a time, solved in closed form and scored by the number of matches within ``threshold`` in six
Plücker coordinates, ``|l' - T l|`` (Eq. 14). The sum of squares is then minimised over the inliers of the best pose.
One error is corrected: the rotation of two lines, see :func:`plueckernet.geometry.alignment.align_directed`. This
package itself uses :func:`plueckernet.estimation.ransac.ransac_pose`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.errors import DegenerateError
from plueckernet.geometry.alignment import fit_directed
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, skew
from plueckernet.settings import check_at_least, check_positive

_BLOCK_POSES = 250  # poses scored at once


@dataclass(frozen=True)
class PublishedSettings:
    """The paper's settings."""

    matches: int = 200  # the most probable ones
    iterations: int = 1000
    threshold: float = 0.5  # distance of six Plücker coordinates; moments in metres, directions of unit length
    steps: int = 10  # of the final Gauss-Newton

    def __post_init__(self) -> None:
        check_at_least(self, 1, "matches", "iterations")
        check_at_least(self, 0, "steps")
        check_positive(self, "threshold")


@dataclass(frozen=True, eq=False)
class PublishedPose:
    """The pose and its inliers."""

    target_T_source: Pose
    inliers: Bool[Tensor, " k"]


def published_pose(
    source: LineSet, target: LineSet, settings: PublishedSettings = PublishedSettings(), seed: int = 0
) -> PublishedPose:
    """``target_T_source`` from lines matched row by row; raises :class:`DegenerateError` if no two determine a pose."""
    source, target = source.replaced(ids=None), target.replaced(ids=None)  # ids are not batched
    pairs = _draw(len(source), settings.iterations, seed).to(source.direction.device)
    source_pairs = LineSet(source.direction[pairs], source.moment[pairs])
    target_pairs = LineSet(target.direction[pairs], target.moment[pairs])
    poses, well_posed = fit_directed(source_pairs, target_pairs)
    poses = poses[well_posed]
    if not len(poses.rotation):
        raise DegenerateError("no two matches determine a pose")
    counts = torch.cat(
        [
            (_distance(poses[i : i + _BLOCK_POSES], source, target) < settings.threshold).sum(-1)
            for i in range(0, len(poses.rotation), _BLOCK_POSES)
        ]
    )
    best = poses[counts.argmax()]
    inliers = _distance(best, source, target) < settings.threshold
    return PublishedPose(_jointly_optimised(best, source[inliers], target[inliers], settings.steps), inliers)


def _draw(count: int, iterations: int, seed: int) -> Int[Tensor, "s 2"]:
    """Pairs of two different rows."""
    if count < 2:
        return torch.zeros(0, 2, dtype=torch.long)
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(count, (iterations,), generator=generator)
    second = torch.randint(count - 1, (iterations,), generator=generator)
    return torch.stack([first, second + (second >= first)], -1)


def _distance(poses: Pose, source: LineSet, target: LineSet) -> Float[Tensor, "*h k"]:
    return (target.pluecker() - (poses @ source).pluecker()).norm(dim=-1)


def _jointly_optimised(pose: Pose, source: LineSet, target: LineSet, steps: int) -> Pose:
    """Gauss-Newton on Eq. (14): under ``exp(omega, tau)`` d moves by omega x d, m by omega x m + tau x d.

    It ends when a step does not reduce the sum, as with parallel lines, which leave a shift undetermined.
    """
    if len(source) < 3:  # two lines are solved exactly
        return pose
    moved = pose @ source
    residual = (target.pluecker() - moved.pluecker()).flatten()
    for _ in range(steps):
        turn, shift = skew(moved.direction), skew(moved.moment)
        by_moment = torch.cat([shift, turn], -1)  # (k, 3, 6)
        by_direction = torch.cat([turn, torch.zeros_like(turn)], -1)
        jacobian = torch.cat([by_moment, by_direction], -2).flatten(0, 1)  # (6 k, 6), of the residual l' - T l
        trial = Pose.exp(torch.linalg.lstsq(jacobian, -residual[:, None]).solution[:, 0]) @ pose
        moved = trial @ source
        remaining = (target.pluecker() - moved.pluecker()).flatten()
        if not bool(remaining.square().sum() < residual.square().sum()):
            break
        pose, residual = trial, remaining
    return pose
