"""Wavefront OBJ: `l` elements, including polylines, and the edges of `f` faces.

Each edge of the faces is read once. Mesh programs store segments as degenerate triangles (`f a b b`) and repeat them
in up to three orders when they cut a map; these are read as one segment.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from plueckernet.io.atomic import atomic_write
from plueckernet.io.edges import unique_edges
from plueckernet.io.rows import write_rows
from plueckernet.io.source import RawLines, Source, numbers, shown

_KEYWORDS = {"v", "vt", "vn", "vp", "l", "f", "p", "g", "o", "s", "mg", "usemtl", "mtllib", "cstype"}

_MAX_VERTICES = 1 << 60  # safely within 64-bit indices


def recognises(source: Source) -> bool:
    """Whether the first statement is one of OBJ's."""
    return bool(source.head_rows) and source.head_rows[0].split()[0] in _KEYWORDS


def read(source: Source) -> RawLines:
    """Read the segments of an OBJ file."""
    vertices = array("d")
    lines, faces = _Pairs(), _Pairs()
    face_count = 0
    for number, fields in _statements(source):
        keyword = fields[0]
        if keyword == "v":
            if len(fields) < 4:
                raise source.error("a vertex has three coordinates", number)
            try:
                vertices.extend((float(fields[1]), float(fields[2]), float(fields[3])))
            except ValueError:
                numbers(fields[1:4], source, number)  # raises, naming the field
        elif keyword == "l":
            chain = _indices(fields, len(vertices) // 3, source, number)
            lines.add(chain, chain[1:], number)
        elif keyword == "f":
            face_count += 1
            ring = _indices(fields, len(vertices) // 3, source, number)
            faces.add(ring, ring[1:] + ring[:1], number)
    points = np.frombuffer(vertices, dtype=np.float64).reshape(-1, 3)
    edges = unique_edges(points, faces.checked(len(points), source))
    endpoints = np.concatenate([points[lines.checked(len(points), source)], edges])
    notes = (f"{face_count} faces read as their {len(edges)} distinct edges",) if face_count else ()
    return RawLines(endpoints, notes=notes)


def write(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write two vertices and one `l` element per segment."""
    with atomic_write(path) as handle:
        write_rows(handle, "v %r %r %r\n", endpoints.reshape(-1, 3))
        write_rows(handle, "l %d %d\n", np.arange(1, 2 * len(endpoints) + 1).reshape(-1, 2))


class _Pairs:
    """Pairs of vertex indices, each with the line it came from."""

    def __init__(self) -> None:
        self._pairs = array("q")
        self._line_numbers = array("q")

    def add(self, starts: list[int], ends: list[int], number: int) -> None:
        for pair in zip(starts, ends, strict=False):
            self._pairs.extend(pair)
            self._line_numbers.append(number)

    def checked(self, count: int, source: Source) -> Int64[np.ndarray, "n 2"]:
        """The pairs, checked after the whole file is read: some programs write elements before vertices."""
        pairs = np.frombuffer(self._pairs, dtype=np.int64).reshape(-1, 2)
        bad = np.flatnonzero((pairs >= count).any(axis=1))
        if len(bad):
            number = self._line_numbers[int(bad[0])]
            raise source.error(f"vertex {int(pairs[bad[0]].max()) + 1} of {count} vertices", number)
        return pairs


def _statements(source: Source) -> Iterator[tuple[int, list[str]]]:
    """The words of each statement and its line number; a backslash continues it on the next line."""
    pending: list[str] = []
    for number, line in source.lines():
        # Remove comments first: one may end in the backslash of a Windows path, which is not a continuation.
        text = line.partition("#")[0] if "#" in line else line
        if "\\" in text and text.rstrip().endswith("\\"):
            pending += text.rstrip()[:-1].split()
            continue
        fields = text.split()
        if pending:
            fields, pending = pending + fields, []
        if fields:
            yield number, fields
    if pending:
        yield number, pending


def _indices(fields: list[str], known: int, source: Source, number: int) -> list[int]:
    """Vertex indices from 0 of `l 1 2/5 -1`; negative ones count back from the last vertex so far."""
    if len(fields) < 3:
        raise source.error(f"`{fields[0]}` needs two vertices or more", number)
    indices = [_index(field, source, number) for field in fields[1:]]
    places = [index - 1 if index > 0 else index + known for index in indices]
    for index, place in zip(indices, places, strict=True):
        if index == 0 or not 0 <= place < _MAX_VERTICES:
            raise source.error(f"vertex index {shown(str(index))}, with {known} vertices so far", number)
    return places


def _index(field: str, source: Source, number: int) -> int:
    try:
        return int(field)
    except ValueError:
        pass
    try:
        return int(field.partition("/")[0])
    except ValueError:
        raise source.error(f"expected a vertex index, found {shown(field)}", number) from None
