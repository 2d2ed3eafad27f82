"""Clouds as PLY: the vertices, ASCII or binary, with any other properties."""

from __future__ import annotations

from itertools import islice

import numpy as np

from plueckernet.extraction.clouds.chunks import Chunks
from plueckernet.io.ply import Element, Header, read_header
from plueckernet.io.source import Source, numbers


def read_ply(source: Source, size: int) -> Chunks:
    """The vertices, ``size`` at a time."""
    header = read_header(source)
    vertex = _vertices(header, source)
    if header.order == "":
        yield from _ascii(source, header, vertex, size)
        return
    kinds = np.dtype([(prop.name, header.order + prop.kind) for prop in vertex.properties])
    start = header.size + sum(_bytes(element) for element in _before(header))
    if source.path.stat().st_size < start + kinds.itemsize * vertex.count:
        raise source.error(f"the file ends within {vertex.count} vertices")
    with source.path.open("rb") as handle:
        handle.seek(start)
        for first in range(0, vertex.count, size):
            table = np.fromfile(handle, kinds, min(size, vertex.count - first))
            yield np.stack([table[axis] for axis in "xyz"], axis=1).astype(np.float64)


def _vertices(header: Header, source: Source) -> Element:
    vertex = next((element for element in header.elements if element.name == "vertex"), None)
    if vertex is None or not set("xyz") <= {prop.name for prop in vertex.properties}:
        raise source.error("no vertices with properties x, y, z")
    if vertex.has_lists or any(element.has_lists for element in _before(header)):
        raise source.error("lists in or before the vertices are not supported")
    return vertex


def _before(header: Header) -> list[Element]:
    names = [element.name for element in header.elements]
    return header.elements[: names.index("vertex")]


def _bytes(element: Element) -> int:
    return element.count * sum(int(prop.kind[1]) for prop in element.properties)


def _ascii(source: Source, header: Header, vertex: Element, size: int) -> Chunks:
    names = [prop.name for prop in vertex.properties]
    columns = [names.index(axis) for axis in "xyz"]
    body = ((number, line.split()) for number, line in source.lines() if number > header.lines)
    rows = islice((row for row in body if row[1]), sum(element.count for element in _before(header)), None)
    read = 0
    while read < vertex.count:
        block = list(islice(rows, min(size, vertex.count - read)))
        if not block:
            raise source.error(f"the file ends after {read} of {vertex.count} vertices")
        read += len(block)
        yield np.array([_row(words, columns, len(names), source, number) for number, words in block])


def _row(words: list[str], columns: list[int], width: int, source: Source, number: int) -> list[float]:
    if len(words) != width:
        raise source.error(f"expected {width} numbers, found {len(words)}", number)
    return numbers([words[column] for column in columns], source, number)
