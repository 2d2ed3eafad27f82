"""Which outlines are edges and which are only the end of what a scanner saw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.spatial import cKDTree

from plueckernet.extraction.boundaries import Outline
from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.planes import Planes

_BEYOND = 1.5  # spacings outside of an outline at which the scanner's view is asked for
_TOUCH = 2.5  # spacings from an outline to what it touches
_AROUND = 40  # nodes among which that is sought
_RIM = 0.002  # share of the points above the upper and below the lower end of the field of view


@dataclass(frozen=True, eq=False)
class View:
    """A cloud as seen from where it was scanned; elevations are about the z axis."""

    origin: Float64[np.ndarray, " 3"]
    directions: cKDTree
    range: Float64[np.ndarray, " m"]
    lowest: float
    highest: float

    @classmethod
    def of(cls, position: Float64[np.ndarray, "m 3"], origin: Float64[np.ndarray, " 3"]) -> View:
        """The view of points from a place."""
        ray = position - origin
        distance = np.maximum(np.linalg.norm(ray, axis=1), 1e-9)
        elevation = np.arcsin(ray[:, 2] / distance)
        lowest, highest = np.quantile(elevation, [_RIM, 1 - _RIM])
        return View(origin, cKDTree(ray / distance[:, None]), distance, float(lowest), float(highest))

    def hides(self, nodes: Nodes, planes: Planes, one: Outline, tree: cKDTree) -> Bool[np.ndarray, " b"]:
        """Outline nodes beside which something nearer stands in the way, or the field of view ends.

        A surface that touches something else there ends there, whatever stands before what is behind.
        """
        if len(one) == 0:
            return np.empty(0, bool)
        own = planes.label[one.node[0]]
        position, spacing = nodes.position[one.node], nodes.spacing[one.node]
        outside = position + _BEYOND * spacing[:, None] * np.cross(one.tangent, planes.normal[own])
        ray = outside - self.origin
        distance = np.maximum(np.linalg.norm(ray, axis=1), 1e-9)
        angle, nearest = self.directions.query(ray / distance[:, None])
        width = spacing / distance
        shadow = (angle < _BEYOND * width) & (self.range[nearest] < distance - 3 * spacing)
        elevation = np.arcsin(ray[:, 2] / distance)
        rim = (elevation < self.lowest) | (elevation > self.highest)
        apart, near = tree.query(position, min(_AROUND, len(nodes)))
        touches = ((planes.label[near] != own) & (apart < _TOUCH * spacing[:, None])).any(axis=1)
        return np.asarray((shadow & ~touches) | rim)
