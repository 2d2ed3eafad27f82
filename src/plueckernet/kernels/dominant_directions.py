"""The kernels of the directions of lines in :mod:`plueckernet.estimation.direction_search`."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.kernels.library import FLOAT, INTEGER, POINTER, function

_WEIGHTED = INTEGER, POINTER, POINTER
_dominant_directions = function(
    "dominant_directions", *_WEIGHTED, *(FLOAT, FLOAT, FLOAT), *(INTEGER, POINTER), result=INTEGER
)
_direction_agreement = function(
    "direction_agreement", *(INTEGER, POINTER), *_WEIGHTED, *_WEIGHTED, *(FLOAT, POINTER), result=ctypes.c_int
)

WeightedDirections = tuple[Float[Tensor, "_ 3"], Float[Tensor, " _"]]


def dominant_directions(
    lines: WeightedDirections, sigma: float, least: float, max_cosine: float, max_count: int
) -> Float[Tensor, "m 3"]:
    """Modes of more than the ``least`` weight; lines that are no less parallel than ``max_cosine`` count for one."""
    direction, weight = (value.contiguous() for value in lines)
    modes = torch.empty(max_count, 3)
    limits = 0.5 / sigma**2, least, max_cosine, max_count
    count = _dominant_directions()(len(direction), direction.data_ptr(), weight.data_ptr(), *limits, modes.data_ptr())
    if count < 0:
        raise MemoryError
    return modes[:count]


def direction_agreement(
    rotations: Float[Tensor, "r 3 3"], source: WeightedDirections, target: WeightedDirections, sigma: float
) -> Float[Tensor, " r"]:
    """How much of the source's lines each rotation makes parallel to the target's."""
    arrays = [value.contiguous() for value in (rotations, *source, *target)]
    pointers = [array.data_ptr() for array in arrays]
    agreement = torch.empty(len(rotations))
    counted = len(rotations), pointers[0], len(source[0]), *pointers[1:3], len(target[0]), *pointers[3:]
    if _direction_agreement()(*counted, 0.5 / sigma**2, agreement.data_ptr()):
        raise MemoryError
    return agreement
