"""PLY and PCD: the points move, normals turn, and all other properties and elements stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Float64, Shaped

from plueckernet.extraction.clouds.pcd import PcdHeader, read_header, uncompressed
from plueckernet.extraction.clouds.reading import point_chunks
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.io.ply import Element
from plueckernet.io.ply import read_header as read_ply_header
from plueckernet.io.source import Source
from plueckernet.moving.clouds import CHUNK, needs_float64
from plueckernet.moving.replacing import replacing
from plueckernet.moving.tables import Triples, move_rows

_PLY_TYPES = {"float": "double", "float32": "float64"}


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
    points = motion @ _stacked(table, ("x", "y", "z"))
    for axis, values in zip("xyz", points.T, strict=True):
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
        (name, f"{order}f8" if name in "xyz" else kinds[name].base, kinds[name].shape) for name in kinds.names or ()
    ]
    return np.dtype(fields)


def move_ply(path: Path, out: Path, motion: Similarity) -> list[str]:
    """A cloud, a mesh or lines: only vertices change."""
    source = Source(path)
    header = read_ply_header(source)
    vertex = _vertex(header.elements, source)
    names = [prop.name for prop in vertex.properties]
    normals = ("nx", "ny", "nz") if {"nx", "ny", "nz"} <= set(names) else ()
    first = sum(element.count for element in header.elements[: header.elements.index(vertex)])
    if header.order == "":
        return _move_ascii_ply(source, out, motion, header.lines + first, vertex)
    promote = needs_float64(_bounds_of_file(path), motion)
    kinds = np.dtype([(prop.name, header.order + prop.kind) for prop in vertex.properties])
    written = _promoted(kinds, header.order) if promote else kinds
    before = sum(
        element.count * sum(int(prop.kind[1]) for prop in element.properties)
        for element in header.elements[: header.elements.index(vertex)]
    )
    with replacing(out) as temporary, path.open("rb") as reader, temporary.open("wb") as writer:
        text = reader.read(header.size)
        writer.write(_promoted_header(text) if promote else text)
        writer.write(reader.read(before))
        for start in range(0, vertex.count, CHUNK):
            table = np.fromfile(reader, kinds, min(CHUNK, vertex.count - start))
            writer.write(_moved_table(table, written, motion, normals).tobytes())
        _copy_rest(reader, writer)
    return []


def _vertex(elements: list[Element], source: Source) -> Element:
    vertex = next((element for element in elements if element.name == "vertex"), None)
    if vertex is None or not set("xyz") <= {prop.name for prop in vertex.properties}:
        raise source.error("no vertices with properties x, y, z")
    if vertex.has_lists or any(element.has_lists for element in elements[: elements.index(vertex)]):
        raise source.error("lists in or before the vertices are not supported")
    return vertex


def _promoted_header(text: bytes) -> bytes:
    """The header with x, y and z as doubles; other elements do not have properties of these names."""
    return re.sub(
        rb"property (float|float32) ([xyz])(?=[\r\n ])",
        lambda match: b"property " + _PLY_TYPES[match[1].decode()].encode() + b" " + match[2],
        text,
    )


def _move_ascii_ply(source: Source, out: Path, motion: Similarity, before: int, vertex: Element) -> list[str]:
    names = [prop.name for prop in vertex.properties]
    point = (names.index("x"), names.index("y"), names.index("z"))
    turns: Triples = [(names.index("nx"), names.index("ny"), names.index("nz"))] if "nx" in names else []

    def pick(_fields: list[str], number: int) -> Triples:
        return [point] if before < number <= before + vertex.count else []

    move_rows(source, out, motion, pick, turns)
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
    promote = header.data != "ascii" and needs_float64(_bounds_of_file(path), motion)
    text = _pcd_header(path.read_bytes()[:body].decode("ascii", errors="replace"), motion, promote)
    names = list(header.fields.names or ())
    if header.data == "ascii":
        return _move_ascii_pcd(source, out, motion, header, text)
    kinds = _promoted(header.fields, "<") if promote else header.fields
    normals = tuple(name for axis in "xyz" for name in names if re.fullmatch(rf"normal_{axis}\d+", name))
    with replacing(out) as temporary, temporary.open("wb") as writer:
        writer.write(text.encode())
        for table in _pcd_tables(path, body, header, source):
            writer.write(_moved_table(table, kinds, motion, normals if len(normals) == 3 else ()).tobytes())
    return []


def _pcd_tables(path: Path, body: int, header: PcdHeader, source: Source) -> Iterator[Shaped[np.ndarray, " n"]]:
    with path.open("rb") as reader:
        reader.seek(body)
        if header.data == "binary_compressed":
            yield uncompressed(reader.read(), header, source)
            return
        for start in range(0, header.count, CHUNK):
            yield np.fromfile(reader, header.fields, min(CHUNK, header.count - start))


def _pcd_header(text: str, motion: Similarity, promote: bool) -> str:
    lines = []
    fields: list[str] = []
    for line in text.splitlines():
        words = line.split()
        key = words[0].upper() if words else ""
        if key == "FIELDS":
            fields = words[1:]
        if key == "SIZE" and promote:
            sizes = ["8" if name in ("x", "y", "z") else size for name, size in zip(fields, words[1:], strict=True)]
            line = " ".join(["SIZE", *sizes])
        if key == "VIEWPOINT" and len(words) == 8:
            line = " ".join(["VIEWPOINT", *map(repr, _viewpoint([float(word) for word in words[1:]], motion))])
        if key == "DATA" and words[1:] == ["binary_compressed"]:
            line = "DATA binary"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _viewpoint(values: list[float], motion: Similarity) -> list[float]:
    """Position and quaternion of the sensor, moved."""
    pose = Pose.from_quaternion(values[3:], values[:3])
    position = motion @ pose.translation.numpy()
    return [*position.tolist(), *Pose(motion.rotation @ pose.rotation, pose.translation).quaternion().tolist()]


def _move_ascii_pcd(source: Source, out: Path, motion: Similarity, header: PcdHeader, text: str) -> list[str]:
    starts = np.cumsum([0] + [header.fields[name].shape[0] for name in header.fields.names or ()]).tolist()
    column = {re.sub(r"\d+$", "", name): starts[place] for place, name in enumerate(header.fields.names or ())}
    point = (column["x"], column["y"], column["z"])
    turns: Triples = []
    if {"normal_x", "normal_y", "normal_z"} <= column.keys():
        turns = [(column["normal_x"], column["normal_y"], column["normal_z"])]

    def pick(_fields: list[str], number: int) -> Triples:
        return [point] if number > header.lines else []

    move_rows(source, out, motion, pick, turns)
    moved = out.read_text(encoding="ascii").splitlines(keepends=True)
    out.write_text(text + "".join(moved[header.lines :]), encoding="ascii")
    return []
