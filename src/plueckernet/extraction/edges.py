"""Segments on the free part of outlines, refined against all points of the cloud."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.spatial import cKDTree

from plueckernet.extraction.boundaries import Outline, straight_pieces
from plueckernet.extraction.extracted import SegmentArrays
from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.segments import Line, fit_line, runs
from plueckernet.settings import check_at_least, check_positive


@dataclass(frozen=True)
class EdgeSettings:
    """How segments are fitted to outlines. Lengths in spacings unless another unit is given."""

    max_deviation: float = 1.0  # of the nodes of a straight piece of an outline from its chord
    max_tangent_angle: float = 45.0  # between the outline and its line, in degrees
    max_distance: float = 1.3  # of an outline node from its line
    max_gap: float = 6.0  # between nodes of one line
    min_nodes: int = 4  # fewest outline nodes of a segment, and fewest places along it
    min_length: float = 5.0  # local spacings; a shorter segment may be a piece of a curve
    max_node_length: float = 3.0  # length of a segment per node
    search_radius: float = 1.6  # around a line, within which points of the cloud are searched
    soft_ratio: float = 0.15  # noise over spacing above which the outermost points are outside the edge
    soft_search_radius: float = 2.3  # search radius for such clouds
    bin_length: float = 2.0  # length of the bins along a line, each with one place of the edge

    def __post_init__(self) -> None:
        check_positive(self, "max_deviation", "max_tangent_angle", "max_distance", "max_gap", "min_length")
        check_positive(self, "max_node_length", "search_radius", "soft_ratio", "soft_search_radius")
        check_positive(self, "bin_length")
        check_at_least(self, 2, "min_nodes")


@dataclass(frozen=True, eq=False)
class Surface:
    """The points of a cloud, and the plane whose edges are searched."""

    points: Float64[np.ndarray, "n 3"]
    tree: cKDTree
    normal: Float64[np.ndarray, " 3"]
    offset: float
    flatness: float
    noise: float


def outline_segments(
    nodes: Nodes,
    outline: Outline,
    free: Bool[np.ndarray, " b"],
    min_length: float,
    surface: Surface,
    settings: EdgeSettings = EdgeSettings(),
) -> SegmentArrays:
    """Straight pieces of the free part of an outline, the longest first, each with all the outline that it explains."""
    position, spacing = nodes.position[outline.node], nodes.spacing[outline.node]
    pieces = straight_pieces(position, outline.chain, settings.max_deviation * spacing)
    length = np.linalg.norm(position[pieces[:, 1]] - position[pieces[:, 0]], axis=1)
    segments, free = [], free.copy()
    for first, last in pieces[np.argsort(-length, kind="stable")]:
        piece = np.arange(first, last + 1)
        piece = piece[free[piece]]
        if len(piece) < settings.min_nodes:
            continue
        grown = _grown(position, spacing, outline.tangent, free, piece, settings)
        if len(grown) < settings.min_nodes:
            continue
        line = fit_line(position[grown])
        along = line.along(position[grown])
        span, local = float(along.max() - along.min()), float(np.median(spacing[grown]))
        sparse = span > settings.max_node_length * spacing[grown].sum()
        if span < max(min_length, settings.min_length * local) or sparse:
            continue
        free[grown] = False
        outward = np.cross(outline.tangent[grown].mean(axis=0), surface.normal)
        ends = line.at(np.array([along.min(), along.max()]))
        segments.append(_refined(surface, ends, outward, local, settings))
    return SegmentArrays.joined(segments)


def _grown(
    position: Float64[np.ndarray, "b 3"],
    spacing: Float64[np.ndarray, " b"],
    tangent: Float64[np.ndarray, "b 3"],
    free: Bool[np.ndarray, " b"],
    piece: Int64[np.ndarray, " k"],
    settings: EdgeSettings,
) -> Int64[np.ndarray, " g"]:
    """All free outline nodes on the line of a piece, in one run with it, with the surface on the same side."""
    heading = tangent[piece].mean(axis=0)
    min_cosine = np.cos(np.radians(settings.max_tangent_angle))
    for _ in range(3):
        line = fit_line(position[piece])
        forward = line.direction if heading @ line.direction > 0 else -line.direction
        near = line.distance(position) < settings.max_distance * spacing
        place = np.flatnonzero(free & near & (tangent @ forward > min_cosine))
        if len(place) < settings.min_nodes:
            return place
        groups = runs(line.along(position[place]), settings.max_gap * spacing[place])
        middle = float(np.median(line.along(position[piece])))
        chosen = min(groups, key=lambda run: float(np.abs(line.along(position[place[run]]) - middle).min()))
        piece = place[chosen]
        if len(piece) < settings.min_nodes:
            break
    return piece


def _refined(
    surface: Surface,
    ends: Float64[np.ndarray, "2 3"],
    outward: Float64[np.ndarray, " 3"],
    spacing: float,
    settings: EdgeSettings,
) -> SegmentArrays:
    """The segment moved to the outermost points of the surface along it."""
    length = float(np.linalg.norm(ends[1] - ends[0]))
    line = Line(ends[0], (ends[1] - ends[0]) / length)
    soft = surface.noise > settings.soft_ratio * spacing
    points = _points_near(surface, line, length, spacing, settings)
    out = np.cross(line.direction, surface.normal)
    out *= np.sign(out @ outward) / max(float(np.linalg.norm(out)), 1e-12)
    along, height = line.along(points), (points - line.point) @ out
    bin_length = settings.bin_length * spacing
    bin_ = np.floor(along / bin_length).astype(np.int64)
    if soft:
        where, edge = _density_ends(bin_, height / spacing, settings.min_nodes)
        where, edge = (where + 0.5) * bin_length, edge * spacing
    else:
        outermost = _last_of_each(bin_, height)
        where, edge = along[outermost], height[outermost]
    if len(where) < settings.min_nodes:
        return SegmentArrays(ends[None], np.array([len(points)]), np.array([spacing]))
    slope, level, residual = _straight(where, edge, 0.25 * spacing)
    place = np.array([0.0, length])
    moved = line.at(place) + np.outer(level + slope * place, out)
    moved -= np.outer(moved @ surface.normal - surface.offset, surface.normal)
    return SegmentArrays(moved[None], np.array([len(points)]), np.array([residual]))


def _points_near(
    surface: Surface, line: Line, length: float, spacing: float, settings: EdgeSettings
) -> Float64[np.ndarray, "k 3"]:
    """Points of the cloud around a segment, near the plane whose edge it is."""
    soft = surface.noise > settings.soft_ratio * spacing
    radius = (settings.soft_search_radius if soft else settings.search_radius) * spacing
    centres = line.at(np.linspace(0, length, int(length / spacing) + 2))
    near = np.unique(np.concatenate(surface.tree.query_ball_point(centres, radius)).astype(np.int64))
    points = surface.points[near]
    max_height = max(surface.flatness, 3 * surface.noise, 0.25 * spacing)  # three standard deviations, at least
    return points[np.abs(points @ surface.normal - surface.offset) < max_height]


def _last_of_each(group: Int64[np.ndarray, " n"], height: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, " g"]:
    """Index of the greatest height of each group."""
    order = np.lexsort((height, group))
    return order[np.flatnonzero(np.diff(group[order], append=np.iinfo(np.int64).max))]


def _density_ends(
    group: Int64[np.ndarray, " n"], height: Float64[np.ndarray, " n"], min_points: int
) -> tuple[Float64[np.ndarray, " g"], Float64[np.ndarray, " g"]]:
    """Groups, and the height at which an even density that ends sharply would contain as many points as the group.

    Noise moves points across an edge in both directions. Their number determines the edge where the outermost point
    does not. Density is measured between the heights -2 and -1, in spacings.
    """
    names, place = np.unique(group, return_inverse=True)
    inner = np.bincount(place[(height > -2) & (height <= -1)], minlength=len(names))
    outer = np.bincount(place[height > -1], minlength=len(names))
    enough = inner >= min_points
    return names[enough].astype(np.float64), outer[enough] / inner[enough] - 1.0


def _straight(
    along: Float64[np.ndarray, " n"], height: Float64[np.ndarray, " n"], min_distance: float
) -> tuple[float, float, float]:
    """Robust fit ``height = level + slope * along``: slope, level and the residual of the inliers.

    A place nearer than ``min_distance``, in metres, is always an inlier.
    """
    slope, level = 0.0, float(np.median(height))
    kept = np.ones(len(along), bool)
    for _ in range(4):
        distance = np.abs(height - level - slope * along)
        kept = distance <= max(3 * float(np.median(distance)), min_distance)
        if kept.sum() < 3 or np.ptp(along[kept]) == 0:
            break
        slope, level = (float(value) for value in np.polyfit(along[kept], height[kept], 1))
    residual = np.sqrt(np.mean((height[kept] - level - slope * along[kept]) ** 2))
    return slope, level, float(residual)
