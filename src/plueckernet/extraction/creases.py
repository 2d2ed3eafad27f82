"""Edges where two planes meet: the part of their intersection line that both planes come close to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from plueckernet.extraction.boundaries import Outline
from plueckernet.extraction.extracted import SegmentArrays
from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.planes import Planes, fit_plane
from plueckernet.extraction.segments import Line
from plueckernet.settings import check_positive


@dataclass(frozen=True)
class CreaseSettings:
    """Where two planes make an edge. Lengths in spacings."""

    min_angle: float = 30.0  # between two planes, in degrees; at a smaller angle they may be pieces of a curve
    max_distance: float = 2.5  # of a plane's nodes from the line that the plane comes close to
    claim_distance: float = 3.0  # of outline nodes that the crease explains
    bin_length: float = 2.0  # length of the bins along the line in which nodes are counted

    def __post_init__(self) -> None:
        check_positive(self, "min_angle", "max_distance", "claim_distance", "bin_length")

    @property
    def min_sine(self) -> float:
        """Sine of the smallest angle between two planes."""
        return np.sin(np.radians(self.min_angle))


@dataclass(frozen=True, eq=False)
class _Side:
    """The nodes of one of two planes near their intersection."""

    node: Int64[np.ndarray, " n"]
    along: Float64[np.ndarray, " n"]
    on_outline: Bool[np.ndarray, " n"]


def creases(
    nodes: Nodes,
    planes: Planes,
    members: list[Int64[np.ndarray, " _"]],
    outlines: list[Outline],
    min_length: float,
    settings: CreaseSettings = CreaseSettings(),
) -> tuple[SegmentArrays, Bool[np.ndarray, " m"]]:
    """Segments at least ``min_length`` long where planes meet, and the outline nodes that they explain."""
    on_outline = np.zeros(len(nodes), bool)
    for outline in outlines:
        on_outline[outline.node] = True
    claimed = np.zeros(len(nodes), bool)
    segments = []
    for a, b in _meeting(nodes, planes, members, outlines, settings):
        line = _intersection(planes.normal[[a, b]], planes.offset[[a, b]], nodes.position[members[a]].mean(axis=0))
        sides = tuple(_side(nodes, line, members[plane], on_outline, settings) for plane in (a, b))
        for low, high in _stretches(nodes, sides, min_length, settings):
            local = _refined(nodes, (members[a], members[b]), line, (low, high), settings)
            ends = local.at(np.sort(local.along(line.at(np.array([low, high])))))
            edge = _explained(nodes, local, ends, [outlines[a].node, outlines[b].node], settings.claim_distance)
            claimed[edge] = True
            near = edge[local.distance(nodes.position[edge]) < settings.max_distance * nodes.spacing[edge]]
            residual = float(np.sqrt(np.mean(local.distance(nodes.position[near]) ** 2))) if len(near) else 0.0
            segments.append(SegmentArrays(ends[None], nodes.count[near].sum()[None], np.array([residual])))
    return SegmentArrays.joined(segments), claimed


def _meeting(
    nodes: Nodes,
    planes: Planes,
    members: list[Int64[np.ndarray, " _"]],
    outlines: list[Outline],
    settings: CreaseSettings,
) -> Iterator[tuple[int, int]]:
    """Pairs of planes at an angle whose boxes touch."""
    usable = np.array([plane for plane, outline in enumerate(outlines) if len(outline)], np.int64)
    if len(usable) < 2:
        return
    low, high = np.empty((len(usable), 3)), np.empty((len(usable), 3))
    for place, plane in enumerate(usable):
        position = nodes.position[members[plane]]
        margin = settings.max_distance * nodes.spacing[members[plane]].max()
        low[place], high[place] = position.min(axis=0) - margin, position.max(axis=0) + margin
    normal = planes.normal[usable]
    for place, plane in enumerate(usable[:-1]):
        later = slice(place + 1, None)
        touching = ((low[later] <= high[place]) & (high[later] >= low[place])).all(axis=1)
        angled = np.linalg.norm(np.cross(normal[later], normal[place]), axis=1) > settings.min_sine
        for other in usable[later][touching & angled]:
            yield int(plane), int(other)


def _intersection(
    normal: Float64[np.ndarray, "2 3"], offset: Float64[np.ndarray, " 2"], near: Float64[np.ndarray, " 3"]
) -> Line:
    """The common line of two planes, given by its point nearest to ``near``."""
    direction = np.cross(normal[0], normal[1])
    direction /= np.linalg.norm(direction)
    missing = offset - normal @ near
    point = near + np.linalg.lstsq(normal, missing, rcond=None)[0]
    return Line(point, direction)


def _side(
    nodes: Nodes,
    line: Line,
    members: Int64[np.ndarray, " n"],
    on_outline: Bool[np.ndarray, " m"],
    settings: CreaseSettings,
) -> _Side:
    near = members[line.distance(nodes.position[members]) < settings.max_distance * nodes.spacing[members]]
    return _Side(near, line.along(nodes.position[near]), on_outline[near])


def _stretches(
    nodes: Nodes, sides: tuple[_Side, ...], min_length: float, settings: CreaseSettings
) -> Iterator[tuple[float, float]]:
    """Stretches of the line that both planes come close to and at which at least one of them ends."""
    enough = all(len(side.node) > 2 for side in sides)
    if not enough or not any(side.on_outline.any() for side in sides):
        return
    bin_ = settings.bin_length * float(max(np.median(nodes.spacing[side.node]) for side in sides))
    low = max(float(side.along.min()) for side in sides)
    high = min(float(side.along.max()) for side in sides)
    if high - low < min_length:
        return
    count = int((high - low) / bin_) + 1

    def covered(along: Float64[np.ndarray, " n"]) -> Bool[np.ndarray, " c"]:
        inside = along[(along >= low) & (along <= high)]
        hits = np.bincount(((inside - low) / bin_).astype(np.int64), minlength=count)[:count] > 0
        return hits | np.append(hits[1:], False) & np.append(False, hits[:-1])  # a single empty bin is no gap

    shared = covered(sides[0].along) & covered(sides[1].along)
    shared &= covered(np.concatenate([side.along[side.on_outline] for side in sides]))
    change = np.flatnonzero(np.diff(np.concatenate([[False], shared, [False]]).astype(np.int8)))
    for start, stop in zip(change[::2], change[1::2], strict=True):
        first, last = low + start * bin_, min(low + stop * bin_, high)
        if last - first >= min_length:
            yield first, last


def _refined(
    nodes: Nodes,
    members: tuple[Int64[np.ndarray, " a"], Int64[np.ndarray, " b"]],
    line: Line,
    stretch: tuple[float, float],
    settings: CreaseSettings,
) -> Line:
    """The intersection of the planes fitted near the stretch: no wall is flat over its whole length."""
    low, high = stretch
    normals, offsets = [], []
    for side in members:
        position = nodes.position[side]
        along = line.along(position)
        width = max(0.5 * (high - low), 10 * float(np.median(nodes.spacing[side])))
        local = side[(along > low) & (along < high) & (line.distance(position) < width)]
        if len(local) < 10:
            return line
        normal, offset = fit_plane(nodes.position[local], nodes.spacing[local] ** 2)
        normals.append(normal)
        offsets.append(offset)
    if np.linalg.norm(np.cross(normals[0], normals[1])) < settings.min_sine:
        return line
    middle = line.at(np.array([low, high])).mean(axis=0)
    local_line = _intersection(np.array(normals), np.array(offsets), middle)
    spacing = float(np.median(nodes.spacing[np.concatenate(members)]))
    moved = local_line.distance(line.at(np.array([low, high]))).max()
    return local_line if moved < settings.max_distance * spacing else line


def _explained(
    nodes: Nodes,
    line: Line,
    ends: Float64[np.ndarray, "2 3"],
    outline_nodes: list[Int64[np.ndarray, " _"]],
    max_distance: float,
) -> Int64[np.ndarray, " e"]:
    """Outline nodes of the two planes along the stretch, up to a distance in spacings."""
    node = np.concatenate(outline_nodes)
    position, margin = nodes.position[node], max_distance * nodes.spacing[node]
    along, (low, high) = line.along(position), line.along(ends)
    inside = (along > low - margin) & (along < high + margin)
    return node[inside & (line.distance(position) < margin)]
