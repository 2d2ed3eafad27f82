"""The kernels of :mod:`plueckernet.estimation.close_pairs`."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function

_close_pairs = function(
    "close_pairs", POINTER, POINTER, POINTER, POINTER, INTEGER, POINTER, result=INTEGER
)  # fmt: skip
_still_close = function("still_close", POINTER, INTEGER, *[POINTER] * 5, result=INTEGER)
_largest_shift = function("largest_shift", POINTER, POINTER, INTEGER, POINTER, result=DOUBLE)
_PAIRS_PER_LINE = 4  # room for so many; more are counted, and then there is a second call

_POSE = DOUBLE * 12
_Pose = tuple[float, ...]
"""The rotation row by row, then the translation."""
Lines = tuple[Float[Tensor, "_ 3"], Float[Tensor, "_ 3"], Float[Tensor, " _"] | None]
"""Directions, anchors and half lengths, which infinite lines do not have."""


class Limits(ctypes.Structure):
    """An inlier threshold."""

    _fields_ = [("distance", DOUBLE), ("angle", DOUBLE), ("slope", DOUBLE), ("directed", INTEGER)]


class _MapLines(ctypes.Structure):
    _fields_ = [("count", INTEGER), ("direction", POINTER), ("anchor", POINTER), ("half_length", POINTER)]


def close_rows(pose: _Pose, source: Lines, target: Lines, limits: Limits) -> Int[Tensor, "k 2"]:
    """Rows of all pairs of lines within the limits, by the source."""
    sides = [[None if x is None else x.double().contiguous() for x in side] for side in (source, target)]
    lines = [
        _MapLines(len(side[0]), *(None if x is None else x.data_ptr() for x in side))  # type: ignore[arg-type]
        for side in sides
    ]
    arguments = _POSE(*pose), ctypes.byref(lines[0]), ctypes.byref(lines[1]), ctypes.byref(limits)
    capacity = _PAIRS_PER_LINE * (lines[0].count + lines[1].count)
    while True:
        rows = torch.empty(capacity, 2, dtype=torch.int64)
        count = _close_pairs()(*arguments, capacity, rows.data_ptr())
        if count < 0:
            raise MemoryError
        if count <= capacity:
            return rows[:count]
        capacity = count


def close_places(
    pose: _Pose,
    source: Float[np.ndarray, "8 k"],
    target: Float[np.ndarray, "8 k"],
    half_lengths: Float[np.ndarray, " k"] | None,
    limits: Limits,
) -> Int[np.ndarray, " c"]:
    """Which pairs of lines, columns of directions, anchors and more, are within the limits."""
    places = np.empty(source.shape[1], dtype=np.int64)
    half = None if half_lengths is None else half_lengths.ctypes.data
    sides = source.ctypes.data, target.ctypes.data
    count = _still_close()(
        _POSE(*pose), len(places), *sides, half, ctypes.byref(limits), places.ctypes.data
    )  # fmt: skip
    return places[:count]


def largest_shift(pose: _Pose, other: _Pose, points: Float[np.ndarray, "3 n"]) -> float:
    """The largest squared distance between where two poses take points."""
    square: float = _largest_shift()(_POSE(*pose), _POSE(*other), points.shape[1], points.ctypes.data)
    return square
