"""The kernels of :meth:`plueckernet.geometry.lines.LineSet.centre` and :mod:`plueckernet.estimation.strays`."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function

_line_centre = function("line_centre", INTEGER, POINTER, POINTER, POINTER)
_centred_distances = function("centred_distances", INTEGER, *(POINTER,) * 4, result=ctypes.c_int)

_line_extent = function("line_extent", INTEGER, POINTER, POINTER, DOUBLE, result=DOUBLE)


def line_extent(direction: Float[Tensor, "n 3"], moment: Float[Tensor, "n 3"], fraction: float) -> float:
    """A quantile of the distances of infinite lines in double precision from their centre; NaN if not finite."""
    direction, moment = direction.contiguous(), moment.contiguous()
    return float(_line_extent()(len(direction), direction.data_ptr(), moment.data_ptr(), fraction))


def line_centre(direction: Float[Tensor, "n 3"], moment: Float[Tensor, "n 3"]) -> Float[Tensor, "3"]:
    """The point nearest to infinite lines in double precision."""
    direction, moment = direction.contiguous(), moment.contiguous()
    centre = torch.empty(3, dtype=torch.float64)
    _line_centre()(len(direction), direction.data_ptr(), moment.data_ptr(), centre.data_ptr())
    return centre


def centred_distances(
    direction: Float[Tensor, "n 3"], moment: Float[Tensor, "n 3"]
) -> tuple[Float[Tensor, " n"], float, float] | None:
    """Distances of infinite lines from the centre that most of them agree on, their median and the largest.

    None if they are not finite.
    """
    direction, moment = direction.contiguous(), moment.contiguous()
    distance, summary = torch.empty(len(direction), dtype=torch.float64), (ctypes.c_double * 2)()
    pointers = direction.data_ptr(), moment.data_ptr(), distance.data_ptr()
    failed = _centred_distances()(len(direction), *pointers, ctypes.addressof(summary))
    return None if failed else (distance, summary[0], summary[1])
