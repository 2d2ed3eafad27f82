"""Segments as points and pairs of indices, as most packages have them."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64, Int64

from plueckernet.errors import InputError
from plueckernet.geometry.arrays import ArrayLike, as_floats, as_integers
from plueckernet.geometry.lines import LineSet


def segments_of(points: ArrayLike, pairs: ArrayLike) -> LineSet:
    """Segments between indexed points, in float64; indices without a point raise `InputError`."""
    vertices = as_floats(points, "points", ("n", 3)).to(torch.float64)
    index = as_integers(pairs, "pairs of points", ("k", 2))
    if len(index) and not bool(((index >= 0) & (index < len(vertices))).all()):
        raise InputError(f"a line between points that do not exist: there are {len(vertices)} points")
    return LineSet.from_segments(vertices[index])


def indexed(lines: LineSet, package: str) -> tuple[Float64[np.ndarray, "v 3"], Int64[np.ndarray, "n 2"]]:
    """Two points for each segment and their indices."""
    if lines.endpoints is None or lines.direction.ndim != 2:
        kind = "infinite lines" if lines.endpoints is None else "a batch of line sets"
        raise InputError(f"{package} holds segments of one set, not {kind}")
    points = lines.endpoints.detach().to("cpu", torch.float64).reshape(-1, 3).numpy()
    return points, np.arange(len(points), dtype=np.int64).reshape(-1, 2)
