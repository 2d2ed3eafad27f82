"""Structured3D: ``scene_00000/annotation_3d.json``, a house as junctions, lines and planes in millimetres.

``lineJunctionMatrix`` has a row per line and a column per junction, with 1 if the junction is on the line. The segment
of a line connects its two junctions, or the two outermost ones if there are more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from plueckernet.errors import FormatError
from plueckernet.geometry import LineSet
from plueckernet.io.files import read_json

FILE = "annotation_3d.json"
_METRES_PER_UNIT = 0.001  # of the coordinates in the file


def structured3d_scenes(folder: Path) -> list[Path]:
    """The annotations of all scenes under a folder, in alphabetical order."""
    scenes = sorted(folder.glob(f"scene_*/{FILE}")) or sorted(folder.glob(f"**/scene_*/{FILE}"))
    if not scenes:
        raise FormatError(folder, f"no scene_*/{FILE} in it")
    return scenes


def read_structured3d(path: Path) -> LineSet:
    """The lines of one house as segments in metres; lines without two distinct junctions are skipped."""
    content = _content(path)
    points = _coordinates(content, path)
    on_line = _incidence(content, len(points), path)
    segments = [_outermost(points[row]) for row in on_line if row.sum() >= 2]
    usable = [ends for ends in segments if not np.array_equal(ends[0], ends[1])]
    if not usable:
        raise FormatError(path, "no line has two distinct junctions")
    return LineSet.from_segments(torch.from_numpy(_METRES_PER_UNIT * np.stack(usable)))


def _content(path: Path) -> dict[str, Any]:
    content = read_json(path)
    keys = content if isinstance(content, dict) else {}
    missing = [key for key in ("junctions", "lineJunctionMatrix") if key not in keys]
    if not isinstance(content, dict) or missing:
        raise FormatError(path, f"expected an object with junctions and lineJunctionMatrix, no {' and '.join(missing)}")
    return content


def _coordinates(content: dict[str, Any], path: Path) -> Float64[np.ndarray, "j 3"]:
    try:
        points = np.array([junction["coordinate"] for junction in content["junctions"]], dtype=np.float64)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FormatError(path, "junctions: expected a list of objects with a coordinate of three numbers") from error
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise FormatError(path, f"junctions: expected three finite numbers each, found shape {points.shape}")
    return points


def _incidence(content: dict[str, Any], junctions: int, path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    try:
        matrix = np.array(content["lineJunctionMatrix"], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise FormatError(path, "lineJunctionMatrix: expected rows of equal length") from error
    if matrix.ndim != 2 or matrix.shape[1] != junctions:
        raise FormatError(path, f"lineJunctionMatrix: expected {junctions} columns, found shape {matrix.shape}")
    return matrix != 0


def _outermost(points: Float64[np.ndarray, "k 3"]) -> Float64[np.ndarray, "2 3"]:
    """The first and the last of collinear points."""
    furthest = points[np.linalg.norm(points - points[0], axis=1).argmax()]
    along = (points - points[0]) @ (furthest - points[0])
    return points[[along.argmin(), along.argmax()]]
