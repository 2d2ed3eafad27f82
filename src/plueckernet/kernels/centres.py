"""The kernels of :meth:`plueckernet.geometry.lines.LineSet.centre` and :mod:`plueckernet.estimation.strays`."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.kernels.library import INTEGER, POINTER, function

_line_centre = function("line_centre", INTEGER, POINTER, POINTER, POINTER)
_centred_distances = function("centred_distances", INTEGER, POINTER, POINTER, POINTER, result=ctypes.c_int)


def line_centre(direction: Float[Tensor, "n 3"], moment: Float[Tensor, "n 3"]) -> Float[Tensor, "3"]:
    """The point nearest to infinite lines in double precision."""
    direction, moment = direction.contiguous(), moment.contiguous()
    centre = torch.empty(3, dtype=torch.float64)
    _line_centre()(len(direction), direction.data_ptr(), moment.data_ptr(), centre.data_ptr())
    return centre


def centred_distances(direction: Float[Tensor, "n 3"], moment: Float[Tensor, "n 3"]) -> Float[Tensor, " n"] | None:
    """Distances of infinite lines from the centre that most of them agree on; None if they are not finite."""
    direction, moment = direction.contiguous(), moment.contiguous()
    distance = torch.empty(len(direction), dtype=torch.float64)
    failed = _centred_distances()(len(direction), direction.data_ptr(), moment.data_ptr(), distance.data_ptr())
    return None if failed else distance
