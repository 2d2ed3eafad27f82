"""DXF: LINE, POLYLINE, LWPOLYLINE and the edges of 3DFACE in model space, blocks (INSERT) included.

Curved segments of polylines and all other entities are skipped and counted. Only reading needs ezdxf.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import FormatError, MissingDependencyError
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
_MAX_BLOCK_DEPTH = 64  # nesting of blocks
_Segment = tuple[tuple[float, float, float], tuple[float, float, float]]
_Segments = Float64[np.ndarray, "_ 2 3"]


def recognises(source: Source) -> bool:
    """Whether the file starts with a section (or a comment, group 999) of DXF."""
    if source.head.startswith(_BINARY_MAGIC):
        return True
    rows = source.head_rows[:2]
    return rows == ["0", "SECTION"] or rows[:1] == ["999"]


def read(source: Source) -> RawLines:
    """Read the straight lines of a DXF drawing."""
    document = open_drawing(source)
    try:
        content = _Collector(source).content(document.modelspace())
        units = int(document.header.get("$INSUNITS", 0))
    except FormatError:
        raise
    except Exception as error:
        raise source.error(f"damaged DXF: {error}") from error
    corners = content.face_edges.reshape(-1, 3)
    edges = unique_edges(corners, np.arange(len(corners)).reshape(-1, 2))
    return RawLines(np.concatenate([content.lines, edges]), notes=tuple(content.notes(units)))


def write(path: Path, endpoints: Float64[np.ndarray, "n 2 3"]) -> None:
    """Write one LINE per segment in version R12, which every program reads."""
    line = "0\nLINE\n8\n0\n10\n%r\n20\n%r\n30\n%r\n11\n%r\n21\n%r\n31\n%r\n"
    with atomic_write(path) as handle:
        handle.write("0\nSECTION\n2\nHEADER\n9\n$ACADVER\n1\nAC1009\n0\nENDSEC\n")
        handle.write("0\nSECTION\n2\nENTITIES\n")
        write_rows(handle, line, endpoints.reshape(-1, 6))
        handle.write("0\nENDSEC\n0\nEOF\n")


@dataclass(frozen=True, eq=False)
class _Content:
    """The straight lines of a block or of the model space, and how many other entities it has."""

    lines: _Segments
    face_edges: _Segments
    ignored: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.lines) + len(self.face_edges)

    def notes(self, units: int) -> Iterator[str]:
        if self.ignored:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.ignored.items()))
            yield f"skipped, not straight lines: {counts}"
        if units:
            from ezdxf import units as names

            yield f"drawing unit: {names.decode(units) or units}"


class _Collector:
    """Collects lines. Each block is collected once and then moved for each of its references (INSERT)."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._blocks: dict[str, _Content] = {}
        self._open: list[str] = []  # the blocks that are being collected, each within the one before

    def content(self, entities: Iterable[DXFEntity]) -> _Content:
        lines, faces, ignored = _Pieces(), _Pieces(), Counter[str]()
        for entity in entities:
            match entity.dxftype():
                case "INSERT":
                    placed = self._placed(entity, len(lines) + len(faces))  # type: ignore[arg-type]
                    lines.blocks.append(placed.lines)
                    faces.blocks.append(placed.face_edges)
                    ignored.update(placed.ignored)
                case "3DFACE":
                    faces.segments.extend(_visible_edges(entity))  # type: ignore[arg-type]
                case "POLYLINE" | "LWPOLYLINE":
                    for piece in entity.virtual_entities():  # type: ignore[attr-defined]
                        self._simple(piece, lines, faces, ignored)
                case _:
                    self._simple(entity, lines, faces, ignored)
        return _Content(lines.joined(), faces.joined(), ignored)

    def _simple(self, entity: DXFEntity, lines: _Pieces, faces: _Pieces, ignored: Counter[str]) -> None:
        if entity.dxftype() == "LINE":
            lines.segments.append((entity.dxf.start.xyz, entity.dxf.end.xyz))
        elif entity.dxftype() == "3DFACE":
            faces.segments.extend(_visible_edges(entity))  # type: ignore[arg-type]
        else:
            ignored[entity.dxftype()] += 1

    def _placed(self, insert: Insert, before: int) -> _Content:
        """The content of a block at each place of a reference, which may be a grid."""
        block, copies = self._block(insert), max(1, insert.mcount)
        self._source.check_count(before + copies * len(block), "lines in blocks")
        matrix = np.array(list(insert.matrix44())).reshape(4, 4)  # of row vectors
        offsets = _grid(insert) if len(block) else np.zeros((1, 3))

        def moved(segments: _Segments) -> _Segments:
            points = segments @ matrix[:3, :3] + matrix[3, :3]
            return (points[None] + offsets[:, None, None]).reshape(-1, 2, 3)

        ignored = Counter({kind: copies * count for kind, count in block.ignored.items()})
        return _Content(moved(block.lines), moved(block.face_edges), ignored)

    def _block(self, insert: Insert) -> _Content:
        name = insert.dxf.name.lower()
        if name not in self._blocks:
            layout = insert.block()
            if layout is None:
                raise ValueError(f"there is no block {insert.dxf.name!a}")
            if name in self._open or len(self._open) >= _MAX_BLOCK_DEPTH:
                raise self._source.error("blocks that contain themselves, or each other too deeply")
            self._open.append(name)
            self._blocks[name] = self.content(entity for entity in layout if entity.dxftype() != "ATTDEF")
            self._open.pop()
        return self._blocks[name]


class _Pieces:
    """Segments one by one, and arrays of them from blocks."""

    def __init__(self) -> None:
        self.segments: list[_Segment] = []
        self.blocks: list[_Segments] = []

    def __len__(self) -> int:
        return len(self.segments) + sum(map(len, self.blocks))

    def joined(self) -> _Segments:
        return np.concatenate([np.array(self.segments, dtype=np.float64).reshape(-1, 2, 3), *self.blocks])


def _grid(insert: Insert) -> Float64[np.ndarray, "k 3"]:
    """The displacements of the copies of an INSERT, which may represent a grid; its scale does not apply to them."""
    dxf = insert.dxf
    rows = np.arange(dxf.row_count if dxf.row_spacing else 1) * dxf.row_spacing
    columns = np.arange(dxf.column_count if dxf.column_spacing else 1) * dxf.column_spacing
    y, x = (axis.ravel() for axis in np.meshgrid(rows, columns, indexing="ij"))
    angle, axes = np.radians(dxf.rotation), insert.ocs()
    across, up = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([-np.sin(angle), np.cos(angle), 0.0])
    to_world = np.array([axes.to_wcs(tuple(unit)) for unit in np.eye(3)])
    return np.asarray((np.outer(x, across) + np.outer(y, up)) @ to_world)


def _visible_edges(face: Face3d) -> Iterator[_Segment]:
    dxf = face.dxf
    corners = [dxf.vtx0, dxf.vtx1, dxf.vtx2, dxf.get("vtx3", dxf.vtx2)]
    for place, visible in enumerate(face.get_edges_visibility()):
        if visible:
            yield corners[place].xyz, corners[(place + 1) % 4].xyz


def open_drawing(source: Source) -> Drawing:
    """The drawing of a file, also of one that only the recovering reader accepts."""
    try:
        from ezdxf import recover
        from ezdxf.filemanagement import readfile
        from ezdxf.lldxf.const import DXFStructureError
    except ImportError as error:
        raise MissingDependencyError("ezdxf", "io") from error
    logging.getLogger("ezdxf").setLevel(logging.CRITICAL)  # a damaged file is told by our error alone
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
