"""`read_lines`: read a file of any known format into a clean `LineSet`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float64

from plueckernet.errors import FormatError, InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.io.files import check_regular
from plueckernet.io.registry import format_named, format_of_content
from plueckernet.io.source import MAX_LINES, RawLines, Source

_log = logging.getLogger("plueckernet")
_MIN_LENGTH = 1e-150  # below it the square of a length underflows in float64
_EXACT = 1e-12  # lines this close to a unit direction and an orthogonal moment are kept bit for bit

NOT_FINITE = "not finite"
ZERO_LENGTH = "zero length"


@dataclass(frozen=True)
class ReadReport:
    """The lines of a file and how they were read.

    Attributes:
        path: The file.
        format: Name of the format.
        lines: The usable lines.
        dropped: Number of skipped lines by reason.
        notes: Remarks about how the file was read.
        crs: The coordinate reference system that the file names, such as `EPSG:25832`.
    """

    path: Path
    format: str
    lines: LineSet
    dropped: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    crs: str | None = None


def read_lines(
    path: str | Path,
    *,
    format: str | None = None,
    lod: str | float | None = None,
    types: Sequence[str] = (),
    storey: str | None = None,
    max_lines: int = MAX_LINES,
) -> LineSet:
    """Read a line map in float64.

    Segments of zero length and lines with non-finite coordinates are skipped, with a warning on the logger
    `plueckernet`; `ids` then has the index in the file of each remaining line. Every other problem raises.

    Args:
        path: The file, a folder of LIMAP tracks, or a COLMAP model with the lines of LIMAP 2.
        format: One of the names in `FORMATS`; by default the content decides, otherwise the suffix.
        lod: Level of detail of CityJSON or CityGML, such as `"2.2"`; by default the highest of each object.
        types: Types of elements of IFC, such as `"IfcWall"`, with those derived from them; by default all.
        storey: Name of a storey of IFC; by default all.
        max_lines: The largest number of lines where a small file can declare many: repeated blocks of DXF, templates of
            CityJSON, compressed NPZ.

    Raises:
        FormatError: The file cannot be read; the message names the file and, for text, the line.
    """
    report = read_lines_report(path, format=format, lod=lod, types=types, storey=storey, max_lines=max_lines)
    for reason, count in report.dropped.items():
        _log.warning("%s: skipped %d lines: %s", path, count, reason)
    return report.lines


def read_lines_report(
    path: str | Path,
    *,
    progress: Callable[[float], None] | None = None,
    format: str | None = None,
    lod: str | float | None = None,
    types: Sequence[str] = (),
    storey: str | None = None,
    max_lines: int = MAX_LINES,
) -> ReadReport:
    """Read a line map like `read_lines`, and report what was read and what was skipped."""
    source = Source(Path(path), _level_of_detail(lod), progress, tuple(types), storey, max_lines)
    check_regular(source.path)
    try:
        if not source.path.stat().st_size and source.path.is_file():
            raise source.error("the file is empty")
        chosen = format_of_content(source) if format is None else format_named(format)
        if lod is not None and not chosen.has_levels:
            raise InputError(f"{path}: lod is for CityJSON and CityGML; this is {chosen.name}")
        if (types or storey is not None) and not chosen.has_elements:
            raise InputError(f"{path}: types and storey are for IFC; this is {chosen.name}")
        raw = chosen.read(source)
    except OSError as error:
        raise FormatError(path, (error.strerror or str(error)).lower()) from error
    lines, dropped = _cleaned(raw)
    if len(lines) == 0:
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "none at all"
        raise source.error(f"no usable lines: {reasons}")
    return ReadReport(source.path, chosen.name, lines, dropped, raw.notes, raw.crs)


def _level_of_detail(lod: str | float | None) -> str | None:
    if lod is None:
        return None
    try:
        float(lod)
    except ValueError:
        raise InputError(f"level of detail: expected a number such as 2.2, got {lod!r}") from None
    return str(lod)


def _cleaned(raw: RawLines) -> tuple[LineSet, dict[str, int]]:
    """The usable lines, and the number of skipped lines by reason."""
    values = raw.endpoints if raw.endpoints is not None else raw.pluecker
    if values is None:
        raise InputError("a reader returned neither endpoints nor Plücker coordinates")
    with np.errstate(all="ignore"):
        length = _lengths(values)
        # Coordinates so large that a length or a sum overflows also count as not finite.
        finite = np.isfinite(2 * values).all(axis=tuple(range(1, values.ndim))) & np.isfinite(length)
    zero = finite & (length < _MIN_LENGTH)
    keep = finite & ~zero
    dropped = {NOT_FINITE: int((~finite).sum()), ZERO_LENGTH: int(zero.sum())}
    kept = torch.from_numpy(np.ascontiguousarray(values[keep] if not keep.all() else values))
    lines = LineSet.from_segments(kept) if raw.endpoints is not None else _infinite(kept)
    known = {"sigma": raw.sigma, "views": raw.views}
    fields = {name: torch.from_numpy(np.array(values[keep])) for name, values in known.items() if values is not None}
    lines = lines.replaced(ids=_ids(raw, keep), **fields)
    return lines, {reason: count for reason, count in dropped.items() if count}


def _lengths(values: Float64[np.ndarray, "n _ _"] | Float64[np.ndarray, "n 6"]) -> Float64[np.ndarray, " n"]:
    span = values[:, 1] - values[:, 0] if values.ndim == 3 else values[:, 3:]
    return np.asarray(np.sqrt(np.square(span).sum(axis=1)))


def _ids(raw: RawLines, keep: Bool[np.ndarray, " n"]) -> torch.Tensor | None:
    """The ids in the file, or the indices in the file; None if they equal the indices in the set."""
    ids = np.arange(len(keep)) if raw.ids is None else raw.ids
    kept = ids[keep]
    return None if np.array_equal(kept, np.arange(len(kept))) else torch.from_numpy(kept)


def _infinite(pluecker: torch.Tensor) -> LineSet:
    moment, direction = pluecker[:, :3], pluecker[:, 3:]
    off_unit = (direction.norm(dim=-1) - 1).abs()
    off_right_angle = (moment * direction).sum(-1).abs() / moment.norm(dim=-1).clamp_min(1)
    if bool((torch.maximum(off_unit, off_right_angle) < _EXACT).all()):
        return LineSet(direction.contiguous(), moment.contiguous())
    return LineSet.from_pluecker(pluecker)
