"""Façades and their repeated elements: windows, frames, blinds, balconies, cladding, roofs.

Everything here stands in the plane y = 0, from x = 0 to the wall's width, with the street on the side of -y.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from plueckernet.data.primitives import (
    SceneSegments,
    Vectors,
    box_edges,
    bundle,
    concatenate_segments,
    rectangles,
    shifted,
)


@dataclass(frozen=True)
class Wall:
    """A façade with a grid of equal windows."""

    width: float  # m
    height: float  # m
    storey: float  # m
    corners: Vectors  # lower left of each window
    opening: Float[np.ndarray, "3"]  # width, depth of the reveal, height of each window

    @property
    def u(self) -> Vectors:
        """The sills."""
        return self._edges(0)

    @property
    def reveal(self) -> Vectors:
        """From the wall's face to the window's frame."""
        return self._edges(1)

    @property
    def v(self) -> Vectors:
        """The left jambs."""
        return self._edges(2)

    def _edges(self, axis: int) -> Vectors:
        return np.broadcast_to(np.eye(3)[axis] * self.opening[axis], self.corners.shape)


def facade(rng: np.random.Generator, width: float, height: float, budget: int) -> SceneSegments:
    """Windows, cornices and a roof, then more detail until there are enough lines."""
    wall = _draw_wall(rng, width, height)
    pieces = [_windows(rng, wall), _cornices(wall), _roof(rng, wall)]
    for detail in rng.permutation(len(_DETAILS)):
        if sum(len(piece) for piece in pieces) >= budget:
            break
        pieces.append(_DETAILS[detail](rng, wall))
    return concatenate_segments(pieces)


def _draw_wall(rng: np.random.Generator, width: float, height: float) -> Wall:
    storey, bay = rng.uniform(2.7, 3.6), rng.uniform(1.4, 3.5)
    high = rng.uniform(0.45, 0.65) * storey
    opening = np.array([rng.uniform(0.4, 0.7) * bay, rng.uniform(0.08, 0.25), high])
    x = np.arange(rng.uniform(0.2, 0.8) * bay, width - opening[0], bay)
    z = np.arange(0.9, max(1.0, height - high), storey)
    grid = np.stack(np.meshgrid(x, 0.0, z), axis=-1).reshape(-1, 3)
    return Wall(width, height, storey, grid, opening)


def _windows(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    """The holes, frames nested in them, and mullions."""
    pieces = [box_edges(wall.corners, wall.u, wall.v, wall.reveal)]
    if rng.random() < 0.6:
        pieces.append(_frames(rng, wall))
    middle = wall.corners + wall.reveal + wall.u / 2
    pieces.append(np.stack([middle, middle + wall.v], axis=1))
    return concatenate_segments(pieces)


def _frames(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    inset = rng.uniform(0.05, 0.15) * np.array([1.0, 0.0, 1.0])
    return rectangles(wall.corners + wall.reveal + inset, wall.u - 2 * inset, wall.v - 2 * inset)


def _surrounds(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    """Mouldings about the windows, standing out of the wall."""
    outset = np.array([rng.uniform(0.08, 0.2), 0.0, rng.uniform(0.08, 0.2)])
    out = np.array([0.0, rng.uniform(0.03, 0.1), 0.0])
    return rectangles(wall.corners - outset - out, wall.u + 2 * outset, wall.v + 2 * outset)


def _cornices(wall: Wall) -> SceneSegments:
    levels = np.append(np.arange(0.0, wall.height, wall.storey), wall.height)
    line = np.zeros((len(levels), 2, 3))
    line[:, 1, 0], line[..., 2] = wall.width, levels[:, None]
    return concatenate_segments([line, shifted(line, 0.0, -0.1, -0.15)])


def _blinds(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    """Slats, equal in every window that has them: many dense bundles of parallels."""
    chosen = rng.random(len(wall.corners)) < rng.uniform(0.3, 1.0)
    left = (wall.corners + wall.reveal)[chosen]
    slats = np.stack([left, left + wall.u[chosen]], axis=1)
    pitch = rng.uniform(0.08, 0.25)
    rise = np.arange(pitch, wall.opening[2], pitch)[:, None, None, None] * np.array([0.0, 0.0, 1.0])
    stack: SceneSegments = (slats + rise).reshape(-1, 2, 3)
    return stack


def _balconies(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    """Slabs with balusters before some of the windows."""
    chosen = rng.random(len(wall.corners)) < 0.5
    out = np.broadcast_to([0.0, -rng.uniform(0.8, 1.4), 0.0], wall.corners.shape)
    low = wall.corners - np.array([0.2, 0.0, 0.4])
    along = wall.u + np.array([0.4, 0.0, 0.0])
    slab = box_edges(low[chosen], along[chosen], out[chosen], np.full((chosen.sum(), 3), [0, 0, 0.15]))
    count = int(rng.integers(4, 14))
    foot = (low + out)[chosen][:, None] + np.linspace(0, 1, count)[:, None] * along[chosen][:, None]
    balusters = np.stack([foot, foot + np.array([0.0, 0.0, 1.0])], axis=2).reshape(-1, 2, 3)
    return concatenate_segments([slab, balusters])


def _cladding(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    """Boards or courses of stone over the whole wall or one storey of it."""
    whole = rng.random() < 0.5
    low = 0.0 if whole else wall.storey * rng.integers(0, max(1, int(wall.height / wall.storey)))
    high = wall.height if whole else min(wall.height, low + wall.storey)
    pitch = rng.uniform(0.12, 0.4)
    if rng.random() < 0.7:
        first = np.array([[0.0, 0.0, low], [wall.width, 0.0, low]])
        return bundle(first, np.array([0.0, 0.0, pitch]), int((high - low) / pitch))
    first = np.array([[0.0, 0.0, low], [0.0, 0.0, high]])
    return bundle(first, np.array([pitch, 0.0, 0.0]), int(wall.width / pitch))


def _roof(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    """Eaves and ridge, and rafters or rows of tiles between them, in a plane that leans back."""
    up = rng.uniform(2.0, 5.0) * np.array([0.0, 1.0, rng.uniform(0.3, 1.0)])
    eaves = np.array([[0.0, -0.3, wall.height], [wall.width, -0.3, wall.height]])
    rafters = int(rng.integers(2, 12))
    rafter = np.stack([eaves[0], eaves[0] + up])
    step = np.array([wall.width / (rafters - 1), 0.0, 0.0])
    return concatenate_segments([bundle(eaves, up, 2), bundle(rafter, step, rafters)])


def _tiles(rng: np.random.Generator, wall: Wall) -> SceneSegments:
    rows, slope = int(rng.integers(8, 25)), rng.uniform(0.3, 1.0)
    eaves = np.array([[0.0, -0.3, wall.height], [wall.width, -0.3, wall.height]])
    return bundle(eaves, rng.uniform(0.15, 0.35) * np.array([0.0, 1.0, slope]), rows)


_Detail = Callable[[np.random.Generator, Wall], SceneSegments]
_DETAILS: tuple[_Detail, ...] = (_blinds, _balconies, _cladding, _surrounds, _tiles, _frames)
