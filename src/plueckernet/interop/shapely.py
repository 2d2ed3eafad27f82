"""Shapely and GeoPandas: line strings and the rings of polygons, with z."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from plueckernet.errors import InputError, MissingDependencyError
from plueckernet.geometry.lines import LineSet


def from_shapely(geometries: Any) -> LineSet:
    """The segments of a geometry, of a list of geometries, of a `GeoSeries` or of a `GeoDataFrame`.

    Line strings, rings and polygons give their edges, collections those of their members. `ids` has the number of the
    geometry that each segment is of. Geometries without z and points raise `InputError`.
    """
    pieces, ids = [np.empty((0, 2, 3))], []
    for number, geometry in enumerate(_geometries(geometries)):
        for points in _chains(geometry, number):
            edges = np.stack([points[:-1], points[1:]], axis=1)
            edges = edges[(edges[:, 0] != edges[:, 1]).any(axis=1)]
            pieces.append(edges)
            ids += [number] * len(edges)
    return LineSet.from_segments(np.concatenate(pieces), ids=torch.tensor(ids, dtype=torch.long))


def to_shapely(lines: LineSet) -> list[Any]:
    """Each segment as a `shapely.LineString`; `geopandas.GeoSeries(to_shapely(lines))` takes them."""
    try:
        import shapely
    except ImportError:
        raise MissingDependencyError("shapely", "geo") from None
    if lines.endpoints is None or lines.direction.ndim != 2:
        raise InputError("shapely holds segments of one set, not infinite lines or a batch")
    return list(shapely.linestrings(lines.endpoints.detach().to("cpu", torch.float64).numpy()))


def _geometries(geometries: Any) -> Iterable[Any]:
    if hasattr(geometries, "geometry"):  # a table, or a series, which is its own geometry
        return list(geometries.geometry)
    return [geometries] if hasattr(geometries, "geom_type") else list(geometries)


def _chains(geometry: Any, number: int) -> Iterator[Float64[np.ndarray, "k 3"]]:
    """The chains of points that a geometry consists of."""
    kind = getattr(geometry, "geom_type", None)
    if kind in ("LineString", "LinearRing"):
        points = np.asarray(geometry.coords, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"geometry {number}: a {kind} without z is no line in space")
        yield points
    elif kind == "Polygon":
        for ring in (geometry.exterior, *geometry.interiors):
            yield from _chains(ring, number)
    elif hasattr(geometry, "geoms"):
        for member in geometry.geoms:
            yield from _chains(member, number)
    else:
        raise InputError(f"geometry {number}: expected lines or polygons, got {kind or type(geometry).__name__}")
