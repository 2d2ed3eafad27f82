"""The kernel of :mod:`plueckernet.estimation.observability`."""

from __future__ import annotations

import ctypes

from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function

_all_motions_firm = function(
    "all_motions_firm", INTEGER, POINTER, POINTER, POINTER, POINTER, DOUBLE, result=ctypes.c_int
)


def all_motions_firm(
    anchor: Float[Tensor, "n 3"],
    direction: Float[Tensor, "n 3"],
    half_length: Float[Tensor, " n"] | None,
    rows: Int[Tensor, " k"],
    least: float,
) -> bool:
    """Whether more than ``least`` of some lines, in double precision, resist each motion; if not, they still may."""
    arrays = [values.contiguous() for values in (rows, anchor, direction)]
    pointers = [values.data_ptr() for values in arrays]
    half_length = None if half_length is None else half_length.contiguous()
    half_pointer = None if half_length is None else half_length.data_ptr()
    return bool(_all_motions_firm()(len(rows), *pointers, half_pointer, least))
