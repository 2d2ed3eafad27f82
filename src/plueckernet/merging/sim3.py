r"""Similarities as matrices ``[[s R, t], [0, 1]]``, in batches; a pose is one with ``s = 1``.

Tangent vectors are ``xi = (omega, tau, sigma)``, with ``log s = sigma``, as for
:class:`plueckernet.geometry.Similarity`. The graph works on matrices because it inverts, composes and differentiates
many at once, and because the same code then serves rigid graphs: their seventh component is zero.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.geometry import Pose, Similarity
from plueckernet.geometry.pose import rotation_exp, rotation_log, skew

Matrices = Float[Tensor, "*batch 4 4"]


def scales(matrices: Matrices) -> Float[Tensor, "*batch"]:
    """The scale of each similarity."""
    return torch.linalg.det(matrices[..., :3, :3]).clamp_min(1e-300).pow(1 / 3)


def assemble(
    scale: Float[Tensor, "*batch"], rotation: Float[Tensor, "*batch 3 3"], translation: Float[Tensor, "*batch 3"]
) -> Matrices:
    """Matrices of these."""
    top = torch.cat([scale[..., None, None] * rotation, translation[..., None]], -1)
    bottom = top.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(*top.shape[:-2], 1, 4)
    return torch.cat([top, bottom], -2)


def inverse(matrices: Matrices) -> Matrices:
    """``a_T_b -> b_T_a``."""
    scale = scales(matrices)
    back = matrices[..., :3, :3].mT / scale[..., None, None]
    moved = (back @ matrices[..., :3, 3:])[..., 0] / scale[..., None]
    return assemble(1 / scale, back, -moved)


def exp(xi: Float[Tensor, "*batch 7"]) -> Matrices:
    """The similarity reached by following ``xi`` for unit time."""
    omega, tau, sigma = xi[..., :3], xi[..., 3:6], xi[..., 6]
    moved = (_translation_jacobian(omega, sigma) @ tau[..., None])[..., 0]
    return assemble(sigma.exp(), rotation_exp(omega), moved)


def log(matrices: Matrices) -> Float[Tensor, "*batch 7"]:
    """The tangent vector whose :func:`exp` is each similarity."""
    scale = scales(matrices)
    omega, sigma = rotation_log(matrices[..., :3, :3] / scale[..., None, None]), scale.log()
    tau = torch.linalg.solve(_translation_jacobian(omega, sigma), matrices[..., :3, 3:])[..., 0]
    return torch.cat([omega, tau, sigma[..., None]], -1)


def adjoint(matrices: Matrices) -> Float[Tensor, "*batch 7 7"]:
    """``Ad`` with ``T exp(xi) = exp(Ad xi) T``: ``tau' = s R tau + t x R omega - sigma t``."""
    rotation, translation = matrices[..., :3, :3] / scales(matrices)[..., None, None], matrices[..., :3, 3]
    result = matrices.new_zeros(*matrices.shape[:-2], 7, 7)
    result[..., :3, :3] = rotation
    result[..., 3:6, :3] = skew(translation) @ rotation
    result[..., 3:6, 3:6] = matrices[..., :3, :3]
    result[..., 3:6, 6] = -translation
    result[..., 6, 6] = 1.0
    return result


def inverse_left_jacobian(xi: Float[Tensor, "*batch 7"]) -> Float[Tensor, "*batch 7 7"]:
    """``J`` with ``log(exp(delta) exp(xi)) = xi + J delta`` to first order: ``I - ad/2 + ad^2/12``.

    The next term is ``ad^4/720``; the residuals of accepted edges are far below one.
    """
    ad = _lie_bracket(xi)
    eye = torch.eye(7, dtype=xi.dtype)
    return eye - ad / 2 + ad @ ad / 12


def moved_covariance(matrices: Matrices, covariance: Float[Tensor, "*batch 7 7"]) -> Float[Tensor, "*batch 7 7"]:
    """The covariance of ``xi`` in the frame that the similarity leads to."""
    change = adjoint(matrices)
    return change @ covariance @ change.mT


def as_motion(matrix: Float[Tensor, "4 4"], rigid: bool) -> Pose | Similarity:
    """The matrix as a value that moves lines and points."""
    scale = scales(matrix)
    pose = Pose(matrix[:3, :3] / scale, matrix[:3, 3])
    return pose if rigid else Similarity.from_pose(pose, float(scale))


def _lie_bracket(xi: Float[Tensor, "*batch 7"]) -> Float[Tensor, "*batch 7 7"]:
    """``ad`` with ``ad(a) b = [a, b]``."""
    omega, tau, sigma = xi[..., :3], xi[..., 3:6], xi[..., 6]
    result = xi.new_zeros(*xi.shape[:-1], 7, 7)
    result[..., :3, :3] = skew(omega)
    result[..., 3:6, :3] = skew(tau)
    result[..., 3:6, 3:6] = skew(omega) + sigma[..., None, None] * torch.eye(3, dtype=xi.dtype)
    result[..., 3:6, 6] = -tau
    return result


def _translation_jacobian(
    omega: Float[Tensor, "*batch 3"], sigma: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch 3 3"]:
    """``V`` with ``t = V tau``: the integral of ``exp(u ([omega]x + sigma I))`` over ``u`` in [0, 1]."""
    eye = torch.eye(3, dtype=omega.dtype).expand(*omega.shape[:-1], 3, 3)
    generator = torch.cat([skew(omega) + sigma[..., None, None] * eye, eye], -1)
    return torch.linalg.matrix_exp(torch.cat([generator, torch.zeros_like(generator)], -2))[..., :3, 3:]
