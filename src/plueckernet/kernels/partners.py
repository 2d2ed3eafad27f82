"""The kernel of :mod:`plueckernet.estimation.partners`."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, FLOAT, INTEGER, POINTER, function

_LINES = INTEGER, POINTER, POINTER, POINTER
_THRESHOLD = FLOAT, FLOAT, FLOAT, ctypes.c_int
_best_partners = function(
    "best_partners",
    *(INTEGER, POINTER, POINTER),
    *_LINES,
    *_LINES,
    *_THRESHOLD,
    *(POINTER, POINTER, POINTER, POINTER),
    result=ctypes.c_int,
)
_line_spacing = function("line_spacing", *_LINES, INTEGER, DOUBLE, DOUBLE, result=DOUBLE)


class LineArrays(NamedTuple):
    """Lines in single precision."""

    anchor: Float[Tensor, "n 3"]
    direction: Float[Tensor, "n 3"]
    half_length: Float[Tensor, " n"] | None  # None for infinite lines


class Partners(NamedTuple):
    """The best partner of each line of two maps under poses."""

    square: Float[Tensor, "h m"]  # squared residual of each source line and its best partner
    nearest: Int[Tensor, "h m"]  # row of the target
    target_square: Float[Tensor, "h n"]
    target_nearest: Int[Tensor, "h n"]


def best_squares(
    pose: tuple[Float[Tensor, "h 3 3"], Float[Tensor, "h 3"]],
    source: LineArrays,
    target: LineArrays,
    threshold: tuple[float, float, float, bool],
) -> Float[Tensor, "h m"]:
    """Squared residual of each source line and its best partner; a threshold is distance, angle, slope, directed."""
    square = torch.empty(len(pose[0]), len(source.anchor))
    _call(pose, source, target, threshold, (square, None, None, None))
    return square


def partners(
    pose: tuple[Float[Tensor, "h 3 3"], Float[Tensor, "h 3"]],
    source: LineArrays,
    target: LineArrays,
    threshold: tuple[float, float, float, bool],
) -> Partners:
    """The best partners of the lines of both maps."""
    shape, other_shape = (len(pose[0]), len(source.anchor)), (len(pose[0]), len(target.anchor))
    result = Partners(
        torch.empty(shape),
        torch.empty(shape, dtype=torch.int64),
        torch.empty(other_shape),
        torch.empty(other_shape, dtype=torch.int64),
    )
    _call(pose, source, target, threshold, result)
    return result


def _call(
    pose: tuple[Tensor, Tensor],
    source: LineArrays,
    target: LineArrays,
    threshold: tuple[float, float, float, bool],
    results: tuple[Tensor | None, ...],
) -> None:
    arrays = [None if tensor is None else tensor.contiguous() for tensor in (*pose, *source, *target)]
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in arrays]
    counts = len(pose[0]), len(source.anchor), len(target.anchor)
    failed = _best_partners()(
        *(counts[0], *pointers[:2], counts[1], *pointers[2:5], counts[2], *pointers[5:]),
        *threshold,
        *(None if result is None else result.data_ptr() for result in results),
    )
    if failed:
        raise MemoryError


def line_spacing(
    anchor: Float[Tensor, "n 3"],
    direction: Float[Tensor, "n 3"],
    half_length: Float[Tensor, " n"] | None,
    sampled: int,
    limits: tuple[float, float],
) -> float:
    """Median residual of so many lines, in double precision, and the nearest other one; limits: distance and angle."""
    arrays = [None if values is None else values.contiguous() for values in (anchor, direction, half_length)]
    pointers = (None if values is None else values.data_ptr() for values in arrays)
    return float(_line_spacing()(len(anchor), *pointers, sampled, *limits))
