"""IFC: the feature edges of building elements, in metres, read by ifcopenshell.

Where the file says how its coordinates relate to a map (`IfcMapConversion`), the lines are given in that map. Spaces,
openings, grids and annotations are no elements that a scan would see, and are left out unless their type is asked for.
The file is read in a child process (:mod:`plueckernet.io.ifc_model`).
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Shaped

from plueckernet.errors import MissingDependencyError
from plueckernet.io.crs import short_name
from plueckernet.io.meshes import mesh_feature_edges
from plueckernet.io.native import native_chunks
from plueckernet.io.source import RawLines, Source

_SHOWN_TYPES = 6  # of a note


def recognises(source: Source) -> bool:
    """Whether the file starts as STEP with an IFC schema does."""
    return source.head.lstrip().startswith(b"ISO-10303-21") and b"IFC" in source.head[:4096].upper()


def read(source: Source) -> RawLines:
    """Read the feature edges of all elements, or of the chosen types and storey."""
    if not recognises(source):
        raise source.error("not IFC: the file does not start as STEP does")
    if find_spec("ifcopenshell") is None:
        raise MissingDependencyError("ifcopenshell", "bim")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "shapes.npz"
        for told in native_chunks(source, "ifc", "IFC", 0, str(out), json.dumps([source.types, source.storey])):
            if source.progress is not None:
                source.progress(float(told[0, 0]))
        with np.load(out) as arrays:
            return _edges(dict(arrays), source)


def _edges(arrays: dict[str, Shaped[np.ndarray, "..."]], source: Source) -> RawLines:
    """The feature edges of the shapes that the child wrote."""
    told: dict[str, Any] = json.loads(str(arrays["told"]))
    if "error" in told:
        raise source.error(told["error"])
    pieces, ids, point, face = [np.empty((0, 2, 3))], [], 0, 0
    for number, points, faces in arrays["numbers"].tolist():
        vertices, triangles = arrays["vertices"][point : point + points], arrays["faces"][face : face + faces]
        pieces.append(mesh_feature_edges(vertices, triangles))
        ids += [number] * len(pieces[-1])
        point, face = point + points, face + faces
    kinds = told["kinds"]
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds[:_SHOWN_TYPES])
    more = ", …" if len(kinds) > _SHOWN_TYPES else ""
    notes = [f"in metres; {sum(count for _, count in kinds)} elements: {listed}{more}"]
    ends, move = np.concatenate(pieces), arrays["move"]
    if len(move):
        ends = ends @ move[:3, :3].T + move[:3, 3]
        notes.append("IfcMapConversion was applied")
    crs = None if told["crs"] is None else short_name(told["crs"])
    return RawLines(ends, ids=np.array(ids, dtype=np.int64), notes=tuple(notes), crs=crs)
