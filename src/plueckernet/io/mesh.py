"""Meshes of any format that trimesh reads, as their feature edges."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from plueckernet.errors import MissingDependencyError
from plueckernet.io.meshes import mesh_feature_edges
from plueckernet.io.source import RawLines, Source, shown

_SIGNATURES = (b"glTF", b"OFF", b"solid ")


def recognises(source: Source) -> bool:
    """Whether the file starts as GLB, OFF or ASCII STL does; binary STL has no signature."""
    return source.head.startswith(_SIGNATURES)


def read(source: Source) -> RawLines:
    """Read the edges at which the mesh ends, and those at which its faces meet at 20° or more."""
    mesh = load_mesh(source, force="mesh")
    if not hasattr(mesh, "faces"):
        raise source.error("the file has no faces")
    faces = np.asarray(mesh.faces, dtype=np.int64)
    if not len(faces):
        raise source.error("the file has no faces")
    if int(faces.min()) < 0 or int(faces.max()) >= len(mesh.vertices):
        raise source.error(f"a face has a vertex that is none of the {len(mesh.vertices)} vertices of the file")
    edges = mesh_feature_edges(np.asarray(mesh.vertices, dtype=np.float64), faces)
    return RawLines(edges, notes=(f"{len(faces)} triangles read as their {len(edges)} feature edges",))


def load_mesh(source: Source, **options: Any) -> Any:
    """What trimesh reads of a file; files that it names have to be in its folder or below."""
    try:
        import trimesh
    except ImportError:
        raise MissingDependencyError("trimesh", "mesh") from None

    class OwnFolder(trimesh.resolvers.FilePathResolver):
        def get(self, name: str) -> Any:
            folder = source.path.parent.resolve()
            if not (folder / name.strip()).resolve().is_relative_to(folder):
                raise ValueError(f"{shown(name)} is not in the folder of the mesh")
            return super().get(name)

    logging.getLogger("trimesh").setLevel(logging.ERROR)
    try:
        resolver = OwnFolder(str(source.path))
        return trimesh.load(source.path, process=False, file_type=_file_type(source), resolver=resolver, **options)
    except Exception as error:  # every format has its own parser and errors
        raise source.error(f"not readable as a mesh: {error}") from error


def _file_type(source: Source) -> str | None:
    """The type by content where the suffix may not tell it."""
    if source.head.startswith(b"glTF"):
        return "glb"
    return "off" if source.head.startswith(b"OFF") else None
