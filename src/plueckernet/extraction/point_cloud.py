"""Lines from point clouds, in the manner of Lu, Liu and Li (2019).

Nodes with normals, planes, outlines of planes, edges where planes meet, straight pieces of what is left of the
outlines, and one segment for what was found more than once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64
from scipy.spatial import cKDTree

from plueckernet.errors import InputError, ShapeError
from plueckernet.extraction.boundaries import by_plane, going_on, outline
from plueckernet.extraction.clouds.reading import CHUNK, point_chunks
from plueckernet.extraction.creases import creases
from plueckernet.extraction.edges import Surface, outline_segments
from plueckernet.extraction.extracted import ExtractedLines, Segments
from plueckernet.extraction.neighbourhoods import flattened, make_nodes, spacing_and_noise
from plueckernet.extraction.planes import grow_planes
from plueckernet.extraction.segments import merged
from plueckernet.extraction.tiles import Points, tiled
from plueckernet.extraction.visibility import View

_log = logging.getLogger("plueckernet")
_MANY = 500_000  # points from which on a cloud is thinned in earnest
_THINNING = (0.7, 1.5)  # cell over spacing of the points, below and above
_NOISE_CELLS = 4.0  # a cell is at least this many times the noise
_SCATTERED = 0.75  # noise over spacing from which points are flattened first
_FLATTENED = 0.25  # noise that flattening leaves
_SAME = 1.5  # cells between segments that are one
_BRIDGED = 3.0  # cells between ends of segments that are one
_LENGTH = 8.0  # shortest segment in spacings, by default
_CREASE_LENGTH = 4.0  # the same of one where planes meet: both planes tell its direction


@dataclass(frozen=True)
class PointCloudSettings:
    """How lines are found in a cloud; the defaults follow the cloud.

    Attributes:
        spacing: Points are thinned to this distance, in metres; by default by its own spacing and noise.
        flatness: Distance from a plane up to which a point belongs to it, in metres; by default three times the noise.
        min_length: Shortest segment, in metres; by default 8 spacings, or 4 where two planes meet.
        min_plane: Fewest nodes of a plane.
        viewpoint: Where a single scan was taken from, if known: ends of surfaces that are shadows of something nearer,
            or the rim of the field of view, are then left out.
        tile_points: Larger clouds go tile by tile; it bounds the memory, to less than 1 GB for each million.
        workers: Threads that search neighbours; -1 for one a core.
        seed: Of the samples drawn.
    """

    spacing: float | None = None
    flatness: float | None = None
    min_length: float | None = None
    min_plane: int = 30
    viewpoint: tuple[float, float, float] | None = None
    tile_points: int = 2_000_000
    workers: int = -1
    seed: int = 0


@dataclass(frozen=True)
class Scale:
    """The lengths that rule an extraction, in metres: cells of thinning, flatness of planes, shortest segments."""

    cell: float
    flatness: float
    least: float
    least_crease: float  # where planes meet
    scattered: bool = False  # whether noise is so large that points have to be moved onto surfaces first

    @classmethod
    def of(cls, count: int, spacing: float, noise: float, settings: PointCloudSettings) -> Scale:
        """What the settings say, or else what so many points of this spacing and noise allow."""
        fine = _THINNING[count > _MANY] * spacing
        scattered = noise > _SCATTERED * spacing
        cell = settings.spacing or max(fine, (2.0 if scattered else _NOISE_CELLS) * noise)
        flatness = settings.flatness or max((1.0 if scattered else 3.0) * noise, 0.6 * min(cell, spacing))
        least, least_crease = (
            settings.min_length or length * max(cell, spacing) for length in (_LENGTH, _CREASE_LENGTH)
        )
        return Scale(cell, flatness, least, least_crease, scattered)


def extract_lines(
    points: Float[np.ndarray, "n 3"] | str | Path,
    settings: PointCloudSettings = PointCloudSettings(),
    progress: Callable[[float], None] | None = None,
) -> ExtractedLines:
    """Segments at the edges of the planes in a point cloud.

    Clouds of more than ``settings.tile_points`` points go tile by tile over a temporary file.

    Args:
        points: Coordinates in metres, or a file of them (see `read_points`); what is not finite is left out.
        settings: See :class:`PointCloudSettings`.
        progress: Called now and then with the share done, in [0, 1].

    Raises:
        FormatError: The file cannot be read.
        InputError: There are no points.
    """
    scales: list[Scale] = []

    def work(near: Points, origin: Float64[np.ndarray, " 3"], report: Callable[[float], None]) -> Segments:
        scale, segments = cloud_segments(near, origin, settings, report)
        scales.append(scale)
        return segments

    chunks = point_chunks(points) if isinstance(points, str | Path) else _array_chunks(points)
    found = tiled(chunks, settings.tile_points, work, progress or (lambda _: None))
    if not scales:
        raise InputError(f"{points if isinstance(points, str | Path) else 'points'}: no points with finite coordinates")
    if len(scales) > 1:
        cell = float(np.median([scale.cell for scale in scales]))
        found = merged(found, _SAME * cell, _BRIDGED * cell)
    return found.take(found.lengths() >= min(scale.least_crease for scale in scales)).extracted()


def _array_chunks(points: Float[np.ndarray, "n 3"]) -> Iterator[Points]:
    if points.ndim != 2 or points.shape[1] != 3:
        raise ShapeError("points", ("n", 3), points.shape)
    for start in range(0, len(points), CHUNK):
        part = points[start : start + CHUNK].astype(np.float64)
        yield part[np.isfinite(part).all(axis=1)]


def cloud_segments(
    points: Points, origin: Float64[np.ndarray, " 3"], settings: PointCloudSettings, progress: Callable[[float], None]
) -> tuple[Scale, Segments]:
    """Segments of a cloud whose coordinates are relative to ``origin``, as are those of the segments."""
    if len(points) < settings.min_plane:
        return Scale(0.0, 0.0, 0.0, 0.0), Segments.empty()
    rng = np.random.default_rng(settings.seed)
    points_tree = cKDTree(points)
    spacing, scatter = spacing_and_noise(points, points_tree, rng)
    scale = Scale.of(len(points), spacing, scatter, settings)
    if not scale.cell > 0:  # a single place
        return scale, Segments.empty()
    progress(0.05)
    if scale.scattered:
        surface_points, count = flattened(points, scatter, settings.workers)
        nodes = make_nodes(surface_points, count, scale.cell, _FLATTENED * scatter, settings.workers)
    else:
        nodes = make_nodes(points, np.ones(len(points), np.int64), scale.cell, scatter, settings.workers)
    progress(0.5)
    planes = grow_planes(nodes, scale.flatness, settings.min_plane, rng)
    progress(0.7)
    members = by_plane(planes.label, len(planes))
    outlines = [outline(nodes, planes, plane, mine) for plane, mine in enumerate(members)]
    progress(0.85)
    met, claimed = creases(nodes, planes, members, outlines, scale.least_crease)
    progress(0.95)
    view = None if settings.viewpoint is None else View.of(nodes.position, np.array(settings.viewpoint) - origin)
    nodes_tree = cKDTree(nodes.position)
    parts = []
    for plane, one in enumerate(outlines):
        free = ~claimed[one.node] & ~going_on(nodes, planes, one, nodes_tree, scale.flatness)
        if view is not None:
            free &= ~view.hides(nodes, planes, one, nodes_tree)
        surface = Surface(
            points, points_tree, planes.normal[plane], float(planes.offset[plane]), scale.flatness, scatter
        )
        parts.append(outline_segments(nodes, one, free, 0.5 * scale.least, surface))
    _log.debug("%s, %d points, %d nodes, %d planes", scale, len(points), len(nodes), len(planes))
    ended = merged(Segments.joined(parts), _SAME * scale.cell, _BRIDGED * scale.cell)
    ended = ended.take(ended.lengths() >= scale.least)
    progress(1.0)
    return scale, merged(Segments.joined([met, ended]), _SAME * scale.cell, _BRIDGED * scale.cell)
