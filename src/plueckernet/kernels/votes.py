"""The kernel of the votes for translations of :mod:`plueckernet.estimation.direction_search`."""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, FLOAT, INTEGER, POINTER, function
from plueckernet.kernels.partners import LineArrays

_LINES = INTEGER, POINTER, POINTER, POINTER
_vote_peaks = function(
    "vote_peaks",
    *(INTEGER, POINTER),
    *_LINES,
    *_LINES,
    *(FLOAT, DOUBLE, ctypes.c_int),
    *(INTEGER, INTEGER, POINTER, POINTER, POINTER),
    result=ctypes.c_int,
)


def vote_peaks(
    rotations: Float[Tensor, "r 3 3"],
    source: LineArrays,
    target: LineArrays,
    cell_size: float,
    parallel: tuple[float, bool],
    limits: tuple[int, int],
) -> tuple[Float[Tensor, " p"], Float[Tensor, "p 3"], Int[Tensor, " r"]]:
    """Excess over chance and cells of the peaks of all rotations, and the number of each.

    ``parallel`` is the angle of parallel lines and whether they have a sign; ``limits`` are of the peaks, and of
    the rows of the grid that they are searched in.
    """
    arrays = [None if tensor is None else tensor.contiguous() for tensor in (rotations, *source, *target)]
    pointers = [None if tensor is None else tensor.data_ptr() for tensor in arrays]
    excess, cells = torch.empty(len(rotations), limits[0]), torch.empty(len(rotations), limits[0], 3)
    counts = torch.empty(len(rotations), dtype=torch.int64)
    failed = _vote_peaks()(
        *(len(rotations), pointers[0], len(source.anchor), *pointers[1:4], len(target.anchor), *pointers[4:]),
        *(cell_size, *parallel, *limits),
        *(excess.data_ptr(), cells.data_ptr(), counts.data_ptr()),
    )
    if failed:
        raise MemoryError
    is_peak = torch.arange(limits[0]) < counts[:, None]
    return excess[is_peak], cells[is_peak], counts
