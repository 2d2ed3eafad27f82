"""Lines from point clouds, in the manner of Lu, Liu and Li (2019).

Nodes with normals, planes, outlines of planes, edges where planes meet, straight pieces of what is left of the
outlines, and one segment for what was found more than once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64
from scipy.spatial import cKDTree

from plueckernet.errors import InputError, ShapeError
from plueckernet.extraction.boundaries import by_plane, going_on, outline
from plueckernet.extraction.creases import creases
from plueckernet.extraction.edges import Surface, outline_segments
from plueckernet.extraction.extracted import ExtractedLines, Segments
from plueckernet.extraction.neighbourhoods import make_nodes, spacing_and_noise
from plueckernet.extraction.planes import grow_planes
from plueckernet.extraction.segments import merged
from plueckernet.extraction.visibility import View

_log = logging.getLogger("plueckernet")
_MANY = 500_000  # points from which on a cloud is thinned in earnest
_THINNING = (0.7, 1.5)  # cell over spacing of the points, below and above
_NOISE_CELLS = 4.0  # a cell is at least this many times the noise
_LENGTH = 8.0  # shortest segment in spacings, by default


@dataclass(frozen=True)
class PointCloudSettings:
    """How lines are found in a cloud; the defaults follow the cloud.

    Attributes:
        spacing: Points are thinned to this distance, in metres; by default by its own spacing and noise.
        flatness: Distance from a plane up to which a point belongs to it, in metres; by default three times the noise.
        min_length: Shortest segment, in metres; by default 8 spacings.
        min_plane: Fewest nodes of a plane.
        viewpoint: Where a single scan was taken from, if known: ends of surfaces that are shadows of something nearer,
            or the rim of the field of view, are then left out.
        workers: Threads that search neighbours; -1 for one a core.
        seed: Of the samples drawn.
    """

    spacing: float | None = None
    flatness: float | None = None
    min_length: float | None = None
    min_plane: int = 30
    viewpoint: tuple[float, float, float] | None = None
    workers: int = -1
    seed: int = 0


def extract_lines(
    points: Float[np.ndarray, "n 3"],
    settings: PointCloudSettings = PointCloudSettings(),
    progress: Callable[[float], None] | None = None,
) -> ExtractedLines:
    """Segments at the edges of the planes in a point cloud.

    Args:
        points: Coordinates in metres; rows that are not finite are left out.
        settings: See :class:`PointCloudSettings`.
        progress: Called now and then with the share done, in [0, 1].
    """
    if points.ndim != 2 or points.shape[1] != 3:
        raise ShapeError("points", ("n", 3), points.shape)
    points = points[np.isfinite(points).all(axis=1)].astype(np.float64)
    if len(points) == 0:
        raise InputError("points: there are none with finite coordinates")
    offset = points.mean(axis=0)
    found = cloud_segments(points - offset, offset, settings, progress or (lambda _: None))
    return Segments(found.ends + offset, found.support, found.residual).extracted()


def cloud_segments(
    points: Float64[np.ndarray, "n 3"],
    origin: Float64[np.ndarray, " 3"],
    settings: PointCloudSettings,
    progress: Callable[[float], None],
) -> Segments:
    """Segments of a cloud whose coordinates are relative to ``origin``, as are those of the segments."""
    rng = np.random.default_rng(settings.seed)
    points_tree = cKDTree(points)
    spacing, noise = spacing_and_noise(points, points_tree, rng)
    cell = settings.spacing or max(_THINNING[len(points) > _MANY] * spacing, _NOISE_CELLS * noise)
    flatness = settings.flatness or max(3 * noise, 0.6 * min(cell, spacing))
    least = settings.min_length or _LENGTH * max(cell, spacing)
    progress(0.05)
    nodes = make_nodes(points, cell, noise, settings.workers)
    progress(0.5)
    planes = grow_planes(nodes, flatness, settings.min_plane, rng)
    progress(0.7)
    members = by_plane(planes.label, len(planes))
    outlines = [outline(nodes, planes, plane, mine) for plane, mine in enumerate(members)]
    progress(0.85)
    edges, claimed = creases(nodes, planes, members, outlines, least)
    progress(0.95)
    view = None if settings.viewpoint is None else View.of(nodes.position, np.array(settings.viewpoint) - origin)
    nodes_tree = cKDTree(nodes.position)
    parts = [edges]
    for plane, one in enumerate(outlines):
        free = ~claimed[one.node] & ~going_on(nodes, planes, one, nodes_tree, flatness)
        if view is not None:
            free &= ~view.hides(nodes, planes, one, nodes_tree)
        surface = Surface(points, points_tree, planes.normal[plane], float(planes.offset[plane]), flatness)
        parts.append(outline_segments(nodes, one, free, least, surface))
    _log.debug("cell %.4f, flatness %.4f, %d nodes, %d planes", cell, flatness, len(nodes), len(planes))
    found = merged(Segments.joined(parts), 1.5 * cell, 3 * cell)
    return found.take(found.lengths() >= least)
