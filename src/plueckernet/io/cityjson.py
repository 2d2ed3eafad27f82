"""CityJSON 1.0, 1.1 and 2.0: the edges of all surfaces, each once.

By default the highest level of detail of each object is read; its parts count as the same object.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import FormatError
from plueckernet.io.crs import short_name
from plueckernet.io.edges import ring_edges, unique_edges
from plueckernet.io.files import read_json
from plueckernet.io.source import RawLines, Source

_SURFACES = {"MultiSurface", "CompositeSurface", "Solid", "MultiSolid", "CompositeSolid"}
_MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, OverflowError)
_Json = dict[str, Any]


def recognises(source: Source) -> bool:
    """Whether the file starts like a JSON object; its type may stand at the end."""
    is_object = source.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    return is_object and not source.is_binary and source.path.suffix.lower() != ".gltf"  # a mesh in JSON


def read(source: Source) -> RawLines:
    """Read the edges of the city objects."""
    city = _load(source)
    try:
        geometries, notes = _chosen(city, source)
        _check_instances(geometries, city, source)
        vertices = _transformed(city)
        corners = [_segments(geometry, vertices, city) for geometry in geometries]
    except FormatError:
        raise
    except _MALFORMED as error:
        raise source.error(f"malformed CityJSON: {type(error).__name__}: {error}") from error
    points = np.concatenate([np.empty((0, 3)), *corners])
    return RawLines(unique_edges(points, np.arange(len(points)).reshape(-1, 2)), notes=notes, crs=_crs(city))


def _crs(city: _Json) -> str | None:
    """The reference system: a URL, or the number that version 1.0 called `crs`."""
    name = city.get("metadata", {}).get("referenceSystem")
    return short_name(name) if isinstance(name, str) and name else None


def _load(source: Source) -> _Json:
    city = read_json(source.path)
    kind = city.get("type") if isinstance(city, dict) else type(city).__name__
    if kind != "CityJSON":
        raise source.error(f"expected JSON of type CityJSON, found {kind!a}")
    return dict(city)


def _chosen(city: _Json, source: Source) -> tuple[list[_Json], tuple[str, ...]]:
    """The geometries of the chosen level of detail, and notes about the choice."""
    families: dict[str, list[_Json]] = defaultdict(list)
    objects = city["CityObjects"]
    roots: dict[str, str] = {}
    for name in objects:
        families[_root(name, objects, roots)] += objects[name].get("geometry", [])
    levels = sorted({_level(g, city) for family in families.values() for g in family})
    if not levels:
        raise source.error("no city object has a geometry")
    available = ", ".join(f"{level:g}" for level in levels)
    if source.lod is None:
        highest = {name: max((_level(g, city) for g in family), default=0.0) for name, family in families.items()}
        chosen = [g for name, family in families.items() for g in family if _level(g, city) == highest[name]]
        note = f"levels of detail: {available}; the highest of each object was read"
        return chosen, (note,) if len(levels) > 1 else ()
    wanted = float(source.lod)
    chosen = [g for family in families.values() for g in family if _level(g, city) == wanted]
    if not chosen:
        raise source.error(f"no geometry of level of detail {source.lod}; available: {available}")
    without = sum(all(_level(g, city) != wanted for g in family) for family in families.values())
    return chosen, (f"{without} of {len(families)} objects have no level {source.lod}",) if without else ()


def _root(name: str, objects: _Json, roots: dict[str, str]) -> str:
    """The topmost parent of an object: a BuildingPart belongs to its Building; ``roots`` keeps those known so far."""
    way: dict[str, None] = {}
    while name not in roots and name not in way:  # the parents of damaged files may form a circle
        way[name] = None
        parents = objects[name].get("parents", [])
        name = next((parent for parent in parents if parent in objects), name)
    root = roots.get(name, name)
    roots.update(dict.fromkeys(way, root))
    return root


def _level(geometry: _Json, city: _Json) -> float:
    """The level of detail as a number; version 1.0 stores a number, later ones a string, points may have none."""
    return float(_template(geometry, city).get("lod", 0))


def _template(geometry: _Json, city: _Json) -> _Json:
    """The geometry itself, or the template of an instance."""
    if geometry["type"] != "GeometryInstance":
        return geometry
    template: _Json = city["geometry-templates"]["templates"][geometry["template"]]
    return template


def _check_instances(geometries: Sequence[_Json], city: _Json, source: Source) -> None:
    """Bound the edges of templates times their instances, and the points, which are moved for each instance."""
    used = Counter(geometry["template"] for geometry in geometries if geometry["type"] == "GeometryInstance")
    if not used:
        return
    templates, points = city["geometry-templates"]["templates"], len(city["geometry-templates"]["vertices-templates"])
    edges = sum(count * sum(map(len, _rings(templates[index]["boundaries"]))) for index, count in used.items())
    source.check_count(max(edges, points * used.total()), "edges or points of template instances")
    # Converted once, not for each instance.
    city["geometry-templates"]["vertices-templates"] = np.array(
        city["geometry-templates"]["vertices-templates"], dtype=np.float64
    ).reshape(-1, 3)


def _transformed(city: _Json) -> Float64[np.ndarray, "v 3"]:
    vertices = np.array(city["vertices"], dtype=np.float64).reshape(-1, 3)
    if "transform" not in city:
        return vertices
    transform = city["transform"]
    return vertices * np.array(transform["scale"], dtype=np.float64) + np.array(
        transform["translate"], dtype=np.float64
    )


def _segments(geometry: _Json, vertices: Float64[np.ndarray, "v 3"], city: _Json) -> Float64[np.ndarray, "points 3"]:
    """Start, end, start, end … of the edges of one geometry."""
    if geometry["type"] == "GeometryInstance":
        # A template has its own vertices; a matrix and one vertex of the city place them.
        local = np.asarray(city["geometry-templates"]["vertices-templates"], dtype=np.float64)
        matrix = np.array(geometry["transformationMatrix"], dtype=np.float64).reshape(4, 4)
        anchor = vertices[_in_range(geometry["boundaries"][:1], vertices)]
        vertices = local @ matrix[:3, :3].T + matrix[:3, 3] + anchor
        geometry = _template(geometry, city)
    closed = geometry["type"] in _SURFACES
    if not closed and geometry["type"] != "MultiLineString":  # points
        return np.empty((0, 3))
    edges = ring_edges(_rings(geometry["boundaries"]), closed=closed)
    return vertices[_in_range([index for edge in edges for index in edge], vertices)]


def _rings(boundaries: list[Any]) -> Iterator[list[int]]:
    """The innermost lists at any depth of nesting."""
    if boundaries and not isinstance(boundaries[0], list):
        yield boundaries
        return
    for boundary in boundaries:
        yield from _rings(boundary)


def _in_range(indices: list[int], vertices: Float64[np.ndarray, "v 3"]) -> list[int]:
    for index in indices:
        if type(index) is not int or not 0 <= index < len(vertices):
            raise IndexError(f"vertex {index!a} of {len(vertices)} vertices")
    return indices
