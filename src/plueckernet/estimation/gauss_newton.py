"""Gauss-Newton steps of poses on whitened residuals."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

_MIN_EIGENVALUE = 1e-9  # of the information with unit diagonal; below it a motion is undetermined
_UNDETERMINED_VARIANCE = 1e4  # squared map radii and radians, of a motion that no line determines


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
    """The step and its length in standard deviations; None for fewer than three matches.

    Where the matches leave a motion undetermined, as parallel lines do, the step has no component along it.
    """
    if float(weight.sum()) < 3:
        return None
    xi, information = gauss_newton_step(value, jacobian, weight)
    if not _is_determined(information):
        gradient = (jacobian * weight[:, None, None]).flatten(0, 1).mT @ value.flatten()
        xi = -_truncated_inverse(information, 0.0) @ gradient
    return xi, max(0.0, float(xi @ information @ xi)) ** 0.5


def pose_covariance(jacobian: Float[Tensor, "n 4 6"], weight: Float[Tensor, " n"]) -> Float[Tensor, "6 6"]:
    """The inverse of the weighted information; motions that are undetermined get a large variance."""
    information = (jacobian * weight[:, None, None]).flatten(0, 1).mT @ jacobian.flatten(0, 1)
    if _is_determined(information):
        covariance = torch.linalg.inv(information)
    else:
        covariance = _truncated_inverse(information, _UNDETERMINED_VARIANCE)
    return (covariance + covariance.mT) / 2


def _is_determined(information: Float[Tensor, "6 6"]) -> bool:
    return bool(torch.linalg.eigvalsh(_unit_diagonal(information))[0] > _MIN_EIGENVALUE)


def _truncated_inverse(information: Float[Tensor, "6 6"], undetermined: float) -> Float[Tensor, "6 6"]:
    """The inverse on the determined motions, plus the given variance on the others.

    Rotations and translations are scaled to the same mean information, which keeps the result independent of the axes.
    """
    mean = information.diagonal().unflatten(0, (2, 3)).mean(-1).clamp_min(1e-300)
    scale = mean.rsqrt().repeat_interleave(3)
    eigenvalues, vectors = torch.linalg.eigh(information * scale[:, None] * scale)
    determined = eigenvalues > _MIN_EIGENVALUE * eigenvalues[-1]
    vectors = scale[:, None] * vectors
    free = torch.linalg.qr(vectors[:, ~determined]).Q  # unit motions, so that their variance is the given one
    inverse = torch.where(determined, eigenvalues.clamp_min(1e-300).reciprocal(), 0.0)
    return (vectors * inverse) @ vectors.mT + undetermined * free @ free.mT


def _unit_diagonal(matrix: Float[Tensor, "6 6"]) -> Float[Tensor, "6 6"]:
    scale = matrix.diagonal().clamp_min(1e-300).rsqrt()
    return matrix * scale[:, None] * scale[None, :]
