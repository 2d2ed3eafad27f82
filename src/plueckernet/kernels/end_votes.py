"""The kernel of the votes of ends of :mod:`plueckernet.estimation.turn_search`."""

from __future__ import annotations

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


def end_vote_peaks(
    ends: tuple[Float[Tensor, "m 2 3"], Float[Tensor, "n 2 3"]],
    turns: Float[Tensor, "t 2"],
    size: int,
    layers: int,
    around: Int[Tensor, "d s 2"],
    limit: int,
) -> tuple[Float[Tensor, " p"], Int[Tensor, "p 4"]]:
    """Excess and place of at most ``limit`` peaks of the votes of lower and upper ends, best first.

    A place is a turn, given by cosine and sine, a cell of ``size`` in either direction across the lines, and a layer
    along them. ``around`` are the cells, by direction, that a peak is compared with.
    """
    source, target, turns = (values.contiguous() for values in (*ends, turns))
    around = around.to(torch.int32).contiguous()
    excess, peaks = torch.empty(limit), torch.empty(limit, 4, dtype=torch.int32)
    count = _end_vote_peaks()(
        *(len(source), source.data_ptr(), len(target), target.data_ptr(), len(turns), turns.data_ptr()),
        *(size, layers, *around.shape[:2], around.data_ptr()),
        *(limit, excess.data_ptr(), peaks.data_ptr()),
    )
    if count < 0:
        raise MemoryError
    order = excess[:count].argsort(descending=True, stable=True)
    return excess[order], peaks[order].long()
