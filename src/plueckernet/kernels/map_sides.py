"""The kernels of :mod:`plueckernet.estimation.verification`."""

from __future__ import annotations

import ctypes
import weakref

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function
from plueckernet.kernels.partners import LineArrays

_LINES = INTEGER, POINTER, POINTER, POINTER
_new = function("map_side_new", *_LINES, *_LINES, DOUBLE, DOUBLE, ctypes.c_int, DOUBLE, DOUBLE, result=POINTER)
_free = function("map_side_free", POINTER)
_explained = function(
    "map_sides_explained",
    *(POINTER, POINTER),
    *(INTEGER, POINTER, POINTER),
    *(INTEGER, INTEGER, POINTER),
    result=ctypes.c_int,
)
_fits = function("map_side_fits", *(POINTER, POINTER), INTEGER, *(POINTER,) * 4, result=ctypes.c_int)


class MapSide:
    """One of two maps, kept by the library: its lines, their weights and where they find partners."""

    def __init__(
        self,
        lines: LineArrays,
        partners: LineArrays,
        threshold: tuple[float, float, bool],
        bundle_distance: float,
        cell_size: float,
    ) -> None:
        """Of segments, or of infinite lines, which are their own partners; a threshold is distance, angle, directed."""
        arrays = [None if tensor is None else tensor.contiguous() for tensor in (*lines, *partners)]
        pointers = [None if tensor is None else tensor.data_ptr() for tensor in arrays]
        sides = len(lines.anchor), *pointers[:3], len(partners.anchor), *pointers[3:]
        self.address, self.count = _new()(*sides, *threshold, bundle_distance, cell_size), len(lines.anchor)
        if not self.address:
            raise MemoryError
        weakref.finalize(self, _free(), self.address)


def explained_sums(
    source: MapSide,
    target: MapSide,
    pose: tuple[Float[Tensor, "h 3 3"], Float[Tensor, "h 3"]],
    counts: tuple[int, int],
) -> Float[Tensor, "4 h"]:
    """Explained lines of source and target, and expected ones, under each pose: sums over some lines of each map."""
    rotation, translation = (value.contiguous() for value in pose)
    sums = torch.empty(4, len(rotation))
    failed = _explained()(
        *(source.address, target.address),
        *(len(rotation), rotation.data_ptr(), translation.data_ptr()),
        *(*counts, sums.data_ptr()),
    )
    if failed:
        raise MemoryError
    return sums


def segment_fits(
    side: MapSide, other: MapSide, pose: tuple[Float[Tensor, "h 3 3"], Float[Tensor, "h 3"]]
) -> tuple[Float[Tensor, "h n"], Float[Tensor, "h n"]]:
    """How well each segment of a map fits the best of the other, moved by each pose, and how far it is covered."""
    rotation, translation = (value.contiguous() for value in pose)
    fits, covered = torch.empty(2, len(rotation), side.count)
    pointers = (value.data_ptr() for value in (rotation, translation, fits, covered))
    if _fits()(side.address, other.address, len(rotation), *pointers):
        raise MemoryError
    return fits, covered
