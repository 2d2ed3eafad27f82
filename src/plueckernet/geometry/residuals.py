r"""Line-to-line residuals in the unit of the map and in radians, their Jacobians and their noise.

For a source line moved by the pose (point ``p'``, direction ``d'`` with the sign of the target's) and a target
line with anchor ``q`` and direction ``e``, in a basis ``B = (b1, b2)`` orthogonal to ``e``:

* position ``B^T (x - q)``, where ``x = p' + s d'`` is the intersection of the moved line with the plane through ``q``
  orthogonal to ``e``;
* direction ``B^T d'``.

Under the left perturbation ``exp(xi) T``, ``xi = (omega, tau)``, a point moves by ``tau + omega x x`` and a direction
by ``omega x d'``, hence ``d position = P (tau - [x]x omega)`` with ``P = B^T (I - d' e^T / (e . d'))`` and
``d direction = -B^T [d']x omega``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose


@dataclass(frozen=True)
class NoiseModel:
    """Standard deviations of a reconstructed line from the true one.

    The anchor has the error ``position`` and the direction the error ``direction``, independently on each of the two
    axes orthogonal to the line. The direction of a segment has an additional error from its endpoints, inversely
    proportional to its length.
    """

    position: float = 0.05  # in the unit of the map, one sigma per axis
    direction: float = math.radians(2.0) / math.sqrt(
        3.0
    )  # rad, one sigma per axis; a rotation of 2 degrees about a random axis
    endpoint: float = 0.0  # in the unit of the map; of each endpoint of a segment, orthogonal to it

    def sigmas(self, lines: LineSet) -> tuple[Float[Tensor, "*batch n"], Float[Tensor, "*batch n"]]:
        """Position and direction sigma of each line."""
        unit = torch.ones_like(lines.direction[..., 0])
        if lines.endpoints is None or not self.endpoint:
            return self.position * unit, self.direction * unit
        slope = math.sqrt(2) * self.endpoint / lines.lengths().clamp_min(1e-12)
        return self.position * unit, (slope.square() + self.direction**2).sqrt()


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of matched lines under one pose or a batch of poses."""

    position: Float[Tensor, "*batch n 2"]  # in the unit of the map
    direction: Float[Tensor, "*batch n 2"]  # sine, close to radians
    lever: Float[Tensor, "*batch n"]  # from the source anchor to the intersection ``x``, along the source line
    position_jacobian: Float[Tensor, "*batch n 2 6"]
    direction_jacobian: Float[Tensor, "*batch n 2 6"]

    def __getitem__(self, rows: Bool[Tensor, " n"]) -> Residuals:
        """Residuals of a subset of the matches under one pose."""
        index = rows.nonzero()[:, 0]
        return Residuals(*(getattr(self, field.name)[index] for field in fields(self)))


def line_residuals(
    pose: Pose,
    source: LineSet,
    target: LineSet,
    source_anchor: Float[Tensor, "*lines n 3"],
    target_anchor: Float[Tensor, "*lines n 3"],
) -> Residuals:
    """Residuals and Jacobians (formulas in the module docstring) of lines matched row by row, signs ignored."""
    e, q = target.direction, target_anchor  # (n, 3)
    point = pose.act(source_anchor)  # (*batch, n, 3)
    turned = source.direction @ pose.rotation.mT
    cosine = (turned * e).sum(-1, keepdim=True)
    turned = torch.where(cosine < 0, -turned, turned)
    cosine = cosine.abs().clamp_min(1e-6)
    lever = ((q - point) * e).sum(-1, keepdim=True) / cosine
    crossing = point + lever * turned
    across = _orthogonal_basis(e)  # (n, 2, 3)
    tilt = (across * turned[..., None, :]).sum(-1)  # (*batch, n, 2)
    project = across - tilt[..., None] * (e / cosine)[..., None, :]  # (*batch, n, 2, 3)
    # For a row p of a 2x3 block, -p^T [x]x = (x x p)^T.
    turn = torch.linalg.cross(turned[..., None, :], across.expand_as(project))
    return Residuals(
        position=(across * (crossing - q)[..., None, :]).sum(-1),
        direction=tilt,
        lever=lever[..., 0],
        position_jacobian=torch.cat([torch.linalg.cross(crossing[..., None, :], project), project], -1),
        direction_jacobian=torch.cat([turn, torch.zeros_like(turn)], -1),
    )


def residual_norms(
    pose: Pose,
    source_direction: Float[Tensor, "n 3"],
    source_anchor: Float[Tensor, "n 3"],
    target_direction: Float[Tensor, "n 3"],
    target_anchor: Float[Tensor, "n 3"],
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """The norms of both residuals of :func:`line_residuals`, which need no basis: those of cross products."""
    gap = pose.act(source_anchor) - target_anchor
    turned = source_direction @ pose.rotation.mT
    cosine = (turned * target_direction).sum(-1)
    cosine = torch.where(cosine < 0, cosine.clamp_max(-1e-6), cosine.clamp_min(1e-6))
    lever = (gap * target_direction).sum(-1) / cosine
    position = torch.linalg.cross(gap - lever[:, None] * turned, target_direction)
    direction = torch.linalg.cross(turned, target_direction)
    return torch.linalg.vector_norm(position, dim=-1), torch.linalg.vector_norm(direction, dim=-1)


def whitened(
    residuals: Residuals,
    gain: Float[Tensor, "*batch n"],
    position_var: Float[Tensor, "*batch n"],
    direction_var: Float[Tensor, "*lines n"],
) -> tuple[Float[Tensor, "*batch n 4"], Float[Tensor, "*batch n 4 6"]]:
    r"""Residuals and Jacobians with unit covariance.

    On each axis, the source's direction error acts on both residuals; on the position it acts through the lever ``s``:

        cov = [[sp^2 + tp^2 + s^2 sd^2,  s sd^2], [s sd^2,  sd^2 + td^2]]

    with ``sp, sd`` and ``tp, td`` the sigmas of source and target. :func:`variances` gives its inverse square
    root by conditioning the position on the direction.
    """
    gain, scale = gain[..., None], position_var.rsqrt()[..., None]
    turn = direction_var.rsqrt()[..., None]
    value = torch.cat([(residuals.position - gain * residuals.direction) * scale, residuals.direction * turn], -1)
    jacobian = torch.cat(
        [
            (residuals.position_jacobian - gain[..., None] * residuals.direction_jacobian) * scale[..., None],
            residuals.direction_jacobian * turn[..., None],
        ],
        -2,
    )
    return value, jacobian


def variances(
    residuals: Residuals,
    source_sigma: tuple[Float[Tensor, "*lines n"], Float[Tensor, "*lines n"]],
    target_sigma: tuple[Float[Tensor, "*lines n"], Float[Tensor, "*lines n"]],
) -> tuple[Float[Tensor, "*batch n"], Float[Tensor, "*batch n"], Float[Tensor, "*lines n"]]:
    """Gain of the position on the direction, its variance given the direction, and the direction's variance."""
    (sp, sd), (tp, td) = source_sigma, target_sigma
    direction = sd.square() + td.square()
    gain = residuals.lever * sd.square() / direction
    position = sp.square() + tp.square() + residuals.lever.square() * sd.square() * (td.square() / direction)
    return gain, position, direction


def _orthogonal_basis(direction: Float[Tensor, "*batch 3"]) -> Float[Tensor, "*batch 2 3"]:
    """Two orthonormal vectors orthogonal to each direction: rows of the reflection that maps it to the nearer z axis.

    ``I - v v^T / (1 + |z|)`` with ``v = e + sign(z) e_z``; continuous except on the plane z = 0.
    """
    pole = direction.new_tensor([0.0, 0.0, 1.0])
    z = direction[..., 2:]
    normal = direction + torch.where(z < 0, -pole, pole)
    outer = normal[..., :2, None] * (normal / (1 + z.abs()))[..., None, :]
    return torch.eye(2, 3, dtype=direction.dtype, device=direction.device) - outer
