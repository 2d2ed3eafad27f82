"""The kernels of the lines that vote in :mod:`plueckernet.estimation.direction_search`, and of their pairs."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import FLOAT, INTEGER, POINTER, function
from plueckernet.kernels.partners import LineArrays

_LINES = INTEGER, POINTER, POINTER, POINTER
_bundle_heads = function("bundle_heads", *_LINES, *(FLOAT, FLOAT, INTEGER, POINTER), result=INTEGER)
_move_to_pairs = function(
    "move_to_pairs",
    *(INTEGER, POINTER, POINTER),
    *_LINES,
    *_LINES,
    *(FLOAT, FLOAT, INTEGER, POINTER, FLOAT),
    result=ctypes.c_int,
)


def bundle_heads(lines: LineArrays, limits: tuple[float, float], max_count: int) -> Int[Tensor, " k"]:
    """Rows of the first lines that are close to none before them; ``limits`` are a distance and an angle."""
    arrays = [None if tensor is None else tensor.contiguous() for tensor in lines]
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in arrays]
    heads = torch.empty(min(max_count, len(lines.anchor)), dtype=torch.int64)
    count = _bundle_heads()(len(lines.anchor), *pointers, *limits, len(heads), heads.data_ptr())
    if count < 0:
        raise MemoryError
    return heads[:count]


def moved_translations(
    pose: tuple[Float[Tensor, "h 3 3"], Float[Tensor, "h 3"]],
    source: LineArrays,
    target: LineArrays,
    limits: tuple[float, float],
    widths: list[float],
    damping: float,
) -> Float[Tensor, "h 3"]:
    """Translations at the damped least-squares solution of close pairs, after a step with a kernel of each width."""
    translation = pose[1].clone(memory_format=torch.contiguous_format)
    tensors = (pose[0], translation, *source, *target)
    arrays = [None if tensor is None else tensor.contiguous() for tensor in tensors]
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in arrays]
    failed = _move_to_pairs()(
        *(len(translation), *pointers[:2], len(source.anchor), *pointers[2:5], len(target.anchor), *pointers[5:]),
        *(*limits, len(widths), (FLOAT * len(widths))(*widths), damping),
    )
    if failed:
        raise MemoryError
    return translation
