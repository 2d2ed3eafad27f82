"""Segments on the free part of outlines, refined against all points of the cloud."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.spatial import cKDTree

from plueckernet.extraction.boundaries import Outline, straight_pieces
from plueckernet.extraction.extracted import Segments
from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.segments import Line, fit_line, runs

_CURVED = np.cos(np.radians(45.0))  # outline against the line it supports
_STRAY = 1.3  # spacings of an outline node from its line
_SHORTEST = 5.0  # local spacings; what is shorter may be a piece of a curve
_GAP = 6.0  # spacings that a line bridges
_FEWEST = 4  # outline nodes, and places along a line, that make a segment
_REACH = 1.6  # spacings about a line within which its points are sought
_SOFT = 0.15  # noise over spacing from which the outermost points are beyond the edge
_SOFT_REACH = 2.3


@dataclass(frozen=True, eq=False)
class Surface:
    """The points of a cloud, and the plane whose edges are looked for."""

    points: Float64[np.ndarray, "n 3"]
    tree: cKDTree
    normal: Float64[np.ndarray, " 3"]
    offset: float
    flatness: float
    noise: float


def outline_segments(
    nodes: Nodes, one: Outline, free: Bool[np.ndarray, " b"], least: float, surface: Surface
) -> Segments:
    """Straight pieces of the free part of an outline, the longest first, each with all the outline that it explains."""
    position, spacing = nodes.position[one.node], nodes.spacing[one.node]
    pieces = straight_pieces(position, one.chain, spacing)
    length = np.linalg.norm(position[pieces[:, 1]] - position[pieces[:, 0]], axis=1)
    found, free = [], free.copy()
    for first, last in pieces[np.argsort(-length, kind="stable")]:
        mine = np.arange(first, last + 1)
        mine = mine[free[mine]]
        if len(mine) < _FEWEST:
            continue
        grown = _grown(position, spacing, one.tangent, free, mine)
        if len(grown) < _FEWEST:
            continue
        line = fit_line(position[grown])
        along = line.along(position[grown])
        span = float(along.max() - along.min())
        if span < max(least, _SHORTEST * float(np.median(spacing[grown]))) or span > 3.0 * spacing[grown].sum():
            continue
        free[grown] = False
        outward = np.cross(one.tangent[grown].mean(axis=0), surface.normal)
        ends = line.at(np.array([along.min(), along.max()]))
        found.append(_refined(surface, ends, outward, float(np.median(spacing[grown]))))
    return Segments.joined(found)


def _grown(
    position: Float64[np.ndarray, "b 3"],
    spacing: Float64[np.ndarray, " b"],
    tangent: Float64[np.ndarray, "b 3"],
    free: Bool[np.ndarray, " b"],
    mine: Int64[np.ndarray, " k"],
) -> Int64[np.ndarray, " g"]:
    """All free outline nodes on the line of these, in one run with them, with the surface on the same side."""
    heading = tangent[mine].mean(axis=0)
    for _ in range(3):
        line = fit_line(position[mine])
        forward = line.direction if heading @ line.direction > 0 else -line.direction
        place = np.flatnonzero(free & (line.distance(position) < _STRAY * spacing) & (tangent @ forward > _CURVED))
        if len(place) < _FEWEST:
            return place
        groups = runs(line.along(position[place]), _GAP * spacing[place])
        middle = float(np.median(line.along(position[mine])))
        chosen = min(groups, key=lambda run: float(np.abs(line.along(position[place[run]]) - middle).min()))
        mine = place[chosen]
        if len(mine) < _FEWEST:
            break
    return mine


def _refined(
    surface: Surface, ends: Float64[np.ndarray, "2 3"], outward: Float64[np.ndarray, " 3"], spacing: float
) -> Segments:
    """The segment moved to the outermost points of the surface along it."""
    length = float(np.linalg.norm(ends[1] - ends[0]))
    line = Line(ends[0], (ends[1] - ends[0]) / length)
    centres = line.at(np.linspace(0, length, int(length / spacing) + 2))
    soft = surface.noise > _SOFT * spacing
    reach = (_SOFT_REACH if soft else _REACH) * spacing
    near = np.unique(np.concatenate(surface.tree.query_ball_point(centres, reach)).astype(np.int64))
    points = surface.points[near]
    tolerance = max(surface.flatness, 3 * surface.noise, 0.25 * spacing)
    points = points[np.abs(points @ surface.normal - surface.offset) < tolerance]
    out = np.cross(line.direction, surface.normal)
    out *= np.sign(out @ outward) / max(float(np.linalg.norm(out)), 1e-12)
    along, height = line.along(points), (points - line.point) @ out
    bin_ = np.floor(along / (2 * spacing)).astype(np.int64)
    if soft:
        where, edge = _where_density_ends(bin_, height / spacing)
        where, edge = (where + 0.5) * 2 * spacing, edge * spacing
    else:
        outermost = _last_of_each(bin_, height)
        where, edge = along[outermost], height[outermost]
    if len(where) < _FEWEST:
        return Segments(ends[None], np.array([len(points)]), np.array([spacing]))
    slope, level, residual = _straight(where, edge, 0.25 * spacing)
    place = np.array([0.0, length])
    moved = line.at(place) + np.outer(level + slope * place, out)
    moved -= np.outer(moved @ surface.normal - surface.offset, surface.normal)
    return Segments(moved[None], np.array([len(points)]), np.array([residual]))


def _last_of_each(group: Int64[np.ndarray, " n"], height: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, " g"]:
    """The place of the greatest height of each group."""
    order = np.lexsort((height, group))
    return order[np.flatnonzero(np.diff(group[order], append=np.iinfo(np.int64).max))]


def _where_density_ends(
    group: Int64[np.ndarray, " n"], height: Float64[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " g"], Float64[np.ndarray, " g"]]:
    """Groups, and the height at which an even density that ends sharply would hold as many points as the group does.

    Noise moves as many points out across an edge as it makes room for: the number tells the edge where the outermost
    point cannot. Density is measured between the heights -2 and -1.
    """
    names, place = np.unique(group, return_inverse=True)
    inner = np.bincount(place[(height > -2) & (height <= -1)], minlength=len(names))
    outer = np.bincount(place[height > -1], minlength=len(names))
    enough = inner >= _FEWEST
    return names[enough].astype(np.float64), outer[enough] / inner[enough] - 1.0


def _straight(
    along: Float64[np.ndarray, " n"], height: Float64[np.ndarray, " n"], least: float
) -> tuple[float, float, float]:
    """Robust fit ``height = level + slope * along``, with the residual of what agrees."""
    slope, level = 0.0, float(np.median(height))
    kept = np.ones(len(along), bool)
    for _ in range(4):
        off = np.abs(height - level - slope * along)
        kept = off <= max(3.0 * float(np.median(off)), least)
        if kept.sum() < 3 or np.ptp(along[kept]) == 0:
            break
        slope, level = (float(value) for value in np.polyfit(along[kept], height[kept], 1))
    residual = np.sqrt(np.mean((height[kept] - level - slope * along[kept]) ** 2))
    return slope, level, float(residual)
