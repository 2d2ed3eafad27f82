"""The most likely pose given row matches and the noise: the maximum-likelihood bound where all matches are right."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.gauss_newton import determined_step, pose_covariance
from plueckernet.estimation.refinement import Refinement
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel, line_residuals, variances, whitened

_GATE = 18.47  # chi-square of four degrees of freedom, 99.9 %
_PEAK = _GATE**2 / 8  # density of a right match at its centre over the uniform one of a wrong match within the gate
_MIN_PROBABILITY = 0.2  # of a reported match
_CONVERGED_STEP = 1e-6  # in standard deviations of the pose


def refine_matches(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, noise: NoiseModel, iterations: int = 20
) -> Refinement | None:
    """Maximum likelihood on row matches with known noise; wrong matches are gated out."""
    sigma = source.sigmas(noise), target.sigmas(noise)
    for _ in range(iterations + 1):
        residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
        value, jacobian = whitened(residuals, *variances(residuals, *sigma))
        weight = _match_probability(value.square().sum(-1))
        step = determined_step(value, jacobian, weight)
        if step is None:
            return None
        xi, length = step
        if length < _CONVERGED_STEP:
            break
        pose = Pose.exp(xi) @ pose
    covariance = pose_covariance(jacobian, weight.sqrt())
    rows = (weight > _MIN_PROBABILITY).nonzero().expand(-1, 2)
    return Refinement(pose, covariance, rows, noise, length < _CONVERGED_STEP)


def _match_probability(chi_square: Float[Tensor, " k"], iterations: int = 6) -> Float[Tensor, " k"]:
    """The probability of given matches: right ones are normally distributed, wrong ones uniformly within the gate."""
    density = torch.where(chi_square < _GATE, _PEAK * (-chi_square / 2).exp(), 0.0)
    right, count = 0.7, max(1, int((density > 0).sum()))
    for _ in range(iterations):
        odds = density * (right / (1 - right))
        weight = odds / (1 + odds)
        right = min(max(float(weight.sum()) / count, 0.05), 0.999)
    return weight
