"""Gauss-Newton steps of poses on whitened residuals."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

_MIN_EIGENVALUE = 1e-9  # of the information with unit diagonal; below it a motion is undetermined


def gauss_newton_step(
    value: Float[Tensor, "*batch n 4"], jacobian: Float[Tensor, "*batch n 4 6"], weight: Float[Tensor, "*batch n"]
) -> tuple[Float[Tensor, "*batch 6"], Float[Tensor, "*batch 6 6"]]:
    """The step ``xi`` and the information matrix it rests on."""
    weighted = (jacobian * weight[..., None, None]).flatten(-3, -2)  # (*, 4n, 6)
    augmented = torch.cat([jacobian, value[..., None]], -1).flatten(-3, -2)
    information, gradient = (weighted.mT @ augmented).split([6, 1], -1)
    eye = torch.eye(6, dtype=value.dtype, device=value.device)
    damping = 1e-12 * information.diagonal(dim1=-2, dim2=-1).amax(-1).clamp_min(1)[..., None, None]
    return -torch.linalg.solve(information + damping * eye, gradient)[..., 0], information


def determined_step(
    value: Float[Tensor, "n 4"], jacobian: Float[Tensor, "n 4 6"], weight: Float[Tensor, " n"]
) -> tuple[Float[Tensor, "6"], float] | None:
    """The step and its length in standard deviations; None if the matches do not determine the pose."""
    if float(weight.sum()) < 3:
        return None
    xi, information = gauss_newton_step(value, jacobian, weight)
    if not bool(torch.linalg.eigvalsh(_unit_diagonal(information))[0] > _MIN_EIGENVALUE):
        return None
    return xi, float(xi @ information @ xi) ** 0.5


def pose_covariance(jacobian: Float[Tensor, "n 4 6"], weight: Float[Tensor, " n"]) -> Float[Tensor, "6 6"]:
    """The inverse of the weighted information."""
    information = (jacobian * weight[:, None, None]).flatten(0, 1).mT @ jacobian.flatten(0, 1)
    covariance = torch.linalg.inv(information)
    return (covariance + covariance.mT) / 2


def _unit_diagonal(matrix: Float[Tensor, "6 6"]) -> Float[Tensor, "6 6"]:
    scale = matrix.diagonal().clamp_min(1e-300).rsqrt()
    return matrix * scale[:, None] * scale[None, :]
