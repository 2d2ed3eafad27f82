"""Gauss-Newton steps of poses on whitened residuals."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.kernels import information as kernel
from plueckernet.kernels.library import compiled

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
    design: Float[np.ndarray, "7 4 k"], weight: Float[np.ndarray, " k"]
) -> tuple[Float[np.ndarray, "6"], float] | None:
    """The step and its length in standard deviations; None for fewer than three matches.

    ``design`` is that of :class:`~plueckernet.estimation.paired_lines.PairResiduals`. Where the matches leave a motion
    undetermined, as parallel lines do, the step has no component along it.
    """
    if float(weight.sum()) < 3:
        return None
    return solved_step((design[:6] * weight).reshape(6, -1) @ design.reshape(7, -1).T)


def solved_step(products: Float[np.ndarray, "6 7"]) -> tuple[Float[np.ndarray, "6"], float]:
    """The same from the information and, in the last column, the gradient."""
    information, gradient = products[:, :6], products[:, 6]
    if _is_determined(information):
        damping = 1e-12 * max(1.0, float(information.diagonal().max()))
        xi = -np.linalg.solve(information + damping * np.eye(6), gradient)
    else:
        xi = -_truncated_inverse(information, 0.0) @ gradient
    return xi, max(0.0, float(xi @ information @ xi)) ** 0.5


def pose_covariance(design: Float[np.ndarray, "7 4 k"], weight: Float[np.ndarray, " k"]) -> Float[np.ndarray, "6 6"]:
    """The inverse of the weighted information; motions that are undetermined get a large variance."""
    return inverse_information(weighted_information(design, weight))


def weighted_information(
    design: Float[np.ndarray, "7 4 k"], weight: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "6 6"]:  # fmt: skip
    """Of the pose, from derivatives of residuals with unit covariance."""
    information: np.ndarray = (design[:6] * weight).reshape(6, -1) @ design[:6].reshape(6, -1).T
    return information


def inverse_information(information: Float[np.ndarray, "6 6"]) -> Float[np.ndarray, "6 6"]:
    """The covariance of the pose; motions that are undetermined get a large variance."""
    inverse = kernel.inverse_information(information, _MIN_EIGENVALUE) if compiled() else None
    if inverse is not None:
        return inverse
    if _is_determined(information):
        covariance = np.linalg.inv(information)
    else:
        covariance = _truncated_inverse(information, _UNDETERMINED_VARIANCE)
    return (covariance + covariance.T) / 2


def _is_determined(information: Float[np.ndarray, "6 6"]) -> bool:
    return bool(np.linalg.eigvalsh(_unit_diagonal(information))[0] > _MIN_EIGENVALUE)


def _truncated_inverse(information: Float[np.ndarray, "6 6"], undetermined: float) -> Float[np.ndarray, "6 6"]:
    """The inverse on the determined motions, plus the given variance on the others.

    Rotations and translations are scaled to the same mean information, which keeps the result independent of the axes.
    """
    mean = np.maximum(information.diagonal().reshape(2, 3).mean(-1), 1e-300)
    scale = (1 / np.sqrt(mean)).repeat(3)
    eigenvalues, vectors = np.linalg.eigh(information * scale[:, None] * scale)
    determined = eigenvalues > _MIN_EIGENVALUE * eigenvalues[-1]
    vectors = scale[:, None] * vectors
    free = np.linalg.qr(vectors[:, ~determined]).Q  # unit motions, so that their variance is the given one
    inverse = np.where(determined, 1 / np.maximum(eigenvalues, 1e-300), 0.0)
    result: np.ndarray = (vectors * inverse) @ vectors.T + undetermined * free @ free.T
    return result


def _unit_diagonal(matrix: Float[np.ndarray, "6 6"]) -> Float[np.ndarray, "6 6"]:
    scale = 1 / np.sqrt(np.maximum(matrix.diagonal(), 1e-300))
    return matrix * scale[:, None] * scale
