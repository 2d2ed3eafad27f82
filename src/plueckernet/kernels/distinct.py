"""The kernel of :mod:`plueckernet.estimation.distinct`."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import FLOAT, INTEGER, POINTER, function

_distinct_poses = function("distinct_poses", INTEGER, POINTER, POINTER, FLOAT, FLOAT, INTEGER, POINTER, result=INTEGER)


def distinct_rows(
    rotation: Float[Tensor, "h 3 3"],
    translation: Float[Tensor, "h 3"],
    limits: tuple[float, float],
    max_count: int,
) -> Int[Tensor, " k"]:
    """Greedily the first poses that are close to none before them; ``limits`` are a trace and a squared distance."""
    rotation, translation = rotation.contiguous(), translation.contiguous()
    chosen = torch.empty(min(max_count, len(rotation)), dtype=torch.int64)
    pointers = rotation.data_ptr(), translation.data_ptr()
    count = _distinct_poses()(len(rotation), *pointers, *limits, len(chosen), chosen.data_ptr())
    return chosen[:count]
