"""Open3D: its `LineSet`, of the legacy and of the tensor interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from plueckernet.errors import InputError, MissingDependencyError
from plueckernet.geometry.lines import LineSet
from plueckernet.interop.indexed import indexed, segments_of


def from_open3d(line_set: Any) -> LineSet:
    """The segments of an `open3d.geometry.LineSet` or an `open3d.t.geometry.LineSet`, in float64."""
    if hasattr(line_set, "points") and hasattr(line_set, "lines"):
        return segments_of(np.asarray(line_set.points), np.asarray(line_set.lines, dtype=np.int64))
    try:
        points, lines = line_set.point["positions"], line_set.line["indices"]
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"expected a LineSet of Open3D, got {type(line_set).__name__}") from None
    return segments_of(*(tensor.cpu().numpy() for tensor in (points, lines)))


def to_open3d(lines: LineSet) -> Any:
    """The segments as an `open3d.geometry.LineSet`, two points each."""
    try:
        import open3d
    except ImportError:
        raise MissingDependencyError("open3d", "open3d") from None
    points, pairs = indexed(lines, "Open3D")
    made = open3d.geometry.LineSet()
    made.points = open3d.utility.Vector3dVector(points)
    made.lines = open3d.utility.Vector2iVector(pairs.astype(np.int32))
    return made
