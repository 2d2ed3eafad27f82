"""PLY with `vertex` and `edge` elements, as Open3D writes a LineSet; ASCII, little and big endian.

If there are no `edge` elements, each edge of the faces is read once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from plueckernet.io.atomic import atomic_write_bytes
from plueckernet.io.edges import ring_edges, unique_edges
from plueckernet.io.source import POINT_CLOUD, RawLines, Source, is_count, numbers, shown

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float": "f4", "double": "f8", "float32": "f4", "float64": "f8",
}  # fmt: skip
_STRUCT_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "f4": "f", "f8": "d"}
_ORDERS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_MAX_ENTRIES = 1000  # elements of a header, and properties of an element
_FACE_LISTS = ("vertex_indices", "vertex_index")
_Column = list[Any] | Shaped[np.ndarray, " n"]


@dataclass(frozen=True)
class Property:
    """A column of an element."""

    name: str
    kind: str  # as NumPy spells it
    count_kind: str | None = None  # of a list


@dataclass(frozen=True)
class Element:
    """A table of the file."""

    name: str
    count: int
    properties: list[Property] = field(default_factory=list)

    @property
    def has_lists(self) -> bool:
        """Whether its rows may differ in length."""
        return any(prop.count_kind for prop in self.properties)


@dataclass(frozen=True)
class Header:
    """The content of the lines up to `end_header`."""

    order: str  # "" for ASCII, else the byte order
    elements: list[Element]
    size: int  # bytes
    lines: int


def recognises(source: Source) -> bool:
    """Whether the file starts with the magic line of PLY."""
    return source.head[:4] in (b"ply\n", b"ply\r")


def read(source: Source) -> RawLines:
    """Read the segments of a PLY file."""
    header = read_header(source)
    names = [element.name for element in header.elements]
    wanted = "edge" if "edge" in names else "face"
    if names == ["vertex"]:
        raise source.error(POINT_CLOUD)
    if "vertex" not in names or wanted not in names:
        raise source.error(f"no edges or faces between vertices, only: {', '.join(names) or 'nothing'}")
    last = max(names.index("vertex"), names.index(wanted))
    tables = _read_ascii if header.order == "" else _read_binary
    columns = dict(zip(names, tables(source, header, header.elements[: last + 1]), strict=False))
    vertices = _vertices(columns["vertex"], source)
    if wanted == "face":
        return _faces(vertices, columns["face"], source)
    return RawLines(vertices[_edges(columns["edge"], len(vertices), source)])


def write(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write little endian doubles, two vertices and one edge per segment."""
    count = len(endpoints)
    header = (
        "ply\nformat binary_little_endian 1.0\ncomment written by plueckernet\n"
        f"element vertex {2 * count}\nproperty double x\nproperty double y\nproperty double z\n"
        f"element edge {count}\nproperty int vertex1\nproperty int vertex2\nend_header\n"
    )
    with atomic_write_bytes(path) as handle:
        handle.write(header.encode())
        handle.write(endpoints.astype("<f8").tobytes())
        handle.write(np.arange(2 * count, dtype="<i4").tobytes())


def read_header(source: Source) -> Header:
    """Parse the lines up to `end_header`."""
    if not recognises(source):
        raise source.error("not PLY: the first line is not `ply`", 1)
    elements: list[Element] = []
    order: str | None = None
    size = 0
    with source.path.open("rb") as handle:
        for number, raw in enumerate(_header_lines(handle.read(1 << 20)), 1):
            size += len(raw)
            words = raw.decode("ascii", errors="replace").split()
            match words:
                case ["end_header"]:
                    if order is None:
                        raise source.error("the header names no format", number)
                    return Header(order, elements, size, number)
                case ["format", name, "1.0"] if name in _ORDERS:
                    order = _ORDERS[name]
                case ["element", name, count] if is_count(count):
                    _check_new(name, [element.name for element in elements], source, number)
                    elements.append(Element(name, int(count)))
                case ["property", "list", count_kind, kind, name] if elements:
                    kinds = _kind(kind, source, number), _kind(count_kind, source, number)
                    if kinds[1].startswith("f"):
                        raise source.error(f"the length of a list is a whole number, not {shown(count_kind)}", number)
                    _check_new(name, [known.name for known in elements[-1].properties], source, number)
                    elements[-1].properties.append(Property(name, *kinds))
                case ["property", kind, name] if elements:
                    _check_new(name, [known.name for known in elements[-1].properties], source, number)
                    elements[-1].properties.append(Property(name, _kind(kind, source, number)))
                case [] | ["ply"] | ["comment" | "obj_info", *_]:
                    pass
                case _:
                    raise source.error(f"not a line of a PLY header: {shown(' '.join(words))}", number)
    raise source.error("the file ends within the header")


def _header_lines(data: bytes) -> Iterator[bytes]:
    """Lines with their terminators: line feeds, or carriage returns if the first line ends with one."""
    end = b"\n" if data[3:4] == b"\n" or data[3:5] == b"\r\n" else b"\r"
    start = 0
    while (stop := data.find(end, start)) >= 0:
        yield data[start : stop + 1]
        start = stop + 1


def _check_new(name: str, known: list[str], source: Source, number: int) -> None:
    if name in known:
        raise source.error(f"{shown(name)} for the second time", number)
    if len(known) >= _MAX_ENTRIES:
        raise source.error(f"more than {_MAX_ENTRIES} elements or properties", number)


def _kind(name: str, source: Source, number: int) -> str:
    if name not in _TYPES:
        raise source.error(f"unknown type {shown(name)}", number)
    return _TYPES[name]


def _read_ascii(source: Source, header: Header, elements: list[Element]) -> list[dict[str, _Column]]:
    lines = ((number, text.split()) for number, text in source.lines() if number > header.lines)
    rows = ((number, words) for number, words in lines if words)
    tables = []
    for element in elements:
        columns: list[list[Any]] = [[] for _ in element.properties]
        for place in range(element.count):
            number, words = next(rows, (None, []))
            if number is None:
                raise source.error(f"the file ends after {place} of {element.count} {element.name} elements")
            for column, value in zip(columns, _ascii_row(words, element, source, number), strict=True):
                column.append(value)
        tables.append(_as_columns(element, columns))
    return tables


def _ascii_row(words: list[str], element: Element, source: Source, number: int) -> list[float | list[float]]:
    values = numbers(words, source, number)
    if not element.has_lists and len(values) == len(element.properties):
        return list(values)
    row: list[float | list[float]] = []
    place = 0
    for prop in element.properties:
        if prop.count_kind is None:
            row.extend(values[place : place + 1])
            place += 1
            continue
        length = int(words[place]) if place < len(words) and is_count(words[place]) else len(words)
        row.append(values[place + 1 : place + 1 + length])
        place += 1 + length
    if place != len(values):
        raise source.error(f"the {element.name} does not have the columns of the header", number)
    return row


def _read_binary(source: Source, header: Header, elements: list[Element]) -> list[dict[str, _Column]]:
    data = source.path.read_bytes()
    place = header.size
    tables = []
    for element in elements:
        try:
            columns, place = _binary_element(data, place, element, header.order)
        except (struct.error, ValueError):
            raise source.error(f"the file ends within {element.count} {element.name} elements") from None
        tables.append(columns)
    return tables


def _binary_element(data: bytes, place: int, element: Element, order: str) -> tuple[dict[str, _Column], int]:
    if not element.has_lists:
        kinds = np.dtype([(f"f{i}", order + prop.kind) for i, prop in enumerate(element.properties)])
        size = kinds.itemsize * element.count
        if place + size > len(data):
            raise ValueError
        table = np.frombuffer(data, kinds, element.count, place) if size else np.empty(0, kinds)
        return {prop.name: table[f"f{i}"] for i, prop in enumerate(element.properties)}, place + size
    columns: list[list[Any]] = [[] for _ in element.properties]
    for _ in range(element.count):
        for column, prop in zip(columns, element.properties, strict=True):
            length = 1
            if prop.count_kind is not None:
                (length,) = struct.unpack_from(order + _STRUCT_CODES[prop.count_kind], data, place)
                place += int(prop.count_kind[1])
            layout = f"{order}{int(length)}{_STRUCT_CODES[prop.kind]}"
            values = struct.unpack_from(layout, data, place)
            place += struct.calcsize(layout)
            column.append(values[0] if prop.count_kind is None else list(values))
    return _as_columns(element, columns), place


def _as_columns(element: Element, columns: list[list[Any]]) -> dict[str, _Column]:
    return {
        prop.name: column if prop.count_kind else np.array(column, dtype=np.float64)
        for prop, column in zip(element.properties, columns, strict=True)
    }


def _vertices(columns: dict[str, _Column], source: Source) -> Float64[np.ndarray, "v 3"]:
    if not columns.keys() >= set("xyz") or any(isinstance(columns[axis], list) for axis in "xyz"):
        raise source.error("vertices without properties x, y, z")
    return np.stack([np.asarray(columns[axis], dtype=np.float64) for axis in "xyz"], axis=1)


def _edges(columns: dict[str, _Column], count: int, source: Source) -> Int64[np.ndarray, "n 2"]:
    ends = [columns.get(name) for name in ("vertex1", "vertex2")]
    if any(not isinstance(end, np.ndarray) for end in ends):
        raise source.error("edges without properties vertex1, vertex2")
    return _checked(np.stack([np.asarray(end) for end in ends], axis=1), count, "edge", source)


def _faces(vertices: Float64[np.ndarray, "v 3"], columns: dict[str, _Column], source: Source) -> RawLines:
    rings = next((columns[name] for name in _FACE_LISTS if name in columns), None)
    if not isinstance(rings, list):
        raise source.error("faces without a list of vertex indices")
    pairs = np.array(ring_edges(rings), dtype=np.float64).reshape(-1, 2)
    edges = unique_edges(vertices, _checked(pairs, len(vertices), "face", source))
    return RawLines(edges, notes=(f"{len(rings)} faces read as their {len(edges)} distinct edges",))


def _checked(pairs: Shaped[np.ndarray, "n 2"], count: int, name: str, source: Source) -> Int64[np.ndarray, "n 2"]:
    bad = np.flatnonzero(~((pairs >= 0) & (pairs < count)).all(axis=1))
    if len(bad):
        raise source.error(f"{name} between vertices {pairs[bad[0]].tolist()} of {count} vertices")
    return pairs.astype(np.int64)
