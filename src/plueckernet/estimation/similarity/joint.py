r"""Pose and scale of a converged registration together: a Gauss-Newton step in seven dimensions, and the covariance.

The source is scaled about the origin of the target frame, so that with ``xi = (omega, tau, sigma)`` a point moves by
``omega x x + tau + sigma x``. The residuals of :mod:`plueckernet.geometry.residuals` get one more column: the
derivative of the position by ``sigma`` is that by ``tau`` times the point ``x`` of the moved line, and directions do
not change.

The search is rigid, at a given scale. From its best pose, the step in all seven dimensions gives the scale at which it
is repeated. Because each rigid refinement finds the best pose for its scale, a few steps suffice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.close_pairs import close_pairs
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.noise import KnownNoise, direction_variance_scale, tail_density
from plueckernet.estimation.refinement import (
    Refinement,
    RefinementSettings,
    complete_refinement,
    search_threshold,
    short_length,
)
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.pose import Pose, Similarity, skew
from plueckernet.geometry.residuals import Residuals, line_residuals, variances, whitened

_PARAMETERS = 7
_MAX_STEPS = 8
_CONVERGED = 0.05  # last change of the logarithm of the scale, in its standard deviations
_MAX_STEP = 0.1  # of the logarithm of the scale
_UNDETERMINED = 1e4  # variance of what the lines leave undetermined, in squared map radii and radians
_MIN_EIGENVALUE = 1e-9  # of the information with unit diagonal


@dataclass(frozen=True, eq=False)
class JointStep:
    """The step to the most likely pose and scale, and the covariance there."""

    xi: Float[Tensor, "7"]  # (omega, tau, sigma) in normalized units
    covariance: Float[Tensor, "7 7"]

    def original_covariance(self, maps: MapPair) -> Float[Tensor, "7 7"]:
        """In the frame and unit of the target."""
        change = original_change(maps)
        return change @ self.covariance @ change.mT

    @property
    def deviations(self) -> float:
        """The step of the scale in its standard deviations."""
        return abs(float(self.xi[6])) / math.sqrt(max(float(self.covariance[6, 6]), 1e-300))


def with_scale_column(
    residuals: Residuals,
    jacobian: Float[Tensor, "n 4 6"],
    crossing: Float[Tensor, "n 3"],
    position: Float[Tensor, " n"],
) -> Float[Tensor, "n 4 7"]:
    """Whitened Jacobians with the derivative by the logarithm of the scale.

    ``crossing`` are the points of the moved lines at which positions are compared, ``position`` the variance of the
    position given the direction.
    """
    shift = (residuals.position_jacobian[..., 3:] * crossing[:, None]).sum(-1) * position.rsqrt()[:, None]
    return torch.cat([jacobian, torch.cat([shift, torch.zeros_like(shift)], -1)[..., None]], -1)


def crossings(pose: Pose, residuals: Residuals, source: AnchoredLines, target: AnchoredLines) -> Float[Tensor, "n 3"]:
    """The points of the moved source lines in the planes across the target lines through their anchors."""
    turned = source.lines.direction @ pose.rotation.mT
    sign = torch.where((turned * target.lines.direction).sum(-1) < 0, -1.0, 1.0)
    return pose.act(source.anchor) + (sign * residuals.lever)[:, None] * turned


def joint_step(
    refinement: Refinement, maps: MapPair, settings: RefinementSettings, estimated: bool
) -> JointStep | None:
    """The step in pose and scale from a refined pose, on all lines; None if fewer than three lines support it.

    ``estimated`` tells whether the noise was estimated from the same residuals.
    """
    pose, noise = refinement.pose, refinement.noise
    shortest = short_length(maps.all_source, maps.all_target)
    threshold = search_threshold(noise, maps.threshold, shortest, settings.search.final)
    pairs = close_pairs(pose, maps.all_source, maps.all_target, threshold)
    if len(pairs) < 3:
        return None
    source, target = maps.all_source[pairs.rows[:, 0]], maps.all_target[pairs.rows[:, 1]]
    residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
    from_source, from_target = source.sigmas(noise), target.sigmas(noise)
    spread = from_source[1].square() + from_target[1].square()
    square, free = residuals.direction.square().sum(-1) / spread, settings.noise.degrees_of_freedom
    wider = direction_variance_scale(square, free).sqrt()
    gain, shift, turn = variances(
        residuals, (from_source[0], from_source[1] * wider), (from_target[0], from_target[1] * wider)
    )
    value, jacobian = whitened(residuals, gain, shift, turn)
    weight, exclusive = pairs.probability(
        (-value[:, :2].square().sum(-1) / 2).exp() * threshold.distance**2 / (2 * shift),
        tail_density(square, free) * threshold.angle**2 / (2 * spread),
        settings.correspondence,
    )
    lines = float(weight.sum())
    if lines < 3:
        return None
    jacobian = with_scale_column(
        residuals, settings.allowed(jacobian), crossings(pose, residuals, source, target), shift
    )
    fitted = lines / max(lines - _PARAMETERS, 1) if estimated else 1.0
    covariance = fitted * inverse_information(jacobian, exclusive * weight.sqrt())
    if settings.up is not None:  # what is not allowed has no variance
        keep = torch.block_diag(settings.allowed(torch.eye(6).to(covariance)), torch.ones(1, 1).to(covariance))
        covariance = keep @ covariance @ keep
    return JointStep(solved_step(value, jacobian, weight), covariance)


def solved_step(
    value: Float[Tensor, "n 4"], jacobian: Float[Tensor, "n 4 7"], weight: Float[Tensor, " n"]
) -> Float[Tensor, "7"]:
    """The Gauss-Newton step; it has no component along what the lines leave undetermined."""
    gradient = (jacobian * weight[:, None, None]).flatten(0, 1).mT @ value.flatten()
    return -_inverse(_information(jacobian, weight), 0.0) @ gradient


def inverse_information(jacobian: Float[Tensor, "n 4 7"], weight: Float[Tensor, " n"]) -> Float[Tensor, "7 7"]:
    """The covariance; what is undetermined has a large variance."""
    return _inverse(_information(jacobian, weight), _UNDETERMINED)


def _information(jacobian: Float[Tensor, "n 4 7"], weight: Float[Tensor, " n"]) -> Float[Tensor, "7 7"]:
    return (jacobian * weight[:, None, None]).flatten(0, 1).mT @ jacobian.flatten(0, 1)


def _inverse(information: Float[Tensor, "7 7"], undetermined: float) -> Float[Tensor, "7 7"]:
    scale = information.diagonal().clamp_min(1e-300).rsqrt()
    eigenvalues, vectors = torch.linalg.eigh(information * scale[:, None] * scale)
    determined = eigenvalues > _MIN_EIGENVALUE
    vectors = scale[:, None] * vectors
    loose = torch.nn.functional.normalize(vectors[:, ~determined], dim=0)
    inverse = (vectors * torch.where(determined, eigenvalues.clamp_min(1e-300).reciprocal(), 0.0)) @ vectors.mT
    return inverse + undetermined * loose @ loose.mT


def original_change(maps: MapPair, dtype: torch.dtype = torch.float64) -> Float[Tensor, "7 7"]:
    """From ``xi`` in normalized units to ``xi`` in the frame and unit of the target."""
    change = torch.eye(_PARAMETERS, dtype=dtype, device=maps.target_offset.device)
    change[3:6, 3:6] *= maps.unit
    change[3:6, :3] = skew(maps.target_offset)
    change[3:6, 6] = -maps.target_offset
    return change


def refine_similarity(
    motion: Similarity,
    maps_at: Callable[[float], MapPair],
    known: Callable[[MapPair], KnownNoise],
    settings: RefinementSettings,
) -> Similarity:
    """Pose and scale at the maximum of the likelihood, in the frames of the original maps.

    ``maps_at`` gives both maps with the source scaled. The motion must be accurate to about the inlier threshold.
    """
    for _ in range(_MAX_STEPS):
        maps = maps_at(float(motion.scale))
        noise = known(maps)
        pose = maps.normalized_pose(Pose(motion.rotation, motion.translation))
        start = Refinement(
            pose, torch.eye(6).to(pose.rotation), _no_rows(pose), settings.noise.initial(maps.threshold), False
        )
        refined = complete_refinement(start, maps, noise, settings)
        step = joint_step(refined, maps, settings, not noise.complete)
        if step is None:
            return motion
        pose = maps.original_pose(refined.pose)
        motion = Similarity(motion.scale, pose.rotation, pose.translation)
        if step.deviations < _CONVERGED:
            return motion
        limited = step.xi * min(1.0, _MAX_STEP / max(abs(float(step.xi[6])), 1e-12))
        motion = Similarity.exp(original_change(maps) @ limited) @ motion
    return motion


def _no_rows(pose: Pose) -> Tensor:
    return torch.zeros(0, 2, dtype=torch.long, device=pose.rotation.device)
