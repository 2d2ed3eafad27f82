"""Lines from point clouds, in the manner of Lu, Liu and Li (2019).

Nodes with normals, planes, outlines of planes, edges where planes meet, straight pieces of what is left of the
outlines, and one segment for what was found more than once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from plueckernet.errors import InputError, ShapeError
from plueckernet.extraction.boundaries import Outline, by_plane, outline, seams, straight_pieces
from plueckernet.extraction.creases import creases
from plueckernet.extraction.extracted import ExtractedLines, Segments
from plueckernet.extraction.neighbourhoods import Nodes, make_nodes, spacing_and_noise
from plueckernet.extraction.planes import grow_planes
from plueckernet.extraction.segments import fit_line, merged, runs

_log = logging.getLogger("plueckernet")
_THINNING = 1.5  # cell over spacing of the points
_NOISE_CELLS = 4.0  # a cell is at least this many times the noise
_LENGTH_CELLS = 12.0  # shortest segment in cells, by default
_CURVED = np.cos(np.radians(30.0))  # outline against the line it supports


@dataclass(frozen=True)
class PointCloudSettings:
    """How lines are found in a cloud; the defaults follow the cloud.

    Attributes:
        spacing: Points are thinned to this distance, in metres; by default 1.5 times its own spacing or 4 times its
            noise, whichever is more.
        flatness: Distance from a plane up to which a point belongs to it, in metres; by default three times the noise.
        min_length: Shortest segment, in metres; by default 12 spacings.
        min_plane: Fewest nodes of a plane.
        workers: Threads that search neighbours; -1 for one a core.
        seed: Of the samples drawn.
    """

    spacing: float | None = None
    flatness: float | None = None
    min_length: float | None = None
    min_plane: int = 40
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
    found = cloud_segments(points - offset, settings, progress or (lambda _: None))
    return Segments(found.ends + offset, found.support, found.residual).extracted()


def cloud_segments(
    points: Float64[np.ndarray, "n 3"], settings: PointCloudSettings, progress: Callable[[float], None]
) -> Segments:
    """Segments of a cloud near the origin."""
    rng = np.random.default_rng(settings.seed)
    spacing, noise = spacing_and_noise(points, rng)
    cell = settings.spacing or max(_THINNING * spacing, _NOISE_CELLS * noise)
    flatness = settings.flatness or max(3 * noise, 0.3 * cell)
    least = settings.min_length or _LENGTH_CELLS * cell
    progress(0.05)
    nodes = make_nodes(points, cell, settings.workers)
    progress(0.5)
    planes = grow_planes(nodes, flatness, settings.min_plane, rng)
    progress(0.7)
    members = by_plane(planes.label, len(planes))
    outlines = [outline(nodes, planes, plane, mine) for plane, mine in enumerate(members)]
    progress(0.85)
    edges, claimed = creases(nodes, planes, members, outlines, least)
    progress(0.95)
    ends = []
    for one in outlines:
        free = ~claimed[one.node] & ~seams(nodes, planes, one.node, flatness)
        ends.append(_outline_segments(nodes, one, free, least))
    _log.debug("cell %.4f, flatness %.4f, %d nodes, %d planes", cell, flatness, len(nodes), len(planes))
    found = merged(Segments.joined([edges, *ends]), 1.5 * cell, 3 * cell)
    return found.take(found.lengths() >= least)


def _outline_segments(nodes: Nodes, one: Outline, free: Bool[np.ndarray, " b"], least: float) -> Segments:
    """Straight pieces of the free part of an outline, the longest first, each with all the outline that it explains."""
    position, spacing = nodes.position[one.node], nodes.spacing[one.node]
    pieces = straight_pieces(position, one.chain, spacing)
    length = np.linalg.norm(position[pieces[:, 1]] - position[pieces[:, 0]], axis=1)
    found = []
    for first, last in pieces[np.argsort(-length, kind="stable")]:
        mine = np.arange(first, last + 1)
        mine = mine[free[mine]]
        if len(mine) < 4:
            continue
        grown = _grown(position, spacing, one.tangent, free, mine)
        if len(grown) < 4:
            continue
        line = fit_line(position[grown])
        along = line.along(position[grown])
        span = float(along.max() - along.min())
        if span < least or span > 3.0 * spacing[grown].sum():
            continue
        free[grown] = False
        residual = float(np.sqrt(np.mean(line.distance(position[grown]) ** 2)))
        ends = line.at(np.array([along.min(), along.max()]))
        found.append(Segments(ends[None], nodes.count[one.node[grown]].sum()[None], np.array([residual])))
    return Segments.joined(found)


def _grown(
    position: Float64[np.ndarray, "b 3"],
    spacing: Float64[np.ndarray, " b"],
    tangent: Float64[np.ndarray, "b 3"],
    free: Bool[np.ndarray, " b"],
    mine: Int64[np.ndarray, " k"],
) -> Int64[np.ndarray, " g"]:
    """All free outline nodes on the line of these, in one run with them."""
    for _ in range(3):
        line = fit_line(position[mine])
        fits = free & (line.distance(position) < spacing) & (np.abs(tangent @ line.direction) > _CURVED)
        place = np.flatnonzero(fits)
        if len(place) < 4:
            return place
        groups = runs(line.along(position[place]), 4.0 * spacing[place])
        middle = float(np.median(line.along(position[mine])))
        chosen = min(groups, key=lambda run: float(np.abs(line.along(position[place[run]]) - middle).min()))
        mine = place[chosen]
        if len(mine) < 4:
            break
    return mine
