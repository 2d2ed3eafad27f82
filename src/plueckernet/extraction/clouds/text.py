"""Clouds as text: XYZ, PTS, TXT and CSV, one point per row, and the points of legacy VTK.

Columns are separated by commas, semicolons or white space, as in the first row. If the first row has names, the columns
`x`, `y` and `z` are taken, else the first three. `#` starts a comment.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from jaxtyping import Float64

from plueckernet.extraction.clouds.chunks import Chunks
from plueckernet.io.source import Source, check_decimal_point, is_count, is_number, numbers, shown

_VTK_TYPES = {"float": ">f4", "double": ">f8"}


def read_table(source: Source, size: int) -> Chunks:
    """The points of a table, ``size`` rows at a time."""
    rows = _rows(source)
    first = next(rows, None)
    if first is None:
        raise source.error("there are no points")
    number, row = first
    check_decimal_point(row, source, number)
    separator = next((mark for mark in ";," if mark in row), None)
    names = [name.strip().strip("\"'/").lower() for name in row.split(separator)]
    pending = [first]
    columns = [0, 1, 2]
    if not any(map(is_number, names)):
        pending = []
        columns = [names.index(axis) for axis in "xyz"] if set("xyz") <= set(names) else columns
    elif len(names) == 1 and names[0].isdigit():  # PTS starts with the number of points
        pending = []
    elif len(names) < 3:
        raise source.error(f"expected at least 3 columns, found {len(names)}", number)
    while block := pending + list(islice(rows, size - len(pending))):
        pending = []
        yield _parsed(block, separator, columns, source)


def _rows(source: Source) -> Iterator[tuple[int, str]]:
    for number, line in source.lines():
        row = line.partition("#")[0].strip()
        if row:
            yield number, row


def _parsed(
    block: list[tuple[int, str]], separator: str | None, columns: list[int], source: Source
) -> Float64[np.ndarray, "n 3"]:
    """Rows as coordinates: all at once, or one by one to name the line that is wrong."""
    try:
        return np.loadtxt([row for _, row in block], delimiter=separator, usecols=columns, ndmin=2, comments=None)
    except (ValueError, IndexError):
        points = np.empty((len(block), 3))
    for place, (number, row) in enumerate(block):
        fields = row.split(separator)
        if len(fields) <= max(columns):
            raise source.error(f"expected at least {max(columns) + 1} columns, found {len(fields)}", number)
        points[place] = numbers([fields[column].strip() for column in columns], source, number)
    return points


def recognises_vtk(source: Source) -> bool:
    """Whether the file starts as legacy VTK does."""
    return source.head.startswith(b"# vtk DataFile")


def read_vtk(source: Source, size: int) -> Chunks:
    """The `POINTS` of a legacy VTK file, ASCII or binary."""
    with source.path.open("rb") as handle:
        binary, count, kind, number = False, 0, "", 0
        for number, raw in enumerate(handle, 1):
            words = raw.decode("ascii", errors="replace").split()
            if words == ["BINARY"]:
                binary = True
            if words[:1] == ["POINTS"]:
                if len(words) != 3 or not is_count(words[1]) or words[2] not in _VTK_TYPES:
                    raise source.error(f"expected `POINTS count float|double`, found {shown(' '.join(words))}", number)
                count, kind = int(words[1]), _VTK_TYPES[words[2]]
                break
        else:
            raise source.error("no POINTS in the file")
        if binary:
            left = source.path.stat().st_size - handle.tell()
            yield from _vtk_binary(handle.read(min(left, count * 3 * int(kind[2]))), kind, count, source)
            return
        values: list[float] = []
        for place, raw in enumerate(handle, number + 1):
            values += numbers(raw.decode("ascii", errors="replace").split(), source, place)
            if len(values) >= 3 * count:
                break
        if len(values) < 3 * count:
            raise source.error(f"the file ends after {len(values) // 3} of {count} points")
    points = np.array(values[: 3 * count]).reshape(-1, 3)
    for start in range(0, count, size):
        yield points[start : start + size]


def _vtk_binary(data: bytes, kind: str, count: int, source: Source) -> Chunks:
    if len(data) < count * 3 * int(kind[2]):
        raise source.error(f"the file ends after {len(data) // (3 * int(kind[2]))} of {count} points")
    yield np.frombuffer(data, kind).reshape(-1, 3).astype(np.float64)
