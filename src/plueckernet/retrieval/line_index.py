"""An index of a large map, built once, in which parts of it are found."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from plueckernet.errors import FormatError, InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.io.atomic import atomic_write_bytes
from plueckernet.io.files import check_regular
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.retrieval.line_pairs import LEVELS, LinePairs, Segments, level_lengths, neighbouring_pairs
from plueckernet.retrieval.pair_table import PairTable
from plueckernet.retrieval.votes import VotedPlace, pose_votes, voted_places

_KIND, _VERSION = "plueckernet line index", "1"
_TOLERANCE = 0.15  # of gaps and offsets, in median lengths of the lines
_CELLS = 12  # of the votes, in an extent of the part
_MIN_CELL = 5.0  # tolerances
_EXTENT_QUANTILE = 0.95  # of the distances from the centre, that the extent of a part is
_MIN_LINES = 3
_MAX_PAIRS_PER_LINE = sum(count for _, count in LEVELS)


class LineIndex:
    """A map with the pairs of its neighbouring lines, by their shape.

    :meth:`build` takes seconds for 100,000 lines. :meth:`save` and :meth:`load` keep it in a file.
    """

    def __init__(self, lines: LineSet, rows: Int[Tensor, "k 2"], tolerance: float) -> None:
        """Use :meth:`build` or :meth:`load`."""
        self.lines, self.tolerance = lines, tolerance
        self._centre = lines.midpoints().median(0).values
        segments = Segments.of(lines, self._centre)
        self._levels = level_lengths(segments)
        self._table = PairTable(segments, rows, tolerance)

    @classmethod
    def build(
        cls,
        lines: LinesLike,
        *,
        tolerance: float | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> LineIndex:
        """Index a map of segments: a :class:`~plueckernet.LineSet`, the path of a file, or end points.

        ``tolerance`` is by how much distances between neighbouring lines may differ in a part, in the unit of the map;
        the default follows from the lengths of the lines. ``progress`` is called with the fraction that is done.
        """
        lines = _checked(as_lines(lines))
        segments = Segments.of(lines, lines.midpoints().median(0).values)
        if tolerance is None:
            tolerance = _TOLERANCE * 2 * float(segments.half_length.median())
        elif not (math.isfinite(tolerance) and tolerance > 0):
            raise InputError(f"tolerance of a line index: expected a positive length, got {tolerance!r}")
        return LineIndex(lines, neighbouring_pairs(segments, level_lengths(segments), progress), tolerance)

    def __len__(self) -> int:
        return len(self.lines)

    def __repr__(self) -> str:
        return f"LineIndex({len(self)} lines, {len(self._table)} pairs, tolerance {self.tolerance:.3g})"

    def places(self, submap: LinesLike, count: int = 16, skipped: tuple[int, int] = (0, 0)) -> tuple[VotedPlace, ...]:
        """Where a part may lie, the most probable first; lines from row to row of ``skipped`` do not count."""
        lines = _checked(as_lines(submap))
        origin = lines.midpoints().median(0).values
        segments = Segments.of(lines, origin)
        pairs = LinePairs.of(segments, neighbouring_pairs(segments, self._levels))
        centre = torch.zeros(3)
        extent = float(segments.midpoint.norm(dim=-1).quantile(_EXTENT_QUANTILE))
        votes = pose_votes(pairs, centre, self._table, skipped)
        cell = max(extent / _CELLS, _MIN_CELL * self.tolerance)
        return tuple(self._original(place, origin) for place in voted_places(votes, centre, cell, count))

    def rows_around(self, centre: Float[Tensor, "3"], radius: float) -> Int[Tensor, " k"]:
        """Lines that pass within a distance of a point."""
        start = self.lines.midpoints() - self.lines.direction * (self.lines.lengths() / 2)[:, None]
        length = self.lines.lengths()
        along = ((centre - start) * self.lines.direction).sum(-1).clamp_min(0).minimum(length)
        nearest = start + along[:, None] * self.lines.direction
        return ((nearest - centre).norm(dim=-1) < radius).nonzero()[:, 0]

    def covers(self, lines: LineSet) -> bool:
        """Whether this is the index of these lines."""
        endpoints, own = lines.endpoints, self.lines.endpoints
        return endpoints is not None and own is not None and torch.equal(endpoints.to(own), own)

    def save(self, path: str | Path) -> None:
        """Write the index; an existing file stays whole if writing fails."""
        about = {"kind": _KIND, "version": _VERSION, "tolerance": json.dumps(self.tolerance)}
        tensors = {"endpoints": self.lines.endpoints.contiguous(), "pairs": self._table.rows.int().contiguous()}  # type: ignore[union-attr]
        with atomic_write_bytes(path) as stream:
            stream.write(save(tensors, about))

    @classmethod
    def load(cls, path: str | Path) -> LineIndex:
        """Read what :meth:`save` wrote; anything else raises :class:`~plueckernet.FormatError`."""
        about, tensors = _read(Path(path))
        if about.get("kind") != _KIND or about.get("version") != _VERSION:
            raise FormatError(path, f"not a line index of version {_VERSION}")
        endpoints, rows = tensors.get("endpoints"), tensors.get("pairs")
        if endpoints is None or endpoints.dtype != torch.float64 or endpoints.shape[1:] != (2, 3):
            raise FormatError(path, "line index: expected end points (n, 2, 3) in double precision")
        if rows is None or rows.dtype != torch.int32 or rows.shape[1:] != (2,):
            raise FormatError(path, "line index: expected pairs (k, 2) of whole numbers")
        _check_rows(path, rows, len(endpoints))
        try:
            tolerance = float(about.get("tolerance", "nan"))
            lines = _checked(LineSet.from_segments(endpoints))
        except ValueError as error:
            raise FormatError(path, f"line index: {error}") from error
        if not (math.isfinite(tolerance) and tolerance > 0):
            raise FormatError(path, f"line index: expected a positive tolerance, found {about.get('tolerance')!r}")
        return LineIndex(lines, rows.long(), tolerance)

    def _original(self, place: VotedPlace, origin: Float[Tensor, "3"]) -> VotedPlace:
        """A place in the frames of the maps as they were given."""
        pose = place.whole_T_part
        translation = pose.translation + self._centre - pose.rotation @ origin
        return VotedPlace(type(pose)(pose.rotation, translation), place.centre + self._centre, place.score, place.pairs)


def _checked(lines: LineSet) -> LineSet:
    if lines.direction.ndim != 2:
        raise InputError("a line index needs one line set, not a batch")
    if lines.endpoints is None:
        raise InputError("a line index needs segments; these lines have no end points")
    if len(lines) < _MIN_LINES:
        raise InputError(f"a map of {len(lines)} lines; at least three are needed")
    if not bool(torch.isfinite(lines.endpoints).all()):
        raise InputError("the map has coordinates that are not finite")
    return lines.to(torch.float64).to("cpu")


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {}), {name: file.get_tensor(name) for name in ("endpoints", "pairs")}
    except (SafetensorError, OSError, ValueError, OverflowError) as error:
        raise FormatError(path, f"not a line index: {error}") from error


def _check_rows(path: str | Path, rows: Tensor, count: int) -> None:
    """The rows of a file by a stranger: within the map, of two lines, and no more than are ever built."""
    if len(rows) > _MAX_PAIRS_PER_LINE * count:
        raise FormatError(path, f"line index: {len(rows)} pairs are too many for {count} lines")
    if len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < count and bool((rows[:, 0] != rows[:, 1]).all())):
        raise FormatError(path, f"line index: pairs of lines that the map of {count} lines does not have")
