"""Pose estimation as the paper publishes it (Sec. 3.4), for directed lines: what its network is measured with.

Two matches are drawn at a time, solved in closed form and scored by how many matches lie within ``threshold`` of each
other as six Plücker coordinates, ``|l' - T l|`` (Eq. 13); that sum of squares is then minimised over the inliers of the
best pose. One thing is mended: the rotation of two lines, see :func:`plueckernet.geometry.alignment.align_directed`.
:func:`plueckernet.estimation.ransac.ransac_pose` is what this package uses itself.
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

_BLOCK = 250  # poses scored at once


@dataclass(frozen=True)
class PublishedSettings:
    """The paper's."""

    matches: int = 200  # most probable ones that are used
    iterations: int = 1000
    threshold: float = 0.5  # of six Plücker coordinates, metres and the length of a unit vector alike
    steps: int = 10  # of Gauss-Newton at the end


@dataclass(frozen=True, eq=False)
class PublishedPose:
    """The pose and the matches it rests on."""

    target_T_source: Pose
    inliers: Bool[Tensor, " k"]


def published_pose(
    source: LineSet, target: LineSet, settings: PublishedSettings = PublishedSettings(), seed: int = 0
) -> PublishedPose:
    """``target_T_source`` from lines matched row by row; raises :class:`DegenerateError` if no two fix a pose."""
    source, target = source.replaced(ids=None), target.replaced(ids=None)  # one row of names does not fit many poses
    pairs = _draw(len(source), settings.iterations, seed).to(source.direction.device)
    one = LineSet(source.direction[pairs], source.moment[pairs])
    two = LineSet(target.direction[pairs], target.moment[pairs])
    poses, well_posed = fit_directed(one, two)
    poses = poses[well_posed]
    if not len(poses.rotation):
        raise DegenerateError("no two matches fix a pose")
    counts = torch.cat(
        [
            (_distance(poses[i : i + _BLOCK], source, target) < settings.threshold).sum(-1)
            for i in range(0, len(poses.rotation), _BLOCK)
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
    """Gauss-Newton on Eq. (13): under ``exp(omega, tau)`` d moves by omega x d, m by omega x m + tau x d.

    It ends where a step does not lessen the sum, as among parallel lines, which leave a shift undetermined.
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
        left = (target.pluecker() - moved.pluecker()).flatten()
        if not bool(left.square().sum() < residual.square().sum()):
            break
        pose, residual = trial, left
    return pose
