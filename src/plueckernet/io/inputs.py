"""Lines as users have them: a `LineSet`, the path of a file, or end points as an array or a list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plueckernet.errors import InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.io.reading import read_lines

LinesLike = Any
"""A `LineSet`, the path of a file that `read_lines` reads, or end points `(n, 2, 3)` or `(n, 6)`."""


def as_lines(lines: LinesLike) -> LineSet:
    """The line set; what is neither lines, nor a path, nor end points raises `InputError`."""
    if isinstance(lines, LineSet):
        return lines
    if isinstance(lines, str | Path):
        return read_lines(lines)
    if lines is None or isinstance(lines, Mapping | bytes):
        raise InputError(f"expected lines, the path of a file, or end points, got {type(lines).__name__}")
    return LineSet.from_segments(lines)
