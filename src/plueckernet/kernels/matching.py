"""The kernel of :func:`plueckernet.estimation.matching.putative_matches`."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import INTEGER, POINTER, function

_largest_entries = function(
    "largest_entries", INTEGER, INTEGER, POINTER, INTEGER, POINTER, POINTER, POINTER, result=ctypes.c_int
)


def largest_entries(
    matrix: Float[Tensor, "m n"], wanted: int
) -> tuple[Float[Tensor, " k"], Int[Tensor, " k"], Int[Tensor, " k"]]:
    """The largest numbers of a matrix of less than 2**31, the largest first, and their rows and columns.

    Those that are not finite count as minus infinity.
    """
    matrix = matrix.contiguous()
    rows, columns = matrix.shape
    wanted = min(wanted, rows * columns)
    largest, places = torch.empty(wanted), torch.empty(2, wanted, dtype=torch.int64)
    pointers = largest.data_ptr(), places.data_ptr(), places.data_ptr() + 8 * wanted
    if _largest_entries()(rows, columns, matrix.data_ptr(), wanted, *pointers):
        raise MemoryError
    return largest, places[0], places[1]
