"""The file formats and their recognition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.io import arrays, cityjson, dxf, gml, ifc, limap, limap2, line3dpp, mesh, obj, ply, table
from plueckernet.io.source import POINT_CLOUD, RawLines, Source

_CLOUD_SIGNATURES = (b"LASF", b"ASTM-E57", b"# .PCD", b"VERSION")
SegmentWriter = Callable[[Path, Float64[np.ndarray, "n 2 3"]], None]


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        name: The value of `format=` and `--from`.
        description: A short description.
        suffixes: File name suffixes; the first format with a suffix writes it.
        recognises: Recognises a file by its content.
        read: The reader.
        write: The writer of segments, if there is one.
        write_all: The writer of all that a line set knows, if the format can hold it.
        has_levels: Whether a level of detail can be chosen.
        has_elements: Whether types of elements and a storey can be chosen.
    """

    name: str
    description: str
    suffixes: tuple[str, ...]
    recognises: Callable[[Source], bool]
    read: Callable[[Source], RawLines]
    write: SegmentWriter | None = None
    write_all: Callable[[Path, LineSet], None] | None = None
    has_levels: bool = False
    has_elements: bool = False

    @property
    def is_writable(self) -> bool:
        """Whether lines can be written in this format."""
        return self.write is not None or self.write_all is not None


# In the order in which they are tried: magic bytes first, the most general text last.
FORMATS = (
    Format("npy", "NumPy array", (".npy",), arrays.recognises_npy, arrays.read_npy, arrays.write_npy),
    Format("npz", "NumPy archive; infinite lines too", (".npz",), arrays.recognises_npz, arrays.read_npz,
           write_all=arrays.write_npz),
    Format("ply", "PLY with edges (Open3D)", (".ply",), ply.recognises, ply.read, ply.write),
    Format("dxf", "AutoCAD DXF", (".dxf",), dxf.recognises, dxf.read, dxf.write),
    Format("cityjson", "CityJSON 1.0–2.0", (".json", ".cityjson"), cityjson.recognises, cityjson.read,
           has_levels=True),
    Format("gml", "CityGML and GML", (".gml", ".citygml", ".xml"), gml.recognises, gml.read, has_levels=True),
    Format("ifc", "IFC, in metres", (".ifc",), ifc.recognises, ifc.read, has_elements=True),
    Format("mesh", "feature edges: STL, GLB, OFF", (".stl", ".glb", ".gltf", ".off"), mesh.recognises, mesh.read),
    Format("obj", "Wavefront OBJ", (".obj",), obj.recognises, obj.read, obj.write),
    Format("limap2", "LIMAP 2: COLMAP model with lines", (), limap2.recognises, limap2.read, write_all=limap2.write),
    Format("limap", "LIMAP 1 tracks: folder or alltracks.txt", (), limap.recognises, limap.read, limap.write),
    Format("line3dpp", "Line3D++ text", (), line3dpp.recognises, line3dpp.read, line3dpp.write),
    Format("csv", "six columns with commas", (".csv",), table.recognises_csv, table.read, table.write_csv),
    Format("txt", "six columns with blanks", (".txt", ".dat"), table.recognises_text, table.read, table.write_text),
)  # fmt: skip


def format_named(name: str) -> Format:
    """The format of this name."""
    for known in FORMATS:
        if known.name == name.lower():
            return known
    raise InputError(f"unknown format {name!r}; known: {', '.join(known.name for known in FORMATS)}")


def format_of_suffix(path: Path) -> Format | None:
    """The format that belongs to the suffix of a file name."""
    return next((known for known in FORMATS if path.suffix.lower() in known.suffixes), None)


def format_of_content(source: Source) -> Format:
    """The format of a file by its content, otherwise by its suffix; the reader then reports the problem."""
    recognised = next((known for known in FORMATS if known.recognises(source)), None) or format_of_suffix(source.path)
    if recognised is None and source.head.startswith(_CLOUD_SIGNATURES):
        raise source.error(POINT_CLOUD)
    if recognised is None:
        kind = "binary" if source.is_binary else "text"
        raise source.error(f"unrecognised {kind}; known formats: {', '.join(known.name for known in FORMATS)}")
    return recognised
