"""Line3D++ text: each row is one line with `n` collinear 3D segments and the `m` image segments it was seen as.

`n  (x1 y1 z1 x2 y2 z2)*n  m  (camera segment x1 y1 x2 y2)*m`
"""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from plueckernet.io.atomic import atomic_write
from plueckernet.io.rows import write_rows
from plueckernet.io.source import RawLines, Source, is_count, numbers, shown


def recognises(source: Source) -> bool:
    """Whether the counts in the first row add up to its length."""
    return bool(source.head_rows) and _mismatch(source.head_rows[0].split()) is None


def read(source: Source) -> RawLines:
    """Read every 3D segment; of the image segments only the number of columns is checked."""
    values = array("d")
    for number, line in source.lines():
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        complaint = _mismatch(fields)
        if complaint is not None:
            raise source.error(complaint, number)
        values.extend(numbers(fields[1 : 1 + 6 * int(fields[0])], source, number))
    return RawLines(np.frombuffer(values, dtype=np.float64).reshape(-1, 2, 3))


def write(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write one row per segment, without image segments."""
    with atomic_write(path) as handle:
        write_rows(handle, "1 %r %r %r %r %r %r 0\n", endpoints.reshape(-1, 6))


def _mismatch(fields: list[str]) -> str | None:
    """Describe what is wrong with the counts in a row, or None."""
    if not is_count(fields[0]):
        return f"expected the number of 3D segments, found {shown(fields[0])}"
    segments = int(fields[0])
    place = 1 + 6 * segments
    if len(fields) <= place:
        return f"{segments} 3D segments need {place + 1} columns or more, found {len(fields)}"
    if not is_count(fields[place]):
        return f"expected the number of 2D segments in column {place + 1}, found {shown(fields[place])}"
    width = place + 1 + 6 * int(fields[place])
    if len(fields) != width:
        return f"{segments} 3D and {fields[place]} 2D segments need {width} columns, found {len(fields)}"
    return None
