"""Trimesh: its `Path3D`, and the feature edges of its meshes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import InputError, MissingDependencyError
from plueckernet.geometry.lines import LineSet
from plueckernet.interop.indexed import indexed, segments_of
from plueckernet.io.meshes import mesh_feature_edges

DEFAULT_CREASE = 20.0  # degrees


def from_trimesh(geometry: Any, crease: float = DEFAULT_CREASE) -> LineSet:
    """The segments of a `trimesh.path.Path3D`, or the feature edges of a `trimesh.Trimesh`.

    Args:
        geometry: A path, of which curves are read as the chords between their points, or a mesh.
        crease: Of a mesh: the smallest angle between two faces, in degrees, that makes their edge a line.
    """
    if hasattr(geometry, "faces"):
        return feature_edges(np.asarray(geometry.vertices), np.asarray(geometry.faces), crease)
    if not hasattr(geometry, "entities"):
        raise InputError(f"expected a Path3D or a Trimesh of trimesh, got {type(geometry).__name__}")
    pairs = [pair for entity in geometry.entities for pair in pairwise(np.asarray(entity.points).tolist())]
    return segments_of(np.asarray(geometry.vertices), np.array(pairs, dtype=np.int64).reshape(-1, 2))


def feature_edges(vertices: Float64[np.ndarray, "v 3"], faces: Any, crease: float = DEFAULT_CREASE) -> LineSet:
    """The edges of a triangle mesh at which it ends, or at which its faces meet at the angle `crease` or more."""
    return LineSet.from_segments(mesh_feature_edges(vertices, np.asarray(faces, np.int64), math.radians(crease)))


def to_trimesh(lines: LineSet) -> Any:
    """The segments as a `trimesh.path.Path3D`, one entity each."""
    try:
        import trimesh
    except ImportError:
        raise MissingDependencyError("trimesh", "mesh") from None
    points, pairs = indexed(lines, "trimesh")
    entities = [trimesh.path.entities.Line(pair) for pair in pairs]
    return trimesh.path.Path3D(entities=entities, vertices=points, process=False)
