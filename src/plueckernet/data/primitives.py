"""Wireframe pieces that scenes are made of, vectorised: each function returns segments in metres."""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet

Segments = Float[np.ndarray, "_ 2 3"]  # start and end of each segment
Vectors = Float[np.ndarray, "_ 3"]
Points2 = Float[np.ndarray, "_ 2"]

_SHORTEST = 0.02  # m; a shorter segment says nothing about its direction
_UNIT = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=np.float64)
_EDGES = np.array([(a, b) for a in range(8) for b in range(a + 1, 8) if np.abs(_UNIT[a] - _UNIT[b]).sum() == 1])


def box_edges(corner: Vectors, u: Vectors, v: Vectors, w: Vectors) -> Segments:
    """The twelve edges of each box with one corner and the three edges that leave it."""
    frames = np.stack([u, v, w], axis=1)  # (b, 3, 3)
    corners = corner[:, None] + _UNIT @ frames  # (b, 8, 3)
    edges: Segments = corners[:, _EDGES].reshape(-1, 2, 3)
    return edges


def upright_boxes(centre: Vectors, size: Vectors, yaw: float = 0.0) -> Segments:
    """Boxes standing on their centre point ``(x, y, floor)``, turned about the vertical."""
    c, s = np.cos(yaw), np.sin(yaw)
    axes = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    u, v, w = axes[:, None] * size.T[..., None]  # each (b, 3)
    return box_edges(centre - (u + v) / 2, u, v, w)


def rectangles(corner: Vectors, u: Vectors, v: Vectors) -> Segments:
    """The four edges of each rectangle with one corner and the two edges that leave it."""
    loop = np.stack([corner, corner + u, corner + u + v, corner + v], axis=1)  # (b, 4, 3)
    edges: Segments = np.stack([loop, np.roll(loop, -1, axis=1)], axis=2).reshape(-1, 2, 3)
    return edges


def ring(outline: Points2, height: Float[np.ndarray, " k"] | float) -> Segments:
    """A closed polygon over the plan ``outline``; each corner has its own height."""
    heights = np.broadcast_to(np.asarray(height, dtype=np.float64), outline.shape[:1])
    loop = np.column_stack([outline, heights])
    edges: Segments = np.stack([loop, np.roll(loop, -1, axis=0)], axis=1)
    return edges


def prism(outline: Points2, floor: float, top: Float[np.ndarray, " k"] | float) -> Segments:
    """Floor polygon, top polygon and the vertical edges between them."""
    low, high = ring(outline, floor), ring(outline, top)
    return np.concatenate([low, high, np.stack([low[:, 0], high[:, 0]], axis=1)])


def bundle(first: Float[np.ndarray, "2 3"], step: Float[np.ndarray, "3"], count: int) -> Segments:
    """Parallel copies of one segment: boards, steps, slats, rows of tiles."""
    copies: Segments = first + np.arange(count)[:, None, None] * step
    return copies


def polygon(sides: int, radius: float, phase: float = 0.0) -> Points2:
    """A regular polygon about the origin: what is left of a round object in a line drawing."""
    angle = phase + 2 * np.pi * np.arange(sides) / sides
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def turned(segments: Segments, yaw: float) -> Segments:
    """Turn about the vertical through the origin."""
    c, s = np.cos(yaw), np.sin(yaw)
    segments = segments @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    return segments


def shifted(segments: Segments, *offset: float) -> Segments:
    """Move by ``x, y, z``."""
    segments = segments + np.array(offset)
    return segments


def clipped(segments: Segments, low: Float[np.ndarray, "3"], high: Float[np.ndarray, "3"]) -> Segments:
    """The parts of the segments inside an axis-aligned box (Liang and Barsky)."""
    start, way = segments[:, 0], segments[:, 1] - segments[:, 0]
    safe = np.where(np.abs(way) < 1e-12, 1e-12, way)
    first, second = (low - start) / safe, (high - start) / safe
    enter = np.minimum(first, second).max(axis=1).clip(0, 1)
    leave = np.maximum(first, second).min(axis=1).clip(0, 1)
    inside = (leave - enter) * np.linalg.norm(way, axis=1) > _SHORTEST
    ends = np.stack([enter, leave], axis=1)[inside]
    parts: Segments = start[inside, None] + ends[..., None] * way[inside, None]
    return parts


def fragmented(segments: Segments, rng: np.random.Generator, *, piece: float, gap: float) -> Segments:
    """Break segments as a detector does: about one break every ``piece`` metres, ``gap`` of it lost."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    parts = 1 + rng.poisson(length / piece)
    line = np.repeat(np.arange(len(segments)), parts)
    place = np.arange(len(line)) - np.repeat(np.cumsum(parts) - parts, parts)
    width = 1 / parts[line]
    low = (place + gap * rng.uniform(0, 1, len(line))) * width
    high = (place + 1 - gap * rng.uniform(0, 1, len(line))) * width
    start, way = segments[line, 0], (segments[:, 1] - segments[:, 0])[line]
    broken = start[:, None] + np.stack([low, high], axis=1)[..., None] * way[:, None]
    return np.where((parts[line] > 1)[:, None, None], broken, segments[line])


def scattered(rng: np.random.Generator, centre: Vectors, spread: Vectors, length: tuple[float, float]) -> Segments:
    """One segment of random direction about each centre: twigs, leaves, false detections."""
    middle = centre + rng.normal(size=centre.shape) * spread
    way = rng.normal(size=centre.shape)
    way *= rng.uniform(*length, (len(centre), 1)) / np.linalg.norm(way, axis=1, keepdims=True) / 2
    return np.stack([middle - way, middle + way], axis=1)


def to_lines(segments: Segments) -> LineSet:
    """A LineSet of the segments that have a length."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    return LineSet.from_segments(torch.from_numpy(segments[length > _SHORTEST]))


def to_segments(lines: LineSet) -> Segments:
    """The segments of a scene; infinite lines raise :class:`InputError`."""
    if lines.endpoints is None:
        raise InputError("a scene has to be of segments, not of infinite lines")
    segments: Segments = lines.endpoints.numpy()
    return segments


def joined(pieces: Iterable[Segments]) -> Segments:
    """All pieces in one array, also when there are none."""
    return np.concatenate([np.empty((0, 2, 3)), *pieces])
