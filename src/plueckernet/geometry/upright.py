r"""Rotations about a known vertical ``u``.

``R(a) = cos a I + sin a [u]x + (1 - cos a) u u^T``. Of any rotation ``Q``, the nearest one about ``u`` maximises
``tr(R(a)^T Q) = cos a (tr Q - u^T Q u) + sin a (u . q) + u^T Q u`` with ``q`` the vector of ``Q - Q^T``, so that
``a = atan2(u . q, tr Q - u^T Q u)``.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.geometry.pose import skew


def turn_about(up: Float[Tensor, "3"], angle: Float[Tensor, "*batch"]) -> Float[Tensor, "*batch 3 3"]:
    """The rotation by each angle about ``up``."""
    cosine, sine = angle.cos()[..., None, None], angle.sin()[..., None, None]
    eye = torch.eye(3, dtype=up.dtype, device=up.device)
    return cosine * eye + sine * skew(up) + (1 - cosine) * up[:, None] * up


def nearest_turn(rotation: Float[Tensor, "*batch 3 3"], up: Float[Tensor, "3"]) -> Float[Tensor, "*batch 3 3"]:
    """The rotation about ``up`` that is nearest to each rotation."""
    kept = ((rotation @ up) * up).sum(-1)
    twisted = (rotation - rotation.mT).flatten(-2) @ skew(up).flatten() / 2
    trace = rotation.diagonal(dim1=-2, dim2=-1).sum(-1)
    return turn_about(up, torch.atan2(twisted, trace - kept))


def tilt_cosine(rotation: Float[Tensor, "*batch 3 3"], up: Float[Tensor, "3"]) -> Float[Tensor, "*batch"]:
    """Cosine of the angle by which each rotation tilts the vertical."""
    return ((rotation @ up) * up).sum(-1)


def heading(direction: Float[Tensor, "*batch 3"], up: Float[Tensor, "3"]) -> Float[Tensor, "*batch"]:
    """The angle of each direction about ``up``, from an axis that depends on ``up`` only; of a vertical one, any."""
    axis = torch.eye(3, dtype=up.dtype, device=up.device)[int(up.abs().argmin())]
    first = normalize(axis - (axis @ up) * up, dim=0)
    return torch.atan2(direction @ torch.linalg.cross(up, first), direction @ first)


def allowed_motions(jacobian: Float[Tensor, "*batch 6"], up: Float[Tensor, "3"]) -> Float[Tensor, "*batch 6"]:
    """Derivatives by ``xi = (omega, tau)`` where ``omega`` is kept along ``up``."""
    turn = (jacobian[..., :3] @ up)[..., None] * up
    return torch.cat([turn, jacobian[..., 3:]], -1)
