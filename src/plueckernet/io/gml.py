"""CityGML and GML: the edges of all surfaces and all line strings, each once.

By default the highest level of detail of each city object is read; its parts count as the same object. The file is read
as a stream. A file with a DOCTYPE is refused, because that is where XML declares entities, and links to other files are
never followed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

import numpy as np
from jaxtyping import Float64

from plueckernet.io.crs import is_in_degrees, short_name
from plueckernet.io.edges import unique_edges
from plueckernet.io.source import RawLines, Source, numbers

_NAMESPACE = re.compile(rb"opengis\.net/(citygml|gml)")
_LEVEL = re.compile(r"lod(\d)")
_MEMBERS = {"cityObjectMember", "featureMember", "member"}
_COORDINATES = {"posList", "pos", "coordinates"}
_CHAINS = {"LinearRing", "LineString", "LineStringSegment"}
_BLOCK = 1 << 20  # bytes handed to the parser at a time

_Levels = dict[int, list[Float64[np.ndarray, "_ 3"]]]


def recognises(source: Source) -> bool:
    """Whether the file is XML with a namespace of GML near its beginning."""
    head = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(b"<") and _NAMESPACE.search(head) is not None


def read(source: Source) -> RawLines:
    """Read the edges of the city objects."""
    document = _parsed(source)
    if not any(document.families):
        raise source.error("no surfaces and no line strings in three dimensions")
    chosen, notes = _chosen(document.families, source)
    points = np.concatenate([np.empty((0, 3)), *chosen])
    crs = None if document.crs is None else short_name(document.crs)
    if crs is not None and is_in_degrees(crs):
        notes += (f"{crs} has coordinates in degrees, which are no lengths: project the map first",)
    if document.flat:
        notes += (f"{document.flat} chains of points without z were left out",)
    if document.linked:
        notes += (f"{document.linked} implicit geometries that refer to other places were left out",)
    return RawLines(unique_edges(points, np.arange(len(points)).reshape(-1, 2)), notes=notes, crs=crs)


@dataclass
class _Implicit:
    """A geometry in its own frame, with the matrix and the point that place it."""

    level: int
    chains: list[Float64[np.ndarray, "_ 3"]] = field(default_factory=list)
    matrix: Float64[np.ndarray, "4 4"] | None = None
    point: Float64[np.ndarray, " 3"] | None = None


class _Document:
    """What the parser has gathered; the methods are called as elements begin and end."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.families: list[_Levels] = []
        self.crs: str | None = None
        self.flat = 0
        self.linked = 0
        self._path: list[str] = []
        self._levels = [0]
        self._dimensions = [3]
        self._dimension = 3  # of the last coordinates
        self._text: list[str] | None = None
        self._points: list[float] = []
        self._implicit: _Implicit | None = None
        self._depth = 0  # of members, of which the outermost are the objects

    def _refuse(self, *_declaration: Any) -> None:
        raise self._source.error("the file has a DOCTYPE, which could declare entities", self._line)

    @property
    def _line(self) -> int:
        return int(self.parser.CurrentLineNumber)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(" ")[2]
        self._path.append(name)
        level = _LEVEL.match(name)
        self._levels.append(int(level[1]) if level else self._levels[-1])
        declared = attributes.get("srsDimension", "")
        self._dimensions.append(int(declared) if declared in ("2", "3") else self._dimensions[-1])
        if self.crs is None and attributes.get("srsName"):
            self.crs = attributes["srsName"]
        if name in _MEMBERS:
            self._depth += 1
            if self._depth == 1:
                self.families.append({})
        elif name in _CHAINS:
            self._points = []
        elif name == "ImplicitGeometry":
            self._implicit = _Implicit(self._levels[-1])
        elif name == "relativeGMLGeometry" and any(key.endswith("href") for key in attributes):
            self.linked += 1
        if name in _COORDINATES or name == "transformationMatrix":
            self._text = []

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _end(self, _tag: str) -> None:
        name = self._path.pop()
        level, dimension = self._levels.pop(), self._dimensions.pop()
        if self._text is not None and (name in _COORDINATES or name == "transformationMatrix"):
            words = "".join(self._text).replace(",", " ").split()
            self._text = None
            self._numbers(name, numbers(words, self._source, self._line))
            self._dimension = dimension
        elif name in _CHAINS:
            self._chain(level, closed=name == "LinearRing")
        elif name == "ImplicitGeometry":
            self._place()
        elif name in _MEMBERS:
            self._depth -= 1

    def _numbers(self, name: str, values: list[float]) -> None:
        if name == "transformationMatrix":
            if len(values) != 16:
                raise self._source.error(f"a matrix has 16 numbers, found {len(values)}", self._line)
            if self._implicit is not None:
                self._implicit.matrix = np.array(values).reshape(4, 4)
        elif "referencePoint" in self._path and self._implicit is not None:
            self._implicit.point = np.array(values[:3]) if len(values) >= 3 else None
        else:
            self._points += values

    def _chain(self, level: int, closed: bool) -> None:
        values, self._points = self._points, []
        if self._dimension == 2:
            self.flat += 1
            return
        if len(values) % 3:
            raise self._source.error(f"points have three numbers, found {len(values)}", self._line)
        points = np.array(values).reshape(-1, 3)
        if closed and len(points) and (points[0] != points[-1]).any():
            points = np.concatenate([points, points[:1]])
        edges = np.stack([points[:-1], points[1:]], axis=1).reshape(-1, 3)
        if self._implicit is not None:
            self._implicit.chains.append(edges)
        else:
            self._add(level, edges)

    def _place(self) -> None:
        implicit, self._implicit = self._implicit, None
        if implicit is None or not implicit.chains or implicit.point is None:
            return
        matrix = np.eye(4) if implicit.matrix is None else implicit.matrix
        for chain in implicit.chains:
            self._add(implicit.level, chain @ matrix[:3, :3].T + matrix[:3, 3] + implicit.point)

    def _add(self, level: int, edges: Float64[np.ndarray, "_ 3"]) -> None:
        if not self.families:  # geometry that belongs to no object
            self.families.append({})
        self.families[-1].setdefault(level, []).append(edges)


def _parsed(source: Source) -> _Document:
    document = _Document(source)
    size = max(source.path.stat().st_size, 1)
    try:
        with source.path.open("rb") as handle:
            while block := handle.read(_BLOCK):
                document.parser.Parse(block, False)
                if source.progress is not None:
                    source.progress(handle.tell() / size)
            document.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise source.error(f"not well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None
    except (LookupError, UnicodeError) as error:  # Python's, when it is asked for the encoding that the file names
        raise source.error(f"not readable XML: {error}", 1) from None
    return document


def _chosen(families: list[_Levels], source: Source) -> tuple[list[Float64[np.ndarray, "_ 3"]], tuple[str, ...]]:
    """The edges of the chosen level of detail, and notes about the choice."""
    counts: dict[int, int] = defaultdict(int)
    for family in families:
        for level in family:
            counts[level] += 1
    available = ", ".join(map(str, sorted(counts)))
    if source.lod is None:
        chosen = [edges for family in families if family for edges in family[max(family)]]
        several = len(counts) > 1
        return chosen, (f"levels of detail: {available}; the highest of each object was read",) if several else ()
    wanted = float(source.lod)
    chosen = [
        edges for family in families for level, all_edges in family.items() if level == wanted for edges in all_edges
    ]
    if not chosen:
        raise source.error(f"no geometry of level of detail {source.lod}; available: {available}")
    objects, without = sum(map(bool, families)), sum(bool(family) and wanted not in family for family in families)
    return chosen, (f"{without} of {objects} objects have no level {source.lod}",) if without else ()
