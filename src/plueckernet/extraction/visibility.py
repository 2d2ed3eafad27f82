"""Which outlines are edges and which are only the limit of the scanner's view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.spatial import cKDTree

from plueckernet.extraction.boundaries import Outline
from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.planes import Planes
from plueckernet.settings import check_positive

_NEIGHBOURS = 40  # nearest nodes among which a surface that an outline touches is searched
_RIM_FRACTION = 0.002  # fraction of the points above the upper and below the lower end of the field of view


@dataclass(frozen=True)
class VisibilitySettings:
    """When an outline is the limit of the scanner's view. Lengths in spacings."""

    outside_distance: float = 1.5  # outside an outline, where the view is tested, and width of the ray there
    min_depth_gap: float = 3.0  # from the outline to something nearer that hides what is behind
    touch_distance: float = 2.5  # from an outline to another surface that it touches

    def __post_init__(self) -> None:
        check_positive(self, "outside_distance", "min_depth_gap", "touch_distance")


@dataclass(frozen=True, eq=False)
class Viewpoint:
    """A cloud as seen from the position of the scanner; elevations are about the z axis."""

    origin: Float64[np.ndarray, " 3"]
    directions: cKDTree
    range: Float64[np.ndarray, " m"]
    lowest: float
    highest: float
    settings: VisibilitySettings

    @classmethod
    def of(
        cls,
        position: Float64[np.ndarray, "m 3"],
        origin: Float64[np.ndarray, " 3"],
        settings: VisibilitySettings = VisibilitySettings(),
    ) -> Viewpoint:
        """The view of points from a position."""
        ray = position - origin
        distance = np.maximum(np.linalg.norm(ray, axis=1), 1e-9)
        elevation = np.arcsin(ray[:, 2] / distance)
        lowest, highest = np.quantile(elevation, [_RIM_FRACTION, 1 - _RIM_FRACTION])
        return Viewpoint(origin, cKDTree(ray / distance[:, None]), distance, float(lowest), float(highest), settings)

    def hides(self, nodes: Nodes, planes: Planes, outline: Outline, tree: cKDTree) -> Bool[np.ndarray, " b"]:
        """Outline nodes beside which something nearer blocks the view, or the field of view ends.

        A surface that touches another one ends there, even if the view behind it is blocked.
        """
        if len(outline) == 0:
            return np.empty(0, bool)
        settings, own = self.settings, planes.label[outline.node[0]]
        position, spacing = nodes.position[outline.node], nodes.spacing[outline.node]
        outward = np.cross(outline.tangent, planes.normal[own])
        ray = position + settings.outside_distance * spacing[:, None] * outward - self.origin
        distance = np.maximum(np.linalg.norm(ray, axis=1), 1e-9)
        angle, nearest = self.directions.query(ray / distance[:, None])
        in_ray = angle < settings.outside_distance * (spacing / distance)
        shadow = in_ray & (self.range[nearest] < distance - settings.min_depth_gap * spacing)
        elevation = np.arcsin(ray[:, 2] / distance)
        rim = (elevation < self.lowest) | (elevation > self.highest)
        apart, near = tree.query(position, min(_NEIGHBOURS, len(nodes)))
        touches = (planes.label[near] != own) & (apart < settings.touch_distance * spacing[:, None])
        return np.asarray((shadow & ~touches.any(axis=1)) | rim)
