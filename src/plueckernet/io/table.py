"""Plain text and CSV: six columns `x1 y1 z1 x2 y2 z2`, one segment per row.

The first row determines the separator: semicolon, comma or white space. A header row is skipped; if it has the names
`x1 … z2`, these columns are read in any order. `#` starts a comment.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from plueckernet.io.atomic import atomic_write
from plueckernet.io.rows import write_rows
from plueckernet.io.source import POINT_CLOUD, POINT_COLUMNS, RawLines, Source, check_decimal_point, is_number, numbers

COLUMNS = ("x1", "y1", "z1", "x2", "y2", "z2")
_Pick = Callable[[list[str]], Sequence[str]]


def recognises_text(source: Source) -> bool:
    """Whether the file starts with a row of numbers, or with names and then numbers."""
    rows = [_split(row, _separator(row)) for row in source.head_rows[:2]]
    if not rows:
        return False
    return all(map(is_number, rows[0])) or (
        len(rows) == 2 and len(rows[0]) == len(rows[1]) and all(map(is_number, rows[1]))
    )


def recognises_csv(source: Source) -> bool:
    """Whether the file is a table with commas or semicolons."""
    return bool(source.head_rows) and _separator(source.head_rows[0]) is not None and recognises_text(source)


def read(source: Source) -> RawLines:
    """Read a table of segments."""
    values = array("d")
    separator: str | None = None
    width, pick = _header([])
    started = False
    for number, line in source.lines():
        row = line.partition("#")[0] if "#" in line else line
        if not row or row.isspace():
            continue
        if not started:
            check_decimal_point(row, source, number)
            started, separator = True, _separator(row)
            names = _split(row, separator)
            if not any(map(_starts_number, names)):
                if {"x", "y", "z"} <= {name.strip("\"'").lower() for name in names}:
                    raise source.error(f"columns x, y, z: {POINT_CLOUD}", number)
                width, pick = _header(names)
                continue
        fields = row.split(separator)
        if len(fields) != width:
            cloud = f" ({POINT_CLOUD})" if len(fields) in POINT_COLUMNS and not values else ""
            raise source.error(f"expected {width} columns, found {len(fields)}{cloud}", number)
        try:
            values.extend(map(float, pick(fields)))
        except ValueError:
            numbers(list(pick(fields)), source, number)  # raises, naming the field
    return RawLines(np.frombuffer(values, dtype=np.float64).reshape(-1, 2, 3))


def write_text(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write six columns separated by spaces."""
    with atomic_write(path) as handle:
        write_rows(handle, "%r %r %r %r %r %r\n", endpoints.reshape(-1, 6))


def write_csv(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write six columns separated by commas, with a header row."""
    with atomic_write(path) as handle:
        handle.write(",".join(COLUMNS) + "\n")
        write_rows(handle, "%r,%r,%r,%r,%r,%r\n", endpoints.reshape(-1, 6))


def _separator(row: str) -> str | None:
    return next((mark for mark in ";," if mark in row), None)


def _split(row: str, separator: str | None) -> list[str]:
    return [field.strip() for field in row.split(separator)]


def _starts_number(field: str) -> bool:
    """Whether a field starts like a number: `1,5` is not a number, but not a column name either."""
    return is_number(field) or field[:1].isdigit() or field.startswith(("+", "-", "."))


def _header(names: list[str]) -> tuple[int, _Pick]:
    """Number of fields per row under these names, and a function that picks the coordinates."""
    columns = {name.strip("\"'").lower(): column for column, name in enumerate(names)}
    if not columns.keys() >= set(COLUMNS):
        return len(COLUMNS), _all_fields
    return len(names), itemgetter(*(columns[name] for name in COLUMNS))


def _all_fields(fields: list[str]) -> Sequence[str]:
    return fields
