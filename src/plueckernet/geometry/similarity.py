"""Motions from matrices that may or may not change the scale."""

from __future__ import annotations

import torch

from plueckernet.geometry.arrays import ArrayLike, as_floats
from plueckernet.geometry.pose import Pose, Similarity

__all__ = ["Similarity", "Transform", "motion_from_matrix"]

Transform = Pose | Similarity
_RIGID = 1e-5  # difference of the scale from one, up to which a matrix of rounded numbers is a rigid motion


def motion_from_matrix(matrix: ArrayLike) -> Transform:
    """A pose where the scale is one, otherwise a similarity; anything else raises :class:`InputError`."""
    values = as_floats(matrix, "matrix", (4, 4))
    if abs(float(torch.linalg.det(values[:3, :3])) - 1) < 3 * _RIGID:
        return Pose.from_matrix(values)
    return Similarity.from_matrix(values)
