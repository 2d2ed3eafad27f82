"""The most likely pose given row matches and the noise: the maximum-likelihood bound where all matches are right."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

from plueckernet.estimation.gauss_newton import determined_step, pose_covariance
from plueckernet.estimation.paired_lines import LineColumns, PairedLines, PoseArrays
from plueckernet.estimation.refinement import Refinement
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel

_GATE = 18.47  # chi-square of four degrees of freedom, 99.9 %
_PEAK = _GATE**2 / 8  # density of a right match at its centre over the uniform one of a wrong match within the gate
_MIN_PROBABILITY = 0.2  # of a reported match
_CONVERGED_STEP = 1e-6  # in standard deviations of the pose


def refine_matches(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, noise: NoiseModel, iterations: int = 20
) -> Refinement | None:
    """Maximum likelihood on row matches with known noise; wrong matches are gated out."""
    lines, placed = PairedLines(LineColumns.of(source), LineColumns.of(target)), PoseArrays.of(pose)
    variances = lines.source.variances(noise), lines.target.variances(noise)
    for _ in range(iterations + 1):
        design, _ = lines.residuals(placed).design(*variances)
        weight = _match_probability(np.square(design[6]).sum(0))
        step = determined_step(design, weight)
        if step is None:
            return None
        xi, length = step
        if length < _CONVERGED_STEP:
            break
        placed = placed.stepped(xi)
    covariance = torch.from_numpy(pose_covariance(design, np.sqrt(weight))).to(pose.rotation)
    rows = torch.from_numpy(np.flatnonzero(weight > _MIN_PROBABILITY))[:, None].expand(-1, 2).to(pose.rotation.device)
    return Refinement(placed.pose(like=pose), covariance, rows, noise, length < _CONVERGED_STEP)


def _match_probability(chi_square: Float[np.ndarray, " k"], iterations: int = 6) -> Float[np.ndarray, " k"]:
    """The probability of given matches: right ones are normally distributed, wrong ones uniformly within the gate."""
    density = np.where(chi_square < _GATE, _PEAK * np.exp(-chi_square / 2), 0.0)
    right, count = 0.7, max(1, int(np.count_nonzero(density)))
    for _ in range(iterations):
        odds = density * (right / (1 - right))
        weight = odds / (1 + odds)
        right = min(max(float(weight.sum()) / count, 0.05), 0.999)
    return weight
