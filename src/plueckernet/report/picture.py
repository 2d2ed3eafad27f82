"""Two line maps before and after registration, projected as a person would look at them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:
    from plueckernet.geometry import LineSet
    from plueckernet.geometry.similarity import Transform

_Z = np.array([0.0, 0.0, 1.0])
_EXACT = math.cos(math.radians(0.05))
_DISTANT = 50.0  # extents of a map from the origin of its grid
_PARALLEL, _APART = math.cos(math.radians(8.0)), math.cos(math.radians(25.0))
_MIN_SHARE = 0.1  # of the length of all lines, for a direction of many lines
_MAX_DIRECTIONS, _MAX_CANDIDATES = 6, 400
Endpoints = Float64[np.ndarray, "_ 2 3"]
Strokes = Float64[np.ndarray, "_ 2 2"]  # end points on the page


@dataclass(frozen=True)
class Panel:
    """One drawing of both maps; x points right and y up on the page."""

    title: str
    source: Strokes
    target: Strokes

    def bounds(self) -> Float64[np.ndarray, "2 2"]:
        """Lower left and upper right corner."""
        points = np.concatenate([self.source, self.target]).reshape(-1, 2)
        return np.stack([points.min(0), points.max(0)])


def before_and_after(
    source: LineSet, target: LineSet, pose: Transform | None, elevation: float, turn: float
) -> list[Panel]:
    """Both maps in the target's frame: before registration and, if there is a pose, after it.

    Args:
        source: The map that is moved.
        target: The map that stays.
        pose: ``target_T_source``, or None if there is none.
        elevation: Elevation of the camera in degrees; 90 looks straight down.
        turn: Rotation of the map about the vertical in degrees; at 0 the walls are parallel to the page.
    """
    source_ends, target_ends = as_segments(source), as_segments(target)
    page = _page_axes(level_axes(target_ends), math.radians(elevation), math.radians(turn))
    shifted = source_ends + shift_into_view(source_ends, target_ends)
    panels = [Panel("before", shifted @ page, target_ends @ page)]
    if pose is not None:
        panels.append(Panel("after", as_segments(pose @ source) @ page, target_ends @ page))
    return panels


def as_segments(lines: LineSet) -> Endpoints:
    """End points of segments; infinite lines are clipped to a ball that holds most of their foot points.

    A line outside the ball is drawn as a short piece at its foot point.
    """
    if lines.endpoints is not None:
        return np.asarray(lines.endpoints.cpu(), dtype=np.float64)
    centre = lines.centre()
    foot = lines.footpoints(centre)
    distance = (foot - centre).norm(dim=-1, keepdim=True)
    radius = (1.5 * distance.quantile(0.9)).clamp_min(1e-9)
    half = (radius.square() - distance.square()).clamp_min((0.1 * radius).square()).sqrt() * lines.direction
    return np.stack([np.asarray((foot + sign * half).cpu(), dtype=np.float64) for sign in (-1, 1)], 1)


def level_axes(segments: Endpoints) -> Float64[np.ndarray, "3 3"]:
    """Three axes as rows: two horizontal ones along the walls, and up."""
    up = _up_direction(segments)
    ahead = np.cross(up, np.eye(3)[np.abs(up).argmin()])
    ahead /= np.linalg.norm(ahead)
    right = np.cross(ahead, up)
    arrow = segments[:, 1] - segments[:, 0]
    heading = arrow @ right + 1j * (arrow @ ahead)
    # The fourth power maps headings that differ by 90 degrees to the same angle.
    grid = np.angle((np.abs(heading) * np.exp(4j * np.angle(heading))).sum()) / 4
    cosine, sine = math.cos(grid), math.sin(grid)
    return np.stack([cosine * right + sine * ahead, cosine * ahead - sine * right, up])


def shift_into_view(source: Endpoints, target: Endpoints) -> Float64[np.ndarray, "3"]:
    """The shift of the source towards the target if both would be too small in one picture, else zero."""
    centres = [side.reshape(-1, 3).mean(0) for side in (source, target)]
    gap = centres[1] - centres[0]
    size = sum(np.ptp(side.reshape(-1, 3), axis=0).max() for side in (source, target))
    gap_in_sizes = float(np.linalg.norm(gap)) / size
    return gap * (1 - 0.75 / gap_in_sizes) if gap_in_sizes > 1.5 else np.zeros(3)


def _page_axes(axes: Float64[np.ndarray, "3 3"], elevation: float, turn: float) -> Float64[np.ndarray, "3 2"]:
    """The directions in space that point right and up on the page."""
    right, ahead, up = axes
    right, ahead = math.cos(turn) * right + math.sin(turn) * ahead, math.cos(turn) * ahead - math.sin(turn) * right
    return np.stack([right, math.sin(elevation) * ahead + math.cos(elevation) * up], -1)


def _up_direction(segments: Endpoints) -> Float64[np.ndarray, "3"]:
    """The direction of many lines along which the map is not much extended; the side with fewer points is up.

    Uprights are on all walls, level lines only on those of their direction; and most places are wider than high. Of a
    facade, the normal has the least extent, but hardly any lines. Maps in a national grid, and exact drawings whose
    uprights are along z, have z up.
    """
    if _in_national_grid(segments):
        return _Z
    points = segments.reshape(-1, 3) - segments.reshape(-1, 3).mean(0)
    thin = np.linalg.eigh(points.T @ points)[1][:, 0]
    arrows = segments[:, 1] - segments[:, 0]
    directions, length = _dominant_directions(arrows), np.linalg.norm(arrows, axis=-1)
    counts = [(np.abs(arrows @ direction) > _PARALLEL * length).sum() for direction in directions]
    extents = [np.ptp(np.quantile(points @ direction, [0.02, 0.98])) for direction in directions]
    up = directions[int(np.argmax(np.array(counts) / extents))] if directions else thin
    if abs(up[2]) > _EXACT:
        return _Z
    height = points @ up
    return up if height.max() > -height.min() else -up


def _in_national_grid(segments: Endpoints) -> bool:
    """Whether x and y are much larger than the map itself, and than its height: eastings and northings."""
    middle, extent = np.median(segments.reshape(-1, 3), axis=0), np.ptp(segments.reshape(-1, 3), axis=0).max()
    east, north, height = np.abs(middle)
    return bool(min(east, north) > _DISTANT * max(extent, height))


def _dominant_directions(arrows: Float64[np.ndarray, "n 3"]) -> list[Float64[np.ndarray, "3"]]:
    """Directions to which at least a tenth of all length is parallel, the most frequent first."""
    length = np.linalg.norm(arrows, axis=-1)
    arrows, length = arrows[length > 0], length[length > 0]
    unit, total, directions = arrows / length[:, None], length.sum(), []
    for _ in range(_MAX_DIRECTIONS):
        if not len(unit):
            break
        candidates = unit[np.argsort(-length)[:_MAX_CANDIDATES]]
        weight = (np.abs(candidates @ unit.T) > _PARALLEL) @ length
        best = candidates[weight.argmax()]
        if weight.max() < _MIN_SHARE * total:
            break
        cosine = unit @ best
        parallel = np.abs(cosine) > _PARALLEL
        mean = (np.sign(cosine[parallel]) * length[parallel]) @ unit[parallel]
        directions.append(mean / np.linalg.norm(mean))
        unit, length = unit[np.abs(cosine) < _APART], length[np.abs(cosine) < _APART]
    return directions
