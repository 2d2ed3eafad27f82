"""The pairs of a batch, from a CSV file."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

from plueckernet.errors import FormatError
from plueckernet.io.files import read_text

_COLUMNS = ("source", "target", "name")


@dataclass(frozen=True)
class BatchPair:
    """Two maps, by their files: line maps, or point clouds whose lines are extracted."""

    source: Path
    target: Path
    name: str = ""  # whatever the caller wants to recognise it by
    formats: tuple[str | None, str | None] = (None, None)  # of source and target; by default their content decides


def read_pairs(path: str | Path, formats: tuple[str | None, str | None] = (None, None)) -> list[BatchPair]:
    """The pairs of a CSV file with the columns `source`, `target` and, if wanted, `name`.

    Without a header the columns come in this order. Other columns are ignored. Paths are relative to the folder of the
    file. An empty line is no pair. All sources have the first of the formats, all targets the second.
    """
    path = Path(path)
    rows = csv.reader(read_text(path).splitlines())
    places: dict[str, int] | None = None
    pairs: list[BatchPair] = []
    try:
        for row in rows:
            words = [word.strip() for word in row]
            if not any(words):
                continue
            if places is None:
                header = [word.lower() for word in words]
                places = {word: place for place, word in enumerate(header if "source" in header else _COLUMNS)}
                if "source" in header:
                    _check_header(path, header, rows.line_num)
                    continue
            pairs.append(replace(_pair(path, words, places, rows.line_num), formats=formats))
    except csv.Error as error:
        raise FormatError(path, f"not CSV: {error}", rows.line_num) from None
    if not pairs:
        raise FormatError(path, "no pairs; expected rows of two files: source,target")
    return pairs


def _check_header(path: Path, header: list[str], line: int) -> None:
    for column in _COLUMNS[:2]:
        if header.count(column) != 1:
            raise FormatError(path, f"expected one column {column!r}, the header is {','.join(header)}", line)


def _pair(path: Path, words: list[str], places: dict[str, int], line: int) -> BatchPair:
    values = {name: words[place] for name, place in places.items() if place < len(words)}
    source, target = values.get("source"), values.get("target")
    if not source or not target:
        raise FormatError(path, f"expected two files, source and target, got {','.join(words)!r}", line)
    if "\0" in source + target:
        raise FormatError(path, "a zero byte in the name of a file", line)
    return BatchPair(path.parent / source, path.parent / target, values.get("name", ""))
