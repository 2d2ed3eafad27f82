"""Gauss-Newton steps of many poses on padded residuals: :mod:`plueckernet.estimation.gauss_newton`, batched.

A motion is determined if the information, scaled to a unit diagonal, has no eigenvalue below a limit. A factorisation
of the matrix minus the limit tells that without the eigenvalues, and without waiting for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

MIN_EIGENVALUE = 1e-9  # of the information with unit diagonal, as for one pose; below it a motion is undetermined


@dataclass(frozen=True, eq=False)
class Steps:
    """A step of each pose."""

    xi: Float[Tensor, "*q 6"]  # zero where it is not determined
    length: Float[Tensor, "*q"]  # in standard deviations
    determined: Bool[Tensor, "*q"]


def gauss_newton_steps(
    value: Float[Tensor, "*q p 4"], jacobian: Float[Tensor, "*q p 4 6"], weight: Float[Tensor, "*q p"]
) -> Steps:
    """The steps; padding has the weight zero."""
    weighted = (jacobian * weight[..., None, None]).flatten(-3, -2)
    augmented = torch.cat([jacobian, value[..., None]], -1).flatten(-3, -2)
    information, gradient = (weighted.mT @ augmented).split([6, 1], -1)
    unit, scale, determined = _unit_diagonal(information)
    scaled, _ = torch.linalg.solve_ex(unit, scale * gradient)
    xi = torch.where(determined[..., None], -(scale * scaled)[..., 0], 0.0)
    length = (xi[..., None, :] @ information @ xi[..., None])[..., 0, 0].clamp_min(0).sqrt()
    return Steps(xi, length, determined)


def inverses(information: Float[Tensor, "*q 6 6"]) -> tuple[Float[Tensor, "*q 6 6"], Bool[Tensor, "*q"]]:
    """The inverse of each matrix, zero where it is not determined; and whether it is."""
    unit, scale, determined = _unit_diagonal(information)
    inverse, _ = torch.linalg.inv_ex(unit)
    return torch.where(determined[..., None, None], inverse * scale * scale.mT, 0.0), determined


def _unit_diagonal(
    information: Float[Tensor, "*q 6 6"],
) -> tuple[Float[Tensor, "*q 6 6"], Float[Tensor, "*q 6 1"], Bool[Tensor, "*q"]]:
    """Matrices with a unit diagonal, the scale of each row and column, and whether all motions are determined.

    Where they are not, the matrix is the identity.
    """
    scale = information.diagonal(dim1=-2, dim2=-1).clamp_min(1e-300).rsqrt()[..., None]
    unit = information * scale * scale.mT
    eye = torch.eye(6, dtype=unit.dtype, device=unit.device)
    finite = unit.isfinite().flatten(-2).all(-1)
    shifted = torch.where(finite[..., None, None], unit, 0.0) - MIN_EIGENVALUE * eye
    determined = torch.linalg.cholesky_ex(shifted).info == 0
    return torch.where(determined[..., None, None], unit, eye), scale, determined
