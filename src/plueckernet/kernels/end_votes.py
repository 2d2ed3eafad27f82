"""The kernel of the votes of ends of :mod:`plueckernet.estimation.turn_search`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import INTEGER, POINTER, function

_end_vote_peaks = function(
    "end_vote_peaks",
    *(INTEGER, POINTER, INTEGER, POINTER, INTEGER, POINTER),
    *(INTEGER, INTEGER, INTEGER, INTEGER, POINTER),
    *(INTEGER, POINTER, POINTER),
    result=INTEGER,
)


class VoteCells(NamedTuple):
    """What ends vote for: a turn, a cell across the lines and a layer along them."""

    turns: Float[Tensor, "t 2"]  # cosine and sine
    size: int  # cells in either direction
    layers: int
    around: Int[Tensor, "d s 2"]  # offsets of the cells, by direction, that a peak is compared with


def end_vote_peaks(
    ends: tuple[Float[Tensor, "m 2 3"], Float[Tensor, "n 2 3"]], cells: VoteCells, limit: int
) -> tuple[Float[Tensor, " p"], Int[Tensor, "p 4"]]:
    """Excess and place (turn, x, y, layer) of the best peaks of the votes of lower and upper ends, best first."""
    source, target, turns = (values.contiguous() for values in (*ends, cells.turns))
    around = cells.around.to(torch.int32).contiguous()
    excess, peaks = torch.empty(limit), torch.empty(limit, 4, dtype=torch.int32)
    count = _end_vote_peaks()(
        *(len(source), source.data_ptr(), len(target), target.data_ptr(), len(turns), turns.data_ptr()),
        *(cells.size, cells.layers, *around.shape[:2], around.data_ptr()),
        *(limit, excess.data_ptr(), peaks.data_ptr()),
    )
    if count < 0:
        raise MemoryError
    order = excess[:count].argsort(descending=True, stable=True)
    return excess[order], peaks[order].long()
