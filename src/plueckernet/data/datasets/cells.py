"""The frames of scenes, and the division of large maps into cells, as in the paper for Semantic3D.

The paper's noise and its networks depend on the origin of a map. A scene has one frame from its preparation to its
evaluation, and neither training nor evaluation moves it. Its origin is where the synthetic scenes have theirs: at a
corner of a cell, in the middle of a house.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float64
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose


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


def cell_frame(index: tuple[int, int], size: float) -> Pose:
    """``world_T_scene`` of a cell: its corner with the lowest x and y, at the height of the scanner."""
    return _shift(torch.tensor([size * index[0], size * index[1], 0.0], dtype=torch.float64))


def house_frame(lines: LineSet) -> Pose:
    """``world_T_scene`` of a house: the middle of its plan, on the floor."""
    if lines.endpoints is None:
        raise InputError("the frame of a house needs segments")
    points = lines.endpoints.flatten(0, 1)
    low, high = points.amin(0), points.amax(0)
    middle = (low + high) / 2
    return _shift(torch.stack([middle[0], middle[1], low[2]]))


def _shift(origin: Float64[Tensor, "3"]) -> Pose:
    return Pose(torch.eye(3, dtype=torch.float64), origin)
