"""Text with points in some columns of some rows; all other text stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

import numpy as np

from plueckernet.geometry.pose import Similarity
from plueckernet.io.atomic import atomic_write
from plueckernet.io.source import Source, is_count, is_number, numbers, shown
from plueckernet.io.table import COLUMNS

_BLOCK = 50_000  # rows moved at a time

Triples = list[tuple[int, int, int]]
PickPoints = Callable[[list[str], int], Triples]
"""Which columns of a row hold points, by its fields and its number in the file."""


@dataclass(frozen=True)
class Layout:
    """How a text file is written.

    Attributes:
        separator: What separates the columns; None for blanks.
        turns: Columns of directions, which only turn.
        head: How many rows begin the file that are not moved, and the text that is written instead of them.
    """

    separator: str | None = None
    turns: Triples = field(default_factory=list)
    head: tuple[int, str] = (0, "")


def move_rows(source: Source, out: Path, motion: Similarity, pick: PickPoints, layout: Layout = Layout()) -> None:
    """Copy a text file with the points of each row moved."""
    with atomic_write(out) as handle:
        handle.write(layout.head[1])
        rows = ((number, line) for number, line in source.lines() if number > layout.head[0])
        while block := list(islice(rows, _BLOCK)):
            handle.writelines(_moved(block, layout, source, motion, pick))


def _moved(
    block: list[tuple[int, str]], layout: Layout, source: Source, motion: Similarity, pick: PickPoints
) -> Iterable[str]:
    texts: list[list[str]] = []
    places: list[tuple[int, tuple[int, int, int], bool]] = []
    values: list[list[float]] = []
    for number, line in block:
        row, mark, comment = line.rstrip("\r\n").partition("#")
        fields = row.split(layout.separator)
        triples = pick(fields, number) if row.strip() else []
        for triple in [*triples, *(layout.turns if triples else [])]:
            if max(triple) >= len(fields):
                raise source.error(f"expected {max(triple) + 1} columns, found {len(fields)}", number)
            places.append((len(texts), triple, triple in triples))
            values.append(numbers([fields[column] for column in triple], source, number))
        texts.append([*fields, mark + comment] if triples else [line.rstrip("\r\n")])
    points = np.array(values).reshape(-1, 3)
    moved, turned = motion @ points, points @ motion.rotation.numpy().T
    for index, (place, triple, is_point) in enumerate(places):
        for column, value in zip(triple, (moved if is_point else turned)[index].tolist(), strict=True):
            texts[place][column] = repr(value)
    joint = " " if layout.separator is None else layout.separator
    return (f"{joint.join(fields[:-1])}{fields[-1]}\n" if len(fields) > 1 else f"{fields[0]}\n" for fields in texts)


def table_layout(source: Source) -> Layout:
    """That of a table, in which commas or semicolons may separate, and columns may be named nx, ny and nz."""
    normals = _named(source, "nx", "ny", "nz")
    return Layout(_separator(source), [] if normals is None else [normals])


def _separator(source: Source) -> str | None:
    rows = source.head_rows
    return next((mark for mark in ";," if rows and mark in rows[0]), None)


def _first_fields(source: Source) -> list[str]:
    """The fields of the first row, which may be names."""
    return [field.strip().strip("\"'/").lower() for field in (source.head_rows or [""])[0].split(_separator(source))]


def _named(source: Source, *names: str) -> tuple[int, int, int] | None:
    """The columns of three names, if the first row has them."""
    first = _first_fields(source)
    if not set(names) <= set(first):
        return None
    x, y, z = (first.index(name) for name in names)
    return x, y, z


def names_points(source: Source) -> bool:
    """Whether the first row names columns x, y and z."""
    return _named(source, "x", "y", "z") is not None


def cloud_columns(source: Source) -> PickPoints:
    """Rows of a cloud: the columns named x, y and z, or the first three of rows of numbers."""
    triple = _named(source, "x", "y", "z") or (0, 1, 2)
    rows = count()

    def pick(fields: list[str], number: int) -> Triples:
        is_first = next(rows) == 0
        if len(fields) > max(triple) and all(is_number(fields[column]) for column in triple):
            return [triple]
        if is_first or (len(fields) == 1 and is_count(fields[0])):
            return []  # a header, or the number of points of PTS
        raise source.error(f"expected coordinates, found {shown(' '.join(fields))}", number)

    return pick


def segment_columns(source: Source) -> PickPoints:
    """Rows of segments: the columns named x1 … z2, or the first six."""
    first = _first_fields(source)
    named = set(COLUMNS) <= set(first)
    order = [first.index(name) for name in COLUMNS] if named else list(range(6))
    ends = [(order[0], order[1], order[2]), (order[3], order[4], order[5])]

    def pick(fields: list[str], _number: int) -> Triples:
        numeric = len(fields) > max(order) and all(is_number(fields[column]) for column in order)
        return ends if numeric else []

    return pick


def line3dpp_columns(fields: list[str], _number: int) -> Triples:
    """Rows of Line3D++: a number of segments, their ends, and what supports them."""
    return [(column, column + 1, column + 2) for column in range(1, 1 + 6 * int(fields[0]), 3)]


def obj_columns(fields: list[str], _number: int) -> Triples:
    """Vertices of OBJ."""
    return [(1, 2, 3)] if fields and fields[0] == "v" and len(fields) >= 4 else []
