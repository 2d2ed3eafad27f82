"""Seeds of formats whose files are made by other packages, or that have both text and binary files."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
from benchmarks.user_models import ENVELOPE, building, polygon, surfaces
from tests.fuzz.target import forked_native
from tests.io.buildings import box, city_gml
from tests.io.test_limap2 import TRACKS

from plueckernet.io import ifc
from plueckernet.io.limap2 import write_tracks
from plueckernet.io.source import Source


def limap2_seeds() -> tuple[bytes, ...]:
    """Tracks as text and as binary."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("lines3D.bin", "lines3D.txt")]
        for path in paths:
            write_tracks(path, TRACKS)
        return tuple(path.read_bytes() for path in paths)


def gml_seeds() -> tuple[bytes, ...]:
    """Surfaces of two levels, a curve, and a geometry that is placed by a matrix."""
    corners = box(2.0, 1.0, 3.0, (5.0, 5.0), 30.0)
    faces = [polygon(corners[:4]), polygon(corners[4:], ' srsDimension="3"')]
    matrix = " ".join(map(str, (1, 0, 0, 4, 0, 1, 0, 5, 0, 0, 1, 6, 0, 0, 0, 1)))
    implicit = (
        f"<bldg:lod2ImplicitRepresentation><core:ImplicitGeometry><core:transformationMatrix>{matrix}"
        f"</core:transformationMatrix><core:relativeGMLGeometry>{faces[0]}</core:relativeGMLGeometry><core:referencePoint>"
        "<gml:Point><gml:pos>1 2 3</gml:pos></gml:Point></core:referencePoint></core:ImplicitGeometry>"
        "</bldg:lod2ImplicitRepresentation>"
    )
    curve = "<gml:LineString><gml:coordinates>0,0,0 1,0,0 1,2,3</gml:coordinates></gml:LineString>"
    return (
        city_gml(building(surfaces(1, faces[:1]), surfaces(2, faces)), envelope=ENVELOPE).encode(),
        city_gml(building(implicit), f"<gml:featureMember>{curve}</gml:featureMember>").encode(),
    )


def mesh_seeds() -> tuple[bytes, ...]:
    """A box as binary and ASCII STL, OFF and GLB; none if trimesh is not installed."""
    try:
        import trimesh
    except ImportError:
        return ()
    mesh = trimesh.creation.box((1.0, 2.0, 3.0))
    seeds = [mesh.export(file_type=kind) for kind in ("stl", "stl_ascii", "off", "glb")]
    return tuple(seed.encode() if isinstance(seed, str) else seed for seed in seeds)


def ifc_seeds() -> tuple[bytes, ...]:
    """A house of walls with a map conversion; none if ifcopenshell is not installed."""
    try:
        from tests.io import buildings

        with tempfile.TemporaryDirectory() as folder:
            buildings.house_ifc(Path(folder) / "a.ifc", map_conversion=True)
            return ((Path(folder) / "a.ifc").read_bytes(),)
    except ImportError:
        return ()


def forked_ifc(path: Path) -> None:
    """Read IFC in a fork; what the parent has imported, the fork need not."""
    import ifcopenshell.geom  # noqa: F401

    source = Source(path)
    if not ifc.recognises(source):
        raise source.error("not IFC")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "shapes.npz"
        forked_native(source, "ifc", str(out), json.dumps([(), None]))
        with np.load(out) as arrays:
            ifc._edges(dict(arrays), source)
