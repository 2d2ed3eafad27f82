"""PLY and PCD: the points move, normals turn, and all other properties and elements stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Float64, Shaped

from plueckernet.extraction.clouds.pcd import PcdHeader, read_header, uncompressed
from plueckernet.extraction.clouds.reading import point_chunks
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.io.ply import Element
from plueckernet.io.ply import read_header as read_ply_header
from plueckernet.io.source import Source, numbers
from plueckernet.moving.clouds import CHUNK, needs_float64
from plueckernet.moving.replacing import replacing
from plueckernet.moving.tables import Layout, Triples, move_rows

_AXES, _NORMALS = ("x", "y", "z"), ("nx", "ny", "nz")


def _bounds_of_file(path: Path) -> Float64[np.ndarray, "2 3"]:
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    for points in point_chunks(path):
        if len(points):
            low, high = np.minimum(low, points.min(0)), np.maximum(high, points.max(0))
    return np.stack([low, high]) if np.isfinite(low).all() else np.zeros((2, 3))


def _moved_table(
    table: Shaped[np.ndarray, " n"], kinds: np.dtype[np.void], motion: Similarity, normals: tuple[str, ...]
) -> Shaped[np.ndarray, " n"]:
    """Rows in the new layout, with points moved and normals turned."""
    moved = np.empty(len(table), kinds)
    for name in kinds.names or ():
        moved[name] = table[name]
    points = motion @ _stacked(table, _AXES)
    for axis, values in zip(_AXES, points.T, strict=True):
        moved[axis] = values.reshape(moved[axis].shape)
    if normals:
        turned = _stacked(table, normals) @ motion.rotation.numpy().T
        for axis, values in zip(normals, turned.T, strict=True):
            moved[axis] = values.reshape(moved[axis].shape)
    return moved


def _stacked(table: Shaped[np.ndarray, " n"], names: tuple[str, ...]) -> Float64[np.ndarray, "n 3"]:
    return np.stack([table[name].reshape(len(table)).astype(np.float64) for name in names], axis=1)


def _promoted(kinds: np.dtype[np.void], order: str) -> np.dtype[np.void]:
    """The same layout with coordinates in float64."""
    fields = [
        (name, f"{order}f8" if name in _AXES else kinds[name].base, kinds[name].shape) for name in kinds.names or ()
    ]
    return np.dtype(fields)


def _must_promote(path: Path, kinds: np.dtype[np.void], motion: Similarity) -> bool:
    """Whether moved coordinates need float64: they are large, or whole numbers until now."""
    bounds = _bounds_of_file(path)  # raises where the file does not hold what its header declares
    return any(kinds[axis].base.kind != "f" for axis in _AXES) or needs_float64(bounds, motion)


def move_ply(path: Path, out: Path, motion: Similarity) -> list[str]:
    """A cloud, a mesh or lines: only vertices change."""
    source = Source(path)
    header = read_ply_header(source)
    vertex = _vertex(header.elements, source)
    before = header.elements[: header.elements.index(vertex)]
    if header.order == "":
        return _move_ascii_ply(source, out, motion, header.lines, sum(element.count for element in before), vertex)
    kinds = np.dtype([(prop.name, header.order + prop.kind) for prop in vertex.properties])
    promote = _must_promote(path, kinds, motion)
    written = _promoted(kinds, header.order) if promote else kinds
    size = sum(element.count * sum(int(prop.kind[1]) for prop in element.properties) for element in before)
    with replacing(out) as temporary, path.open("rb") as reader, temporary.open("wb") as writer:
        text = reader.read(header.size)
        writer.write(_promoted_header(text) if promote else text)
        writer.write(reader.read(size))
        for start in range(0, vertex.count, CHUNK):
            table = np.fromfile(reader, kinds, min(CHUNK, vertex.count - start))
            writer.write(_moved_table(table, written, motion, _normals(vertex)).tobytes())
        _copy_rest(reader, writer)
    return []


def _vertex(elements: list[Element], source: Source) -> Element:
    vertex = next((element for element in elements if element.name == "vertex"), None)
    if vertex is None or not set("xyz") <= {prop.name for prop in vertex.properties}:
        raise source.error("no vertices with properties x, y, z")
    if vertex.has_lists or any(element.has_lists for element in elements[: elements.index(vertex)]):
        raise source.error("lists in or before the vertices are not supported")
    return vertex


def _normals(vertex: Element) -> tuple[str, ...]:
    return _NORMALS if set(_NORMALS) <= {prop.name for prop in vertex.properties} else ()


def _promoted_header(text: bytes) -> bytes:
    """The header with x, y and z of the vertices as doubles."""
    lines = re.split(rb"([\r\n]+)", text)
    is_vertex = False
    for place, line in enumerate(lines):
        words = line.split()
        if words[:1] == [b"element"]:
            is_vertex = words[1] == b"vertex"
        elif is_vertex and words[:1] == [b"property"] and words[-1].decode("ascii", "replace") in _AXES:
            lines[place] = b"property double " + words[-1]
    return b"".join(lines)


def _move_ascii_ply(
    source: Source, out: Path, motion: Similarity, head: int, before: int, vertex: Element
) -> list[str]:
    for _ in point_chunks(source.path):  # raises where rows are missing or malformed
        pass
    names = [prop.name for prop in vertex.properties]
    point = (names.index("x"), names.index("y"), names.index("z"))
    normals = _normals(vertex)
    turns: Triples = [(names.index("nx"), names.index("ny"), names.index("nz"))] if normals else []
    rows = count()  # of the elements; blank lines are none

    def pick(_fields: list[str], number: int) -> Triples:
        return [point] if number > head and before <= next(rows) < before + vertex.count else []

    move_rows(source, out, motion, pick, Layout(turns=turns))
    return []


def _copy_rest(reader: BinaryIO, writer: BinaryIO) -> None:
    while block := reader.read(1 << 20):
        writer.write(block)


def move_pcd(path: Path, out: Path, motion: Similarity) -> list[str]:
    """ASCII and binary; a compressed file is written as binary. The viewpoint moves, too."""
    source = Source(path)
    with path.open("rb") as reader:
        header = read_header(reader, source)
        body = reader.tell()
        reader.seek(0)
        text = reader.read(body).decode("ascii", errors="replace")
    if any(header.fields[axis].shape != (1,) for axis in _AXES):
        raise source.error("expected one value of x, y and z for each point")
    promote = _must_promote(path, header.fields, motion) and header.data != "ascii"
    moved_text = _pcd_header(text, motion, promote, source)
    if header.data == "ascii":
        return _move_ascii_pcd(source, out, motion, header, moved_text)
    kinds = _promoted(header.fields, "<") if promote else header.fields
    with replacing(out) as temporary, temporary.open("wb") as writer:
        writer.write(moved_text.encode("ascii", errors="replace"))
        for table in _pcd_tables(path, body, header, source):
            writer.write(_moved_table(table, kinds, motion, _pcd_normals(header)).tobytes())
    return []


def _pcd_normals(header: PcdHeader) -> tuple[str, ...]:
    """The fields of normals, whose names end in their place among all fields."""
    names = [
        next((name for name in header.fields.names or () if re.fullmatch(rf"normal_{axis}\d+", name)), None)
        for axis in _AXES
    ]
    normals = tuple(name for name in names if name is not None and header.fields[name].shape == (1,))
    return normals if len(normals) == 3 else ()


def _pcd_tables(path: Path, body: int, header: PcdHeader, source: Source) -> Iterator[Shaped[np.ndarray, " n"]]:
    with path.open("rb") as reader:
        reader.seek(body)
        if header.data == "binary_compressed":
            yield uncompressed(reader.read(), header, source)
            return
        for start in range(0, header.count, CHUNK):
            yield np.fromfile(reader, header.fields, min(CHUNK, header.count - start))


def _pcd_header(text: str, motion: Similarity, promote: bool, source: Source) -> str:
    lines: list[str] = []
    fields: list[str] = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        key = words[0].upper() if words else ""
        if key == "FIELDS":
            fields = words[1:]
        if key in ("SIZE", "TYPE") and promote:
            if len(fields) != len(words) - 1:
                raise source.error(f"expected FIELDS before {key}, with as many names")
            new = "8" if key == "SIZE" else "F"
            line = " ".join(
                [key, *(new if name in _AXES else old for name, old in zip(fields, words[1:], strict=True))]
            )
        if key == "VIEWPOINT" and len(words) == 8:
            line = " ".join(["VIEWPOINT", *map(repr, _viewpoint(numbers(words[1:], source, len(lines) + 1), motion))])
        if key == "DATA" and words[1:2] and words[1].lower() == "binary_compressed":
            line = "DATA binary"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _viewpoint(values: list[float], motion: Similarity) -> list[float]:
    """Position and quaternion of the sensor, moved."""
    pose = Pose.from_quaternion(values[3:], values[:3])
    position = motion @ pose.translation.numpy()
    return [*position.tolist(), *Pose(motion.rotation @ pose.rotation, pose.translation).quaternion().tolist()]


def _move_ascii_pcd(source: Source, out: Path, motion: Similarity, header: PcdHeader, text: str) -> list[str]:
    names = list(header.fields.names or ())
    starts = np.cumsum([0] + [header.fields[name].shape[0] for name in names]).tolist()
    x, y, z = (starts[names.index(axis)] for axis in _AXES)
    turns: Triples = []
    if normals := _pcd_normals(header):
        nx, ny, nz = (starts[names.index(name)] for name in normals)
        turns = [(nx, ny, nz)]
    move_rows(source, out, motion, lambda _fields, _number: [(x, y, z)], Layout(None, turns, (header.lines, text)))
    return []
