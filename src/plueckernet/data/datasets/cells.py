"""Large maps cut into cells, as the paper does with Semantic3D."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet


def split_into_cells(lines: LineSet, size: float, fewest: int) -> Iterator[tuple[tuple[int, int], LineSet]]:
    """Squares of the x-y plane that hold enough lines, each with its place in the grid, in a fixed order.

    A segment belongs whole to the cell of its midpoint. Cells begin at multiples of ``size``.
    """
    if not size > 0:
        raise InputError(f"cell size: expected a positive length, got {size}")
    place = (lines.midpoints()[:, :2] / size).floor().long()
    cells, member = place.unique(dim=0, return_inverse=True)
    for number, (column, row) in enumerate(cells.tolist()):
        inside = member == number
        if int(inside.sum()) >= fewest:
            yield (column, row), lines[torch.nonzero(inside)[:, 0]].replaced(ids=None)
