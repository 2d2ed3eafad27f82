"""Rigid motions and similarities as text: four rows of four numbers, as CloudCompare reads and writes them."""

from __future__ import annotations

from pathlib import Path

from plueckernet.errors import FormatError, InputError
from plueckernet.geometry.similarity import Transform, motion_from_matrix
from plueckernet.io.atomic import atomic_write
from plueckernet.io.source import Source, numbers


def read_matrix(path: str | Path) -> Transform:
    """Read ``[[s R, t], [0, 1]]``, a pose if ``s = 1``.

    Separators are blanks, commas or semicolons, and `#` starts a comment.
    """
    source, rows = Source(Path(path)), []
    try:
        for number, line in source.lines():
            fields = line.partition("#")[0].replace(",", " ").replace(";", " ").split()
            if fields:
                rows.append(numbers(fields, source, number))
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error
    if [len(row) for row in rows] != [4, 4, 4, 4] or rows[3] != [0, 0, 0, 1]:
        raise source.error("expected four rows of four numbers, the last of them 0 0 0 1")
    try:
        return motion_from_matrix(rows)
    except InputError as error:
        raise source.error(str(error)) from error


def write_matrix(path: str | Path, pose: Transform) -> None:
    """Write four rows of four numbers; reading gives the same float64 numbers."""
    with atomic_write(path) as stream:
        stream.writelines(f"{' '.join(map(repr, row))}\n" for row in pose.matrix().tolist())
