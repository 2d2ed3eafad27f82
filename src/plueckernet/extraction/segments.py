"""Fitting lines to points, and merging segments that lie on one line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from plueckernet.extraction.extracted import SegmentArrays
from plueckernet.settings import check_positive


@dataclass(frozen=True)
class MergeSettings:
    """Which segments are merged into one. Lengths in cells."""

    max_distance: float = 1.5  # of the end points of one segment from the line of the other
    max_gap: float = 3.0  # between the ends of two segments
    max_angle: float = 4.0  # between two segments, in degrees

    def __post_init__(self) -> None:
        check_positive(self, "max_distance", "max_gap", "max_angle")


@dataclass(frozen=True, eq=False)
class Line:
    """An infinite line through ``point``."""

    point: Float64[np.ndarray, " 3"]
    direction: Float64[np.ndarray, " 3"]

    def along(self, position: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, " n"]:
        """Coordinate along the line."""
        return np.asarray((position - self.point) @ self.direction)

    def distance(self, position: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, " n"]:
        """Distance from the line."""
        offset = position - self.point
        return np.asarray(np.linalg.norm(offset - np.outer(offset @ self.direction, self.direction), axis=1))

    def at(self, along: Float64[np.ndarray, " k"]) -> Float64[np.ndarray, "k 3"]:
        """Points at these coordinates."""
        return self.point + np.outer(along, self.direction)


def fit_line(position: Float64[np.ndarray, "n 3"], weight: Float64[np.ndarray, " n"] | None = None) -> Line:
    """Least-squares line of points."""
    weight = np.ones(len(position)) if weight is None else weight
    centre = weight @ position / weight.sum()
    centred = position - centre
    _, vectors = np.linalg.eigh((centred * weight[:, None]).T @ centred)
    return Line(centre, vectors[:, 2])


def runs(along: Float64[np.ndarray, " n"], gap: Float64[np.ndarray, " n"] | float) -> list[Int64[np.ndarray, " _"]]:
    """Indices of points in order along a line, cut where two neighbours are more than the gap apart."""
    order = np.argsort(along, kind="stable")
    limit = gap if isinstance(gap, float) else gap[order][1:]
    return np.split(order, np.flatnonzero(np.diff(along[order]) > limit) + 1)


def merged(segments: SegmentArrays, cell: float, settings: MergeSettings = MergeSettings()) -> SegmentArrays:
    """Merge segments that lie on one line and overlap or nearly touch; ``cell`` is the unit of the settings.

    The longest segment takes in all that fit it, then the next. The merged segment is fitted to the end points of its
    pieces, weighted by their lengths. Segments that no point supports are dropped.
    """
    segments = segments.take(segments.support > 0)
    length = segments.lengths()
    order = np.argsort(-length, kind="stable")
    ends, support, residual = segments.ends.copy(), segments.support.copy(), segments.residual.copy()
    alive = np.ones(len(segments), bool)
    for i in order.tolist():
        if not alive[i]:
            continue
        while True:
            same = _same(ends[i], ends, alive, cell, settings)
            same[i] = False
            if not same.any():
                break
            pieces = np.append(np.flatnonzero(same), i)
            weight = np.repeat(np.linalg.norm(ends[pieces, 1] - ends[pieces, 0], axis=1), 2)
            points = ends[pieces].reshape(-1, 3)
            line = fit_line(points, weight)
            along = line.along(points)
            ends[i] = line.at(np.array([along.min(), along.max()]))
            residual[i] = np.sqrt(np.average(residual[pieces] ** 2, weights=support[pieces]))
            support[i] = support[pieces].sum()
            alive[same] = False
    return SegmentArrays(ends[alive], support[alive], residual[alive])


def _same(
    segment: Float64[np.ndarray, "2 3"],
    ends: Float64[np.ndarray, "n 2 3"],
    alive: Bool[np.ndarray, " n"],
    cell: float,
    settings: MergeSettings,
) -> Bool[np.ndarray, " n"]:
    """Which segments continue or repeat this one."""
    gap = settings.max_gap * cell
    length = float(np.linalg.norm(segment[1] - segment[0]))
    line = Line(segment[0], (segment[1] - segment[0]) / max(length, 1e-12))
    along = line.along(ends.reshape(-1, 3)).reshape(-1, 2)
    touching = alive & (along.max(axis=1) > -gap) & (along.min(axis=1) < length + gap)
    index = np.flatnonzero(touching)
    distance = line.distance(ends[index].reshape(-1, 3)).reshape(-1, 2).max(axis=1)
    span = ends[index, 1] - ends[index, 0]
    span_length = np.linalg.norm(span, axis=1)
    sine = np.linalg.norm(np.cross(span, line.direction), axis=1) / np.maximum(span_length, 1e-12)
    # a piece only a few times longer than the distance may have any direction by chance
    parallel = (sine < np.sin(np.radians(settings.max_angle))) | (span_length < 4 * settings.max_distance * cell)
    same = np.zeros(len(ends), bool)
    same[index] = (distance < settings.max_distance * cell) & parallel
    return same
