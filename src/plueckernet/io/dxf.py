"""DXF: LINE, POLYLINE, LWPOLYLINE and the edges of 3DFACE in model space, blocks (INSERT) included.

Curved segments of polylines and all other entities are skipped and counted. Only reading needs ezdxf.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import MissingDependencyError
from plueckernet.io.atomic import atomic_write
from plueckernet.io.edges import unique_edges
from plueckernet.io.rows import write_rows
from plueckernet.io.source import RawLines, Source

if TYPE_CHECKING:
    from ezdxf.document import Drawing
    from ezdxf.entities.dxfentity import DXFEntity
    from ezdxf.entities.insert import Insert
    from ezdxf.entities.solid import Face3d

_BINARY_MAGIC = b"AutoCAD Binary DXF"
_MAX_BLOCK_DEPTH = 32  # nesting of blocks; a deeper file refers to itself
_Segment = tuple[tuple[float, float, float], tuple[float, float, float]]


def recognises(source: Source) -> bool:
    """Whether the file starts with a section (or a comment, group 999) of DXF."""
    if source.head.startswith(_BINARY_MAGIC):
        return True
    rows = source.head_rows[:2]
    return rows == ["0", "SECTION"] or rows[:1] == ["999"]


def read(source: Source) -> RawLines:
    """Read the straight lines of a DXF drawing."""
    collected = _Collected()
    document = _open(source)
    try:
        collected.visit(document.modelspace(), depth=0)
        units = int(document.header.get("$INSUNITS", 0))
    except RecursionError:
        raise source.error("blocks that contain themselves") from None
    except Exception as error:
        raise source.error(f"damaged DXF: {error}") from error
    lines = np.array(collected.lines, dtype=np.float64).reshape(-1, 2, 3)
    corners = np.array(collected.face_edges, dtype=np.float64).reshape(-1, 3)
    edges = unique_edges(corners, np.arange(len(corners)).reshape(-1, 2))
    return RawLines(np.concatenate([lines, edges]), notes=tuple(collected.notes(units)))


def write(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write one LINE per segment in version R12, which every program reads."""
    line = "0\nLINE\n8\n0\n10\n%r\n20\n%r\n30\n%r\n11\n%r\n21\n%r\n31\n%r\n"
    with atomic_write(path) as handle:
        handle.write("0\nSECTION\n2\nHEADER\n9\n$ACADVER\n1\nAC1009\n0\nENDSEC\n")
        handle.write("0\nSECTION\n2\nENTITIES\n")
        write_rows(handle, line, endpoints.reshape(-1, 6))
        handle.write("0\nENDSEC\n0\nEOF\n")


@dataclass
class _Collected:
    """Segments and counts collected from the entities."""

    lines: list[_Segment] = field(default_factory=list)
    face_edges: list[_Segment] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    def visit(self, entities: Iterable[DXFEntity], depth: int) -> None:
        for entity in entities:
            match entity.dxftype():
                case "LINE":
                    self.lines.append((entity.dxf.start.xyz, entity.dxf.end.xyz))
                case "POLYLINE" | "LWPOLYLINE":
                    self.visit(entity.virtual_entities(), depth)  # type: ignore[attr-defined]
                case "3DFACE":
                    self.face_edges.extend(_visible_edges(entity))  # type: ignore[arg-type]
                case "INSERT" if depth < _MAX_BLOCK_DEPTH:
                    for insert in _single(entity):  # type: ignore[arg-type]
                        self.visit(insert.virtual_entities(), depth + 1)
                case other:
                    self.ignored[other] += 1

    def notes(self, units: int) -> Iterator[str]:
        if self.ignored:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.ignored.items()))
            yield f"skipped, not straight lines: {counts}"
        if units:
            from ezdxf import units as names

            yield f"drawing unit: {names.decode(units) or units}"


def _single(insert: Insert) -> Iterable[Insert]:
    """An INSERT may represent a grid of inserts."""
    return insert.multi_insert() if insert.mcount > 1 else [insert]


def _visible_edges(face: Face3d) -> Iterator[_Segment]:
    dxf = face.dxf
    corners = [dxf.vtx0, dxf.vtx1, dxf.vtx2, dxf.get("vtx3", dxf.vtx2)]
    for place, visible in enumerate(face.get_edges_visibility()):
        if visible:
            yield corners[place].xyz, corners[(place + 1) % 4].xyz


def _open(source: Source) -> Drawing:
    try:
        from ezdxf import recover
        from ezdxf.filemanagement import readfile
        from ezdxf.lldxf.const import DXFStructureError
    except ImportError as error:
        raise MissingDependencyError("ezdxf", "io") from error
    try:
        return readfile(source.path)
    except DXFStructureError:  # many programs write drawings that only the recovering reader accepts
        pass
    except Exception as error:
        raise source.error(f"not a DXF drawing: {error}") from error
    try:
        return recover.readfile(source.path)[0]
    except Exception as error:
        raise source.error(f"not a DXF drawing: {error}") from error
