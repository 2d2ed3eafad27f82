"""The most likely poses of many pairs of maps, all at once: :mod:`plueckernet.estimation.refinement`, batched.

Every pose has its own noise, its own threshold and its own set of close pairs. A pose that has converged stays as it is
while others are still moving.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.close_pairs import PairLists, PosedMaps, close_pairs
from plueckernet.estimation.batched.correspondence import match_probability
from plueckernet.estimation.batched.gauss_newton import gauss_newton_steps, inverses
from plueckernet.estimation.batched.noise import NoiseModels, fitted_noise, robust_noise
from plueckernet.estimation.batched.residuals import Thresholds
from plueckernet.estimation.refinement import RefinementSettings, SearchSettings
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import Residuals, line_residuals, variances, whitened

# As in `refinement`.
_LONG_LINE = math.sqrt(2)
_SAME_PAIRS_STEP = 0.2
_SAME_THRESHOLD = 0.05


@dataclass(frozen=True, eq=False)
class BatchedRefinement:
    """Refined poses and the matches that support each."""

    poses: Pose  # (q,)
    covariance: Float[Tensor, "q 6 6"]
    rows: tuple[Int[Tensor, "q p"], Int[Tensor, "q p"]]  # of close pairs
    inlier: Bool[Tensor, "q p"]  # which of them are matches
    noise: NoiseModels
    converged: Bool[Tensor, " q"]
    supported: Bool[Tensor, " q"]  # whether three or more lines support the pose
    determined: Bool[Tensor, " q"]  # False: some motion was not, and the pose has to be refined by itself


@dataclass(frozen=True, eq=False)
class _Fit:
    poses: Pose  # after the step
    residuals: Residuals  # before the step
    variance_scale: Float[Tensor, "q p"]
    jacobian: Float[Tensor, "q p 4 6"]
    weight: Float[Tensor, "q p"]
    exclusive: Float[Tensor, "q p"]
    step: Float[Tensor, " q"]  # length, in standard deviations of the pose
    supported: Bool[Tensor, " q"]
    determined: Bool[Tensor, " q"]


@dataclass(frozen=True, eq=False)
class _Approach:
    poses: Pose
    noise: NoiseModels
    stable: Bool[Tensor, " q"]
    supported: Bool[Tensor, " q"]
    determined: Bool[Tensor, " q"]


def refine_poses(
    poses: Pose, maps: PosedMaps, threshold: Thresholds, settings: RefinementSettings
) -> BatchedRefinement:
    """Maximum likelihood on all lines of two maps for each of ``q`` poses, the noise unknown."""
    approach = _approach(poses, maps, threshold, settings)
    poses, noise, determined, supported = approach.poses, approach.noise, approach.determined, approach.supported
    pairs = close_pairs(poses, maps, _search_threshold(noise, threshold, settings.search.final))
    for _ in range(settings.final_iterations):
        fit = _fit(poses, pairs, noise, settings)
        supported, determined = supported & fit.supported, determined & (fit.determined | ~supported)
        poses, trust = _where(supported, fit.poses, poses), fit.weight / (1 + pairs.competitors).square()
        fitted = fitted_noise(noise, fit.residuals, pairs, fit.variance_scale, trust, fit.weight.sum(-1))
        noise = noise.replaced(supported, fitted)
    fit = _fit(poses, pairs, noise, settings)  # matches and covariance of the last pose
    supported = supported & fit.supported
    covariance, known = _covariance(fit)
    inlier = pairs.mutual_best(fit.weight) & (fit.weight > settings.min_match_probability)
    converged = approach.stable | (fit.step < settings.converged_step)
    determined = determined & (fit.determined & known | ~supported)
    return BatchedRefinement(poses, covariance, pairs.rows, inlier, noise, converged, supported, determined)


def _approach(poses: Pose, maps: PosedMaps, threshold: Thresholds, settings: RefinementSettings) -> _Approach:
    """Iterate until the sets of close pairs are stable."""
    noise = NoiseModels.initial(threshold, settings.noise.initial_fraction)
    accepted, search, paired = noise, threshold, (poses, threshold)
    active = torch.ones_like(threshold.distance, dtype=torch.bool)
    changed, stable, ever, determined = active, ~active, ~active, active
    for iteration in range(settings.iterations):
        if iteration == 0 or bool((changed & active).any()):
            paired = _where(changed, poses, paired[0]), paired[1].replaced(changed, search)
            pairs = close_pairs(paired[0], maps, paired[1])
        fit = _fit(poses, pairs, noise, settings)
        determined = determined & (fit.determined | ~(active & fit.supported))
        active = active & fit.supported  # with few lines, a chance agreement can make the noise look too small
        ever = ever | active
        poses, accepted = _where(active, fit.poses, poses), accepted.replaced(active, noise)
        noise = noise.replaced(active, _rough_noise(noise, fit, settings))
        previous, search = search, search.replaced(active, _search_threshold(noise, threshold, settings.search))
        same = (search.distance / previous.distance - 1).abs() < _SAME_THRESHOLD
        changed = active & ((fit.step > _SAME_PAIRS_STEP) | ~same)
        now = active & (fit.step < settings.converged_step) & same
        stable, active = stable | now, active & ~now
        if iteration > 2 and not bool(active.any()):
            break
    lost = ever & ~stable & ~active  # support was lost: the noise of the last fit
    return _Approach(poses, noise.replaced(lost, accepted), stable, ever, determined)


def _search_threshold(noise: NoiseModels, limit: Thresholds, settings: SearchSettings) -> Thresholds:
    """Some sigmas of the difference of two lines, limited by the inlier threshold."""
    direction = torch.hypot(noise.direction, noise.endpoint * (math.sqrt(2) / _LONG_LINE))
    distance = settings.position_sigmas * math.sqrt(2) * noise.position
    angle = settings.direction_sigmas * math.sqrt(2) * direction
    return Thresholds(
        torch.minimum(distance, settings.max_growth * limit.distance),
        torch.minimum(angle, settings.max_growth * limit.angle),
        torch.minimum(settings.slope_sigmas * direction, limit.angle),
    )


def _fit(poses: Pose, pairs: PairLists, noise: NoiseModels, settings: RefinementSettings) -> _Fit:
    """One Gauss-Newton step of each pose on its pairs, weighted by their probability."""
    residuals = line_residuals(poses, *pairs.lines, pairs.source.anchor, pairs.target.anchor)
    first, second = noise.direction_variance(pairs.source), noise.direction_variance(pairs.target)
    turn, free = first + second, settings.noise.degrees_of_freedom
    square = residuals.direction.square().sum(-1) / turn
    scale = (free - 2 + square) / (free + 2)
    place = noise.position[:, None].expand(pairs.mask.shape)
    gain, shift, turned = variances(residuals, (place, (first * scale).sqrt()), (place, (second * scale).sqrt()))
    value, jacobian = whitened(residuals, gain, shift, turned)
    limits = pairs.threshold
    position = (-value[..., :2].square().sum(-1) / 2).exp() * limits.distance.square()[:, None] / (2 * shift)
    tail = (1 + square / (free - 2)) ** (-(free + 2) / 2) * (free / (free - 2))
    direction = tail * limits.angle.square()[:, None] / (2 * turn)
    weight, exclusive = match_probability(pairs, position, direction, settings.correspondence)
    step = gauss_newton_steps(value, jacobian, weight)
    supported = (pairs.mask.sum(-1) >= 3) & (weight.sum(-1) >= 3)
    moved = Pose.exp(step.xi) @ poses
    return _Fit(moved, residuals, scale, jacobian, weight, exclusive, step.length, supported, step.determined)


def _rough_noise(noise: NoiseModels, fit: _Fit, settings: RefinementSettings) -> NoiseModels:
    counted = fit.weight > settings.min_noise_probability
    rows = torch.where((counted.sum(-1) >= 3)[:, None], counted, fit.weight > 0)
    return robust_noise(noise, fit.residuals, fit.weight * rows, settings.noise.max_decrease)


def _covariance(fit: _Fit) -> tuple[Float[Tensor, "q 6 6"], Bool[Tensor, " q"]]:
    """Of the poses; competing pairs have reduced the information, and the noise was estimated."""
    weighted = fit.jacobian * (fit.exclusive * fit.weight.sqrt())[..., None, None]
    covariance, known = inverses(weighted.flatten(1, 2).mT @ fit.jacobian.flatten(1, 2))
    lines = fit.weight.sum(-1)
    scale = lines / (lines - 6).clamp_min(1)
    return (covariance + covariance.mT) / 2 * scale[:, None, None], known


def _where(mask: Bool[Tensor, " q"], poses: Pose, others: Pose) -> Pose:
    return Pose(
        torch.where(mask[:, None, None], poses.rotation, others.rotation),
        torch.where(mask[:, None], poses.translation, others.translation),
    )
