"""Clouds larger than memory: sorted into tiles on disk, processed tile by tile with a margin around each.

Tiles are boxes in x and y with about the same number of points. Lines of a tile and its margin are cut at the tile's
own box, so that each is found once and the artificial ends of surfaces in the margin are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float64, Int64

from plueckernet.extraction.extracted import SegmentArrays
from plueckernet.parallel import Executor, InlineExecutor, in_order
from plueckernet.settings import check_positive

_GRID = 512  # cells per side of the grid on which tiles are cut
_CHUNK = 1_000_000  # points read at a time

Points = Float64[np.ndarray, "_ 3"]
Box = Float64[np.ndarray, "2 2"]  # lower and upper corner in x and y
_T = TypeVar("_T")
TileWork = Callable[[Points, Float64[np.ndarray, " 3"], Callable[[float], None]], tuple[SegmentArrays, _T]]


@dataclass(frozen=True)
class TileSettings:
    """How a large cloud is cut into tiles."""

    margin: float = 0.06  # width of the margin around a tile, in lengths of its longer side

    def __post_init__(self) -> None:
        check_positive(self, "margin")


@dataclass(frozen=True, eq=False)
class Spool:
    """Points on disk, relative to ``origin``, in their original order."""

    path: Path
    origin: Float64[np.ndarray, " 3"]
    count: int
    low: Float64[np.ndarray, " 3"]
    high: Float64[np.ndarray, " 3"]

    def chunks(self) -> Iterator[Points]:
        """The points in chunks."""
        with self.path.open("rb") as handle:
            while len(values := np.fromfile(handle, np.float64, 3 * _CHUNK)):
                yield values.reshape(-1, 3)


@dataclass(frozen=True, eq=False)
class _Tiles:
    """A cloud that is sorted into tiles."""

    spool: Spool  # of which only the tiles are left on disk
    boxes: list[Box]
    margin: float  # in lengths of the longer side


def spooled(chunks: Iterable[Points], folder: Path) -> Spool | None:
    """Write points to disk; None if there are none."""
    path = folder / "all.f8"
    count, origin = 0, np.zeros(3)
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    with path.open("wb") as handle:
        for chunk in chunks:
            if len(chunk) == 0:
                continue
            if count == 0:
                origin = chunk.mean(axis=0)
            offset = chunk - origin
            offset.tofile(handle)
            count += len(offset)
            low, high = np.minimum(low, offset.min(axis=0)), np.maximum(high, offset.max(axis=0))
    return Spool(path, origin, count, low, high) if count else None


def tiled(
    chunks: Iterable[Points],
    tile_points: int,
    work: TileWork[_T],
    progress: Callable[[float], None],
    settings: TileSettings = TileSettings(),
    executor: Executor = InlineExecutor(),
) -> tuple[SegmentArrays, list[_T]]:
    """Segments that ``work`` finds in tiles of at most about ``tile_points`` points, cut to the tiles.

    ``work`` gets the points, the origin that they are relative to and a function that reports the fraction done. It
    returns segments and whatever else is to be known about a tile. An executor with processes needs one that is
    picklable, and a folder of temporary files that its workers can read.
    """
    with TemporaryDirectory(prefix="plueckernet-") as name:
        spool = spooled(chunks, Path(name))
        if spool is None:
            return SegmentArrays.empty(), []
        boxes, owner = _boxes(spool, tile_points)
        _sort(spool, owner, Path(name))
        spool.path.unlink()
        tiles = _Tiles(spool, boxes, settings.margin)

        def report(place: int, fraction: float) -> None:
            progress((place + fraction) / len(boxes))

        reporting = report if isinstance(executor, InlineExecutor) else None
        segments_of = partial(_tile_segments, tiles=tiles, work=work, report=reporting)
        answers = []
        with closing(in_order(executor.run(segments_of, range(len(boxes))))) as outcomes:
            for complete, outcome in enumerate(outcomes, 1):
                answers.append(outcome.result())
                progress(complete / len(boxes))
        joined = SegmentArrays.joined([answer[0] for answer in answers if answer is not None])
        others = [answer[1] for answer in answers if answer is not None]
        return SegmentArrays(joined.ends + spool.origin, joined.support, joined.residual), others


def _tile_segments(
    place: int, tiles: _Tiles, work: TileWork[_T], report: Callable[[int, float], None] | None
) -> tuple[SegmentArrays, _T] | None:
    """The segments of a tile, relative to the spool's origin; None for a tile without points."""
    points = _with_margin(tiles.spool.path.parent, tiles.boxes, place, tiles.margin)
    if len(points) == 0:
        return None
    middle = points.mean(axis=0)

    def report_fraction(fraction: float) -> None:
        if report is not None:
            report(place, fraction)

    segments, other = work(points - middle, tiles.spool.origin + middle, report_fraction)
    moved = SegmentArrays(segments.ends + middle, segments.support, segments.residual)
    return _clipped(moved, _open_outside(tiles.boxes[place], tiles.spool)), other


def _boxes(spool: Spool, tile_points: int) -> tuple[list[Box], Int64[np.ndarray, "g g"]]:
    """Split the ground plan at the median, across its longer side, until no box has too many points.

    Returns the boxes and a grid with the number of the box of each cell of the ground plan.
    """
    low, step = spool.low[:2], np.maximum((spool.high - spool.low)[:2], 1e-9) / _GRID
    count, owner = np.zeros(_GRID**2, np.int64), np.empty((_GRID, _GRID), np.int64)
    for chunk in spool.chunks():
        count += np.bincount(_cells(chunk, spool), minlength=_GRID**2)
    grid = count.reshape(_GRID, _GRID)
    done: list[Box] = []
    pending = [(0, _GRID, 0, _GRID)]
    while pending:
        left, right, bottom, top = pending.pop()
        cells = grid[left:right, bottom:top]
        wide = (right - left) * step[0] >= (top - bottom) * step[1]
        size = right - left if wide else top - bottom
        if cells.sum() <= tile_points or size < 2:
            owner[left:right, bottom:top] = len(done)
            done.append(np.array([[left, bottom], [right, top]]) * step + low)
            continue
        running = cells.sum(axis=1 if wide else 0).cumsum()
        cut = int(np.clip(np.searchsorted(running, running[-1] / 2) + 1, 1, size - 1))
        if wide:
            pending += [(left, left + cut, bottom, top), (left + cut, right, bottom, top)]
        else:
            pending += [(left, right, bottom, bottom + cut), (left, right, bottom + cut, top)]
    return done, owner


def _cells(points: Points, spool: Spool) -> Int64[np.ndarray, " n"]:
    """The cells of the grid that contain the points, numbered row by row."""
    step = np.maximum((spool.high - spool.low)[:2], 1e-9) / _GRID
    place = np.clip(((points[:, :2] - spool.low[:2]) / step).astype(np.int64), 0, _GRID - 1)
    return np.asarray(place[:, 0] * _GRID + place[:, 1])


def _sort(spool: Spool, owner: Int64[np.ndarray, "g g"], folder: Path) -> None:
    """Write the points of each box to its own file."""
    for chunk in spool.chunks():
        box = owner.ravel()[_cells(chunk, spool)]
        order = np.argsort(box, kind="stable")
        names, starts = np.unique(box[order], return_index=True)
        for name, points in zip(names, np.split(chunk[order], starts[1:]), strict=True):
            with (folder / f"{name}.f8").open("ab") as handle:
                points.tofile(handle)


def _open_outside(box: Box, spool: Spool) -> Box:
    """The box without limits where the cloud ends."""
    extent = np.stack([spool.low[:2], spool.high[:2]])
    near = np.abs(box - extent) < 1e-6 * (extent[1] - extent[0] + 1)
    return np.asarray(np.where(near, [[-np.inf] * 2, [np.inf] * 2], box))


def _inside(points: Points, box: Box) -> Bool[np.ndarray, " n"]:
    return np.asarray(((points[:, :2] >= box[0]) & (points[:, :2] < box[1])).all(axis=1))


def _with_margin(folder: Path, boxes: list[Box], place: int, margin: float) -> Points:
    """The points of a box and of the margin around it, given in lengths of the box's longer side."""
    own = boxes[place]
    wide = own + margin * float((own[1] - own[0]).max()) * np.array([[-1.0], [1.0]])
    sets = [np.empty((0, 3))]
    for other, box in enumerate(boxes):
        path = folder / f"{other}.f8"
        if path.exists() and (box[0] < wide[1]).all() and (box[1] > wide[0]).all():
            points = np.fromfile(path, np.float64).reshape(-1, 3)
            sets.append(points if other == place else points[_inside(points, wide)])
    return np.concatenate(sets)


def _clipped(segments: SegmentArrays, box: Box) -> SegmentArrays:
    """The pieces of the segments inside the box; support is proportional to length."""
    start, span = segments.ends[:, 0], segments.ends[:, 1] - segments.ends[:, 0]
    first, last = np.zeros(len(segments)), np.ones(len(segments))
    for axis in range(2):
        with np.errstate(divide="ignore", invalid="ignore"):
            entry = (box[0, axis] - start[:, axis]) / span[:, axis]
            leave = (box[1, axis] - start[:, axis]) / span[:, axis]
        outside = (start[:, axis] < box[0, axis]) | (start[:, axis] >= box[1, axis])
        flat = span[:, axis] == 0
        entry, leave = np.minimum(entry, leave), np.maximum(entry, leave)
        first = np.where(flat, first, np.maximum(first, np.nan_to_num(entry, nan=0.0)))
        last = np.where(flat, np.where(outside, -1.0, last), np.minimum(last, np.nan_to_num(leave, nan=1.0)))
    keep = last - first > 1e-6
    ends = np.stack([start + first[:, None] * span, start + last[:, None] * span], axis=1)[keep]
    support = np.ceil(segments.support * (last - first))[keep].astype(np.int64)
    return SegmentArrays(ends, support, segments.residual[keep])
