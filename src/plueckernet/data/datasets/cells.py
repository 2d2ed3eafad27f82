"""Division of large maps into cells, as in the paper for Semantic3D."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet


def split_into_cells(lines: LineSet, size: float, min_lines: int) -> Iterator[tuple[tuple[int, int], LineSet]]:
    """Square cells of the x-y plane with at least ``min_lines`` lines, each with its grid index, in a fixed order.

    A segment belongs to the cell of its midpoint and is not cut. Cells start at multiples of ``size``.
    """
    if not size > 0:
        raise InputError(f"cell size: expected a positive length, got {size}")
    grid_index = (lines.midpoints()[:, :2] / size).floor().long()
    cells, member = grid_index.unique(dim=0, return_inverse=True)
    for number, (column, row) in enumerate(cells.tolist()):
        inside = member == number
        if int(inside.sum()) >= min_lines:
            yield (column, row), lines[torch.nonzero(inside)[:, 0]].replaced(ids=None)
