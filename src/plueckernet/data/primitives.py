"""Wireframe pieces of scenes, vectorised: each function returns segments in metres."""

from collections.abc import Iterable

import numpy as np
import torch
from jaxtyping import Float

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet

SceneSegments = Float[np.ndarray, "_ 2 3"]  # start and end of each segment
Vectors = Float[np.ndarray, "_ 3"]
Points2 = Float[np.ndarray, "_ 2"]

_MIN_SEGMENT_LENGTH = 0.02  # m; a shorter segment has no reliable direction
_UNIT = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=np.float64)
_EDGES = np.array([(a, b) for a in range(8) for b in range(a + 1, 8) if np.abs(_UNIT[a] - _UNIT[b]).sum() == 1])


def box_edges(corner: Vectors, u: Vectors, v: Vectors, w: Vectors) -> SceneSegments:
    """The twelve edges of each box with one corner and the three edges that leave it."""
    frames = np.stack([u, v, w], axis=1)  # (b, 3, 3)
    corners = corner[:, None] + _UNIT @ frames  # (b, 8, 3)
    edges: SceneSegments = corners[:, _EDGES].reshape(-1, 2, 3)
    return edges


def upright_boxes(centre: Vectors, size: Vectors, yaw: float = 0.0) -> SceneSegments:
    """Boxes standing on their centre point ``(x, y, floor)``, turned about the vertical."""
    c, s = np.cos(yaw), np.sin(yaw)
    axes = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    u, v, w = axes[:, None] * size.T[..., None]  # each (b, 3)
    return box_edges(centre - (u + v) / 2, u, v, w)


def rectangles(corner: Vectors, u: Vectors, v: Vectors) -> SceneSegments:
    """The four edges of each rectangle with one corner and the two edges that leave it."""
    loop = np.stack([corner, corner + u, corner + u + v, corner + v], axis=1)  # (b, 4, 3)
    edges: SceneSegments = np.stack([loop, np.roll(loop, -1, axis=1)], axis=2).reshape(-1, 2, 3)
    return edges


def ring(outline: Points2, height: Float[np.ndarray, " k"] | float) -> SceneSegments:
    """A closed polygon over the plan ``outline``; each corner has its own height."""
    heights = np.broadcast_to(np.asarray(height, dtype=np.float64), outline.shape[:1])
    loop = np.column_stack([outline, heights])
    edges: SceneSegments = np.stack([loop, np.roll(loop, -1, axis=0)], axis=1)
    return edges


def prism(outline: Points2, floor: float, top: Float[np.ndarray, " k"] | float) -> SceneSegments:
    """Floor polygon, top polygon and the vertical edges between them."""
    low, high = ring(outline, floor), ring(outline, top)
    return np.concatenate([low, high, np.stack([low[:, 0], high[:, 0]], axis=1)])


def bundle(first: Float[np.ndarray, "2 3"], step: Float[np.ndarray, "3"], count: int) -> SceneSegments:
    """Parallel copies of one segment: boards, steps, slats, rows of tiles."""
    copies: SceneSegments = first + np.arange(count)[:, None, None] * step
    return copies


def polygon(sides: int, radius: float, phase: float = 0.0) -> Points2:
    """A regular polygon about the origin, which stands for a round object in a line drawing."""
    angle = phase + 2 * np.pi * np.arange(sides) / sides
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def turned(segments: SceneSegments, yaw: float) -> SceneSegments:
    """Turn about the vertical through the origin."""
    c, s = np.cos(yaw), np.sin(yaw)
    segments = segments @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
    return segments


def shifted(segments: SceneSegments, *offset: float) -> SceneSegments:
    """Move by ``x, y, z``."""
    segments = segments + np.array(offset)
    return segments


def clipped(segments: SceneSegments, low: Float[np.ndarray, "3"], high: Float[np.ndarray, "3"]) -> SceneSegments:
    """The segments cut to an axis-aligned box (Liang and Barsky)."""
    start, vector = segments[:, 0], segments[:, 1] - segments[:, 0]
    safe = np.where(np.abs(vector) < 1e-12, 1e-12, vector)
    first, second = (low - start) / safe, (high - start) / safe
    enter = np.minimum(first, second).max(axis=1).clip(0, 1)
    leave = np.maximum(first, second).min(axis=1).clip(0, 1)
    inside = (leave - enter) * np.linalg.norm(vector, axis=1) > _MIN_SEGMENT_LENGTH
    ends = np.stack([enter, leave], axis=1)[inside]
    inner: SceneSegments = start[inside, None] + ends[..., None] * vector[inside, None]
    return inner


def fragmented(segments: SceneSegments, rng: np.random.Generator, *, piece: float, gap: float) -> SceneSegments:
    """Break segments as a detector does, about every ``piece`` metres; each piece loses up to ``gap`` at each end."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    pieces = 1 + rng.poisson(length / piece)
    line = np.repeat(np.arange(len(segments)), pieces)
    place = np.arange(len(line)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    width = 1 / pieces[line]
    low = (place + gap * rng.uniform(0, 1, len(line))) * width
    high = (place + 1 - gap * rng.uniform(0, 1, len(line))) * width
    start, vector = segments[line, 0], (segments[:, 1] - segments[:, 0])[line]
    broken = start[:, None] + np.stack([low, high], axis=1)[..., None] * vector[:, None]
    return np.where((pieces[line] > 1)[:, None, None], broken, segments[line])


def scattered(rng: np.random.Generator, centre: Vectors, spread: Vectors, length: tuple[float, float]) -> SceneSegments:
    """One segment of random direction about each centre: twigs, leaves, false detections."""
    middle = centre + rng.normal(size=centre.shape) * spread
    vector = rng.normal(size=centre.shape)
    vector *= rng.uniform(*length, (len(centre), 1)) / np.linalg.norm(vector, axis=1, keepdims=True) / 2
    return np.stack([middle - vector, middle + vector], axis=1)


def to_lines(segments: SceneSegments) -> LineSet:
    """A LineSet of the segments that have a length."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    return LineSet.from_segments(torch.from_numpy(segments[length > _MIN_SEGMENT_LENGTH]))


def to_segments(lines: LineSet) -> SceneSegments:
    """The segments of a scene; infinite lines raise :class:`InputError`."""
    if lines.endpoints is None:
        raise InputError("a scene must consist of segments, not of infinite lines")
    segments: SceneSegments = lines.endpoints.numpy()
    return segments


def concatenate_segments(pieces: Iterable[SceneSegments]) -> SceneSegments:
    """All pieces in one array, which is empty when there are none."""
    return np.concatenate([np.empty((0, 2, 3)), *pieces])
