"""Fitting segments to points along a line, and joining segments that are one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from plueckernet.extraction.extracted import Segments

_SAME_ANGLE = np.sin(np.radians(4.0))  # of segments that are one


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
    """Places of points in order along a line, cut where two follow each other at more than the gap."""
    order = np.argsort(along, kind="stable")
    limit = gap if isinstance(gap, float) else gap[order][1:]
    return np.split(order, np.flatnonzero(np.diff(along[order]) > limit) + 1)


def merged(segments: Segments, tolerance: float, gap: float) -> Segments:
    """Join segments that lie on one line within the tolerance and overlap or all but touch.

    The longest takes in all that fit it, then the next; the joined one is fitted to the end points of its parts by
    their lengths.
    """
    length = segments.lengths()
    order = np.argsort(-length, kind="stable")
    ends, support, residual = segments.ends.copy(), segments.support.copy(), segments.residual.copy()
    alive = np.ones(len(segments), bool)
    for i in order.tolist():
        if not alive[i]:
            continue
        while True:
            same = _same(ends[i], ends, alive, tolerance, gap)
            same[i] = False
            if not same.any():
                break
            parts = np.append(np.flatnonzero(same), i)
            weight = np.repeat(np.linalg.norm(ends[parts, 1] - ends[parts, 0], axis=1), 2)
            points = ends[parts].reshape(-1, 3)
            line = fit_line(points, weight)
            along = line.along(points)
            ends[i] = line.at(np.array([along.min(), along.max()]))
            residual[i] = np.sqrt(np.average(residual[parts] ** 2, weights=support[parts]))
            support[i] = support[parts].sum()
            alive[same] = False
    return Segments(ends[alive], support[alive], residual[alive])


def _same(
    one: Float64[np.ndarray, "2 3"],
    ends: Float64[np.ndarray, "n 2 3"],
    alive: Bool[np.ndarray, " n"],
    tolerance: float,
    gap: float,
) -> Bool[np.ndarray, " n"]:
    """Which segments continue or repeat this one."""
    length = float(np.linalg.norm(one[1] - one[0]))
    line = Line(one[0], (one[1] - one[0]) / max(length, 1e-12))
    along = line.along(ends.reshape(-1, 3)).reshape(-1, 2)
    touching = alive & (along.max(axis=1) > -gap) & (along.min(axis=1) < length + gap)
    index = np.flatnonzero(touching)
    near = line.distance(ends[index].reshape(-1, 3)).reshape(-1, 2).max(axis=1) < tolerance
    span = ends[index, 1] - ends[index, 0]
    sine = np.linalg.norm(np.cross(span, line.direction), axis=1) / np.maximum(np.linalg.norm(span, axis=1), 1e-12)
    # a short piece may point elsewhere by chance as long as it stays on the line
    found = np.zeros(len(ends), bool)
    found[index] = near & ((sine < _SAME_ANGLE) | (np.linalg.norm(span, axis=1) < 4 * tolerance))
    return found
