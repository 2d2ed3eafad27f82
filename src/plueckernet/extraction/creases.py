"""Edges where two planes meet: their intersection, as far as both planes reach it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from plueckernet.extraction.boundaries import Outline
from plueckernet.extraction.extracted import Segments
from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.planes import Planes, fit_plane
from plueckernet.extraction.segments import Line

_FLATTEST = np.sin(np.radians(30.0))  # planes at a smaller angle may be pieces of a curve
_REACH = 2.5  # spacings from the line up to which a plane reaches it
_CLAIM = 3.0  # spacings from the line within which an outline is that of the edge


@dataclass(frozen=True, eq=False)
class _Side:
    """What one of two planes has near their intersection."""

    node: Int64[np.ndarray, " n"]  # nodes of the plane near the line
    along: Float64[np.ndarray, " n"]
    edge: Bool[np.ndarray, " n"]  # which of them are on the outline


def creases(
    nodes: Nodes,
    planes: Planes,
    members: list[Int64[np.ndarray, " _"]],
    outlines: list[Outline],
    least: float,
) -> tuple[Segments, Bool[np.ndarray, " m"]]:
    """Segments at least ``least`` long where planes meet, and the outline nodes that they explain."""
    on_outline = np.zeros(len(nodes), bool)
    for one in outlines:
        on_outline[one.node] = True
    claimed = np.zeros(len(nodes), bool)
    found = []
    for a, b in _meeting(nodes, planes, members, outlines):
        line = _intersection(planes.normal[[a, b]], planes.offset[[a, b]], nodes.position[members[a]].mean(axis=0))
        sides = tuple(_side(nodes, line, members[plane], on_outline) for plane in (a, b))
        for low, high in _stretches(nodes, sides, least):
            local = _refined(nodes, (members[a], members[b]), line, low, high)
            ends = local.at(np.sort(local.along(line.at(np.array([low, high])))))
            edge = _explained(nodes, local, ends, [outlines[a].node, outlines[b].node])
            claimed[edge] = True
            near = edge[local.distance(nodes.position[edge]) < _REACH * nodes.spacing[edge]]
            residual = float(np.sqrt(np.mean(local.distance(nodes.position[near]) ** 2))) if len(near) else 0.0
            found.append(Segments(ends[None], nodes.count[near].sum()[None], np.array([residual])))
    return Segments.joined(found), claimed


def _meeting(
    nodes: Nodes, planes: Planes, members: list[Int64[np.ndarray, " _"]], outlines: list[Outline]
) -> Iterator[tuple[int, int]]:
    """Pairs of planes at an angle whose boxes touch."""
    usable = np.array([p for p, one in enumerate(outlines) if len(one)], np.int64)
    if len(usable) < 2:
        return
    low, high = np.empty((len(usable), 3)), np.empty((len(usable), 3))
    for place, plane in enumerate(usable):
        position, margin = nodes.position[members[plane]], _REACH * nodes.spacing[members[plane]].max()
        low[place], high[place] = position.min(axis=0) - margin, position.max(axis=0) + margin
    normal = planes.normal[usable]
    for place, plane in enumerate(usable[:-1]):
        later = slice(place + 1, None)
        touching = ((low[later] <= high[place]) & (high[later] >= low[place])).all(axis=1)
        angled = np.linalg.norm(np.cross(normal[later], normal[place]), axis=1) > _FLATTEST
        for other in usable[later][touching & angled]:
            yield int(plane), int(other)


def _intersection(
    normal: Float64[np.ndarray, "2 3"], offset: Float64[np.ndarray, " 2"], near: Float64[np.ndarray, " 3"]
) -> Line:
    """The common line of two planes, by its point nearest to ``near``."""
    direction = np.cross(normal[0], normal[1])
    direction /= np.linalg.norm(direction)
    missing = offset - normal @ near
    point = near + np.linalg.lstsq(normal, missing, rcond=None)[0]
    return Line(point, direction)


def _side(nodes: Nodes, line: Line, members: Int64[np.ndarray, " n"], on_outline: Bool[np.ndarray, " m"]) -> _Side:
    near = members[line.distance(nodes.position[members]) < _REACH * nodes.spacing[members]]
    return _Side(near, line.along(nodes.position[near]), on_outline[near])


def _stretches(nodes: Nodes, sides: tuple[_Side, ...], least: float) -> Iterator[tuple[float, float]]:
    """Stretches of the line that both planes reach and at which at least one of them ends."""
    if any(len(side.node) < 3 for side in sides) or not any(side.edge.any() for side in sides):
        return
    bin_ = 2.0 * float(max(np.median(nodes.spacing[side.node]) for side in sides))
    low = max(float(side.along.min()) for side in sides)
    high = min(float(side.along.max()) for side in sides)
    if high - low < least:
        return
    count = int((high - low) / bin_) + 1

    def covered(along: Float64[np.ndarray, " n"]) -> Bool[np.ndarray, " c"]:
        inside = along[(along >= low) & (along <= high)]
        hits = np.bincount(((inside - low) / bin_).astype(np.int64), minlength=count)[:count] > 0
        return hits | np.append(hits[1:], False) & np.append(False, hits[:-1])  # a single empty bin is no gap

    both = covered(sides[0].along) & covered(sides[1].along)
    both &= covered(np.concatenate([side.along[side.edge] for side in sides]))
    change = np.flatnonzero(np.diff(np.concatenate([[False], both, [False]]).astype(np.int8)))
    for start, stop in zip(change[::2], change[1::2], strict=True):
        first, last = low + start * bin_, min(low + stop * bin_, high)
        if last - first >= least:
            yield first, last


def _refined(
    nodes: Nodes, members: tuple[Int64[np.ndarray, " a"], Int64[np.ndarray, " b"]], line: Line, low: float, high: float
) -> Line:
    """The intersection of the planes as they are near the stretch: no wall is flat over its whole length."""
    normals, offsets = [], []
    for one in members:
        position = nodes.position[one]
        along = line.along(position)
        reach = max(0.5 * (high - low), 10 * float(np.median(nodes.spacing[one])))
        local = one[(along > low) & (along < high) & (line.distance(position) < reach)]
        if len(local) < 10:
            return line
        normal, offset = fit_plane(nodes.position[local], nodes.spacing[local] ** 2)
        normals.append(normal)
        offsets.append(offset)
    if np.linalg.norm(np.cross(normals[0], normals[1])) < _FLATTEST:
        return line
    middle = line.at(np.array([low, high])).mean(axis=0)
    local_line = _intersection(np.array(normals), np.array(offsets), middle)
    limit = float(np.median(nodes.spacing[np.concatenate(members)]))
    moved = local_line.distance(line.at(np.array([low, high]))).max()
    return local_line if moved < _REACH * limit else line


def _explained(
    nodes: Nodes, line: Line, ends: Float64[np.ndarray, "2 3"], outline_nodes: list[Int64[np.ndarray, " _"]]
) -> Int64[np.ndarray, " e"]:
    """Outline nodes of the two planes along the stretch."""
    node = np.concatenate(outline_nodes)
    position, margin = nodes.position[node], _CLAIM * nodes.spacing[node]
    along, (low, high) = line.along(position), line.along(ends)
    inside = (along > low - margin) & (along < high + margin)
    return node[inside & (line.distance(position) < margin)]
