"""The kernel of :func:`plueckernet.coincidence.pair_distances`."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.kernels.library import DOUBLE, INTEGER, POINTER, function

_pair_distances = function("pair_distances", INTEGER, *(POINTER,) * 7, DOUBLE, POINTER)


class PlacedLines(NamedTuple):
    """Lines in double precision."""

    direction: Float[Tensor, "n 3"]
    anchor: Float[Tensor, "n 3"]


def distances_and_angles(
    pose: tuple[Float[Tensor, "3 3"], Float[Tensor, "3"]],
    rows: Int[Tensor, "k 2"],
    source: PlacedLines,
    target: PlacedLines,
    unit: float,
) -> Float[Tensor, "k 2"]:
    """Distance times ``unit`` and angle in degrees of pairs of lines under a pose, all in double precision."""
    arrays = [values.contiguous() for values in (rows, *pose, *source, *target)]
    results = torch.empty(len(rows), 2, dtype=torch.float64)
    _pair_distances()(len(rows), *(values.data_ptr() for values in arrays), unit, results.data_ptr())
    return results
