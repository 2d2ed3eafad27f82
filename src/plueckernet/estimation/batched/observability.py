"""How many inliers resist each motion of many poses: the certificate that all motions are observable."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.batched.lines import take_rows
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.estimation.batched.refinement import BatchedRefinement
from plueckernet.geometry.pose import skew

_MIN_SPREAD, _MIN_EXTENT = 0.1, 0.25  # as in `observability`


def least_firmness(refined: BatchedRefinement, maps: BatchedMaps) -> Float[Tensor, " b"]:
    """The firmness of the motion that fewest inliers resist, see :mod:`plueckernet.estimation.observability`.

    It depends neither on the frame nor on the unit. Small matrices are decomposed faster on the CPU.
    """
    rows, inlier = refined.rows[1], refined.inlier
    weight = inlier.to(maps.unit.dtype)[..., None]
    count = inlier.sum(-1).clamp_min(1)[:, None, None].to(weight.dtype)
    anchor, direction = (take_rows(values, rows) for values in (maps.target.anchor, maps.target.direction))
    offset = (anchor - (anchor * weight).sum(1, keepdim=True) / count) * weight
    direction = direction * weight
    size = (offset.square().sum((1, 2)) / count[:, 0, 0]).sqrt().clamp_min(1e-12)[:, None]
    if maps.target.half_length is None:
        extent = (size / math.sqrt(3)).expand(inlier.shape)
    else:
        half = maps.target.half_length.gather(1, rows)
        extent = torch.maximum(half / math.sqrt(3), _MIN_EXTENT * size)
    points = torch.cat([offset, direction * extent[..., None]], 1)
    spread = points.mT @ points / count
    project = (
        torch.eye(3, dtype=weight.dtype, device=weight.device) - direction[..., :, None] * direction[..., None, :]
    ) * weight[..., None]
    moved = torch.cat([-project @ skew(offset), project], -1).flatten(1, 2)
    turned = (skew(direction) * extent[..., None, None]).flatten(1, 2)
    across = moved.mT @ moved
    across[:, :3, :3] += turned.mT @ turned
    return _firmness(spread.cpu(), across.cpu())


def _firmness(spread: Float[Tensor, "b 3 3"], across: Float[Tensor, "b 6 6"]) -> Float[Tensor, " b"]:
    """The smallest generalized eigenvalue of ``A`` and ``B``."""
    eye = torch.eye(3, dtype=spread.dtype)
    spread = spread + _MIN_SPREAD**2 * torch.linalg.eigvalsh(spread)[:, -1:, None] * eye
    inertia = spread.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None] * eye - spread
    values, vectors = torch.linalg.eigh(inertia)
    whitening = torch.zeros_like(across)
    whitening[:, :3, :3], whitening[:, 3:, 3:] = vectors * values.clamp_min(1e-300).rsqrt()[:, None], eye
    return torch.linalg.eigvalsh(whitening.mT @ across @ whitening)[:, 0]
