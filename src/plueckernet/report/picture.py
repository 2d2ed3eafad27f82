"""Two line maps as they came and as they lie on each other, seen from where a person would look."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

if TYPE_CHECKING:
    from plueckernet.geometry import LineSet, Pose

Segments = Float64[np.ndarray, "_ 2 3"]
Strokes = Float64[np.ndarray, "_ 2 2"]


@dataclass(frozen=True)
class Panel:
    """One drawing: what is seen of both maps, right and up on the page."""

    title: str
    source: Strokes
    target: Strokes

    def bounds(self) -> Float64[np.ndarray, "2 2"]:
        """Lower left and upper right corner."""
        points = np.concatenate([self.source, self.target]).reshape(-1, 2)
        return np.stack([points.min(0), points.max(0)])


def before_and_after(source: LineSet, target: LineSet, pose: Pose | None, elevation: float, turn: float) -> list[Panel]:
    """Both maps in the target's frame: taken as they are, then registered (if they are).

    Args:
        source: The map that is moved.
        target: The map that stays.
        pose: ``target_T_source``, or None if there is none.
        elevation: Of the eye, in degrees: 90 looks straight down.
        turn: Of the map about its upright axis, in degrees, from walls along the page.
    """
    still, came = as_segments(target), as_segments(source)
    page = _page(level_axes(still), math.radians(elevation), math.radians(turn))
    panels = [Panel("before", (came + into_sight(came, still)) @ page, still @ page)]
    if pose is not None:
        panels.append(Panel("after", as_segments(pose @ source) @ page, still @ page))
    return panels


def as_segments(lines: LineSet) -> Segments:
    """End points; of infinite lines those in a ball that holds most of the feet, or a short piece at the foot."""
    if lines.endpoints is not None:
        return np.asarray(lines.endpoints.cpu(), dtype=np.float64)
    centre = lines.centre()
    foot = lines.footpoints(centre)
    far = (foot - centre).norm(dim=-1, keepdim=True)
    radius = (1.5 * far.quantile(0.9)).clamp_min(1e-9)
    half = (radius.square() - far.square()).clamp_min((0.1 * radius).square()).sqrt() * lines.direction
    return np.stack([np.asarray((foot + sign * half).cpu(), dtype=np.float64) for sign in (-1, 1)], 1)


def level_axes(segments: Segments) -> Float64[np.ndarray, "3 3"]:
    """Directions as rows: two level ones along the walls, and up."""
    up = _upright(segments)
    ahead = np.cross(up, np.eye(3)[np.abs(up).argmin()])
    ahead /= np.linalg.norm(ahead)
    right = np.cross(ahead, up)
    arrow = segments[:, 1] - segments[:, 0]
    heading = arrow @ right + 1j * (arrow @ ahead)
    # The fourth power makes one of walls that stand square to each other.
    grid = np.angle((np.abs(heading) * np.exp(4j * np.angle(heading))).sum()) / 4
    cosine, sine = math.cos(grid), math.sin(grid)
    return np.stack([cosine * right + sine * ahead, cosine * ahead - sine * right, up])


def into_sight(came: Segments, still: Segments) -> Float64[np.ndarray, "3"]:
    """The shift that draws a map nearer if it lies so far away that nothing could be seen of either, else zero."""
    middles = [side.reshape(-1, 3).mean(0) for side in (came, still)]
    gap = middles[1] - middles[0]
    size = sum(np.ptp(side.reshape(-1, 3), axis=0).max() for side in (came, still))
    far = float(np.linalg.norm(gap)) / size
    return gap * (1 - 0.75 / far) if far > 1.5 else np.zeros(3)


def _page(axes: Float64[np.ndarray, "3 3"], elevation: float, turn: float) -> Float64[np.ndarray, "3 2"]:
    """The directions in space that are right and up on the page."""
    right, ahead, up = axes
    right, ahead = math.cos(turn) * right + math.sin(turn) * ahead, math.cos(turn) * ahead - math.sin(turn) * right
    return np.stack([right, math.sin(elevation) * ahead + math.cos(elevation) * up], -1)


def _upright(segments: Segments) -> Float64[np.ndarray, "3"]:
    """The direction of the lines across which the map is thin; up is where it has less: things stand on the ground."""
    points = segments.reshape(-1, 3) - segments.reshape(-1, 3).mean(0)
    thin = np.linalg.eigh(points.T @ points)[1][:, 0]
    arrow = segments[:, 1] - segments[:, 0]
    along = arrow @ thin
    upright = np.abs(along) > 0.9 * np.linalg.norm(arrow, axis=-1)
    up = thin + (np.sign(along[upright, None]) * arrow[upright]).sum(0)
    up /= np.linalg.norm(up)
    height = points @ up
    return up if height.max() > -height.min() else -up
