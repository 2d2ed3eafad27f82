"""Houses: rooms behind walls of some thickness, doors, windows, furniture; mostly Manhattan."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from plueckernet.data.primitives import (
    Points2,
    SceneSegments,
    box_edges,
    bundle,
    concatenate_segments,
    polygon,
    prism,
    ring,
    shifted,
    to_lines,
    turned,
    upright_boxes,
)
from plueckernet.geometry import LineSet

FloorPlan = Float[np.ndarray, "_ 4"]  # rooms between wall axes: x0, y0, x1, y1
Walls = Float[np.ndarray, "_ 4"]  # normal axis, position along it, start and end along the other axis


@dataclass(frozen=True)
class HouseStyle:
    """Statistics of the houses; the default resembles Structured3D, with mean/median of 306/312 lines."""

    width: float = 11.0  # m, mean along x
    depth: float = 10.0  # m, mean along y
    height: float = 2.8  # m, mean of a room
    lines: tuple[int, int] = (45, 515)  # least and most in a house
    lines_per_room: float = 75.0
    wall: tuple[float, float] = (0.1, 0.3)  # m, thickness
    chamfered: float = 0.7  # fraction of rooms with a corner cut off
    sloped: float = 0.1  # fraction of houses under a sloped ceiling
    bent: float = 0.6  # fraction of houses with a wing at an angle
    oblique: float = 0.3  # fraction of furniture standing askew
    origin: float = 2.2  # m, one sigma of the origin from the middle


HOUSE = HouseStyle()


def indoor_scene(seed: int, style: HouseStyle = HOUSE) -> LineSet:
    """One house as segments in metres, floor at about z = 0, origin near its middle."""
    rng = np.random.default_rng(seed)
    low, high = style.lines
    budget = round(low + (high - low) * rng.beta(1.8, 1.45))
    plan, built = _floor_plan(rng, style, budget)
    wall = rng.uniform(*style.wall)
    pieces = [
        *_rooms(rng, style, plan[built], wall),
        _doors(rng, _shared_walls(plan, built, built), wall),
        _windows(rng, _outer_walls(plan, built), wall),
    ]
    lacking = budget - sum(map(len, pieces))
    while lacking > 0:
        pieces.append(_furnished(rng, style, plan[built]))
        lacking -= len(pieces[-1])
    segments = _bent(rng, style, plan, concatenate_segments(pieces)[:budget])
    return to_lines(segments - _origin(rng, style, plan))


def _bent(rng: np.random.Generator, style: HouseStyle, plan: FloorPlan, segments: SceneSegments) -> SceneSegments:
    """Slant the side of the house behind one of the walls across x, as where a house follows its plot."""
    walls = np.unique(plan[:, 0])[1:]  # the first is the end of the house
    if len(walls) == 0 or rng.random() >= style.bent:
        return segments
    hinge, slope = rng.choice(walls), rng.choice([-1, 1]) * rng.uniform(0.15, 0.6)
    segments = segments.copy()
    segments[..., 1] += slope * (segments[..., 0] - hinge).clip(0)
    return segments


def _origin(rng: np.random.Generator, style: HouseStyle, plan: FloorPlan) -> Float[np.ndarray, "3"]:
    """A random place near the middle of the house, like the origin of a CAD drawing."""
    middle = (plan[:, :2].min(axis=0) + plan[:, 2:].max(axis=0)) / 2
    return np.append(middle + rng.normal(0, style.origin, 2), rng.uniform(0, style.height / 2))


def _floor_plan(rng: np.random.Generator, style: HouseStyle, budget: int) -> tuple[FloorPlan, Bool[np.ndarray, " r"]]:
    """Split a rectangle into rooms; a corner may stay unbuilt, which makes the house an L."""
    count = max(1, round(budget / style.lines_per_room + rng.normal(0, 0.7)))
    size = np.array([style.width, style.depth]) * rng.normal(1, 0.15, 2).clip(0.6, 1.5)
    plan = np.array([[0.0, 0.0, *size]])
    while len(plan) < count:
        extent = plan[:, 2:] - plan[:, :2]
        room = int(extent.prod(axis=1).argmax())
        axis = int(extent[room].argmax())
        cut = plan[room, axis] + rng.uniform(0.35, 0.65) * extent[room, axis]
        first, second = plan[room].copy(), plan[room].copy()
        first[2 + axis] = second[axis] = cut
        plan = np.concatenate([np.delete(plan, room, axis=0), [first, second]])
    built = np.ones(count, dtype=bool)
    if count > 4 and rng.random() < 0.3:
        built[np.abs(plan[:, :2] - size * rng.integers(0, 2, 2)).sum(axis=1).argmin()] = False
    return plan, built


def _rooms(rng: np.random.Generator, style: HouseStyle, rooms: FloorPlan, wall: float) -> Iterator[SceneSegments]:
    """Each room's own faces: the two sides of a wall are two sets of lines."""
    height = rng.normal(style.height, 0.1)
    slope = rng.normal(0, 0.12, 2) if rng.random() < style.sloped else np.zeros(2)
    drop = np.where(rng.random(len(rooms)) < 0.3, rng.uniform(0.1, 0.4, len(rooms)), 0.0)
    for room, lower in zip(rooms, drop, strict=True):
        outline = _outline(rng, style, room + wall / 2 * np.array([1, 1, -1, -1]))
        top = height - lower + (outline - rooms[:, :2].mean(axis=0)) @ slope
        yield prism(outline, 0.0, top)
        if rng.random() < 0.2:  # a lowered ceiling or a cornice
            yield ring(outline * 0.85 + outline.mean(axis=0) * 0.15, top - 0.12)


def _outline(rng: np.random.Generator, style: HouseStyle, room: Float[np.ndarray, "4"]) -> Points2:
    x0, y0, x1, y1 = room
    corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    if rng.random() >= style.chamfered:
        return corners
    k, cut = int(rng.integers(4)), rng.uniform(0.1, 0.3)
    before = corners[k] + cut * (corners[k - 1] - corners[k])
    # Equal legs make an angle of 45°, as builders prefer.
    leg = np.linalg.norm(before - corners[k])
    edge = corners[(k + 1) % 4] - corners[k]
    after = corners[k] + edge / np.linalg.norm(edge) * min(leg, 0.5 * float(np.linalg.norm(edge)))
    return np.concatenate([corners[:k], [before, after], corners[k + 1 :]])


def _shared_walls(plan: FloorPlan, first: Bool[np.ndarray, " r"], second: Bool[np.ndarray, " r"]) -> Walls:
    """Walls that a room of ``first`` shares with a room of ``second``, the latter on the high side."""
    walls = []
    for axis in (0, 1):
        along = 1 - axis
        touch = plan[:, None, 2 + axis] == plan[None, :, axis]
        low = np.maximum(plan[:, None, along], plan[None, :, along])
        high = np.minimum(plan[:, None, 2 + along], plan[None, :, 2 + along])
        i, j = np.nonzero(touch & (high - low > 1.3) & first[:, None] & second[None, :])
        walls.append(np.stack([np.full(len(i), axis), plan[i, 2 + axis], low[i, j], high[i, j]], axis=1))
    return np.concatenate(walls)


def _outer_walls(plan: FloorPlan, built: Bool[np.ndarray, " r"]) -> Walls:
    rooms, end = plan[built], plan[:, 2:].max(axis=0)
    walls = [_shared_walls(plan, built, ~built), _shared_walls(plan, ~built, built)]
    for axis in (0, 1):
        for side, border in ((axis, 0.0), (axis + 2, end[axis])):
            at = rooms[rooms[:, side] == border]
            walls.append(np.stack([np.full(len(at), axis), at[:, side], at[:, 1 - axis], at[:, 3 - axis]], axis=1))
    return np.concatenate(walls)


def _doors(rng: np.random.Generator, walls: Walls, wall: float) -> SceneSegments:
    walls = walls[rng.random(len(walls)) < 0.75]
    n = len(walls)
    wide = rng.random(n) < 0.2  # an open passage
    width = np.where(wide, rng.uniform(1.2, 2.4, n), rng.uniform(0.75, 1.0, n))
    height = np.where(wide, rng.uniform(2.1, 2.5, n), rng.uniform(2.0, 2.15, n))
    return _openings(rng, walls, wall, np.stack([width, np.zeros(n), height], axis=1))


def _windows(rng: np.random.Generator, walls: Walls, wall: float) -> SceneSegments:
    walls = walls[(rng.random(len(walls)) < 0.8) & (walls[:, 3] - walls[:, 2] > 1.3)]
    n = len(walls)
    french = rng.random(n) < 0.25
    sill = np.where(french, 0.05, rng.uniform(0.7, 1.1, n))
    head = rng.uniform(2.0, 2.4, n)
    width = rng.uniform(0.7, 2.0, n)
    return _openings(rng, walls, wall, np.stack([width, sill, head - sill], axis=1))


def _openings(rng: np.random.Generator, walls: Walls, wall: float, shape: Float[np.ndarray, "_ 3"]) -> SceneSegments:
    """Holes through walls are boxes; ``shape`` holds their width, sill height and height."""
    axis = walls[:, 0].astype(int)
    room = walls[:, 3] - walls[:, 2] - 0.3
    width = np.minimum(shape[:, 0], room)
    start = walls[:, 2] + 0.15 + rng.random(len(walls)) * (room - width)
    rows = np.arange(len(walls))
    corner, across, along = np.zeros((3, len(walls), 3))
    corner[rows, axis], corner[rows, 1 - axis] = walls[:, 1] - wall / 2, start
    corner[:, 2] = shape[:, 1]
    across[rows, axis], along[rows, 1 - axis] = wall, width
    up = np.stack([np.zeros_like(width), np.zeros_like(width), shape[:, 2]], axis=1)
    edges = box_edges(corner, across, along, up)
    post = corner + across / 2 + along / 2  # between the two leaves of a wide opening
    posts = np.stack([post, post + up], axis=1)[width > 1.0]
    return np.concatenate([edges, posts])


def _furnished(rng: np.random.Generator, style: HouseStyle, rooms: FloorPlan) -> SceneSegments:
    """One piece of furniture somewhere in one room, often against a wall."""
    piece = _FURNITURE[int(rng.integers(len(_FURNITURE)))](rng)
    askew = rng.random() < style.oblique
    piece = turned(piece, rng.uniform(0, np.pi) if askew else np.pi / 2 * rng.integers(4))
    area = (rooms[:, 2:] - rooms[:, :2]).prod(axis=1)
    room = rooms[np.searchsorted(area.cumsum(), rng.random() * area.sum())]
    margin = np.abs(piece[..., :2]).max(axis=(0, 1)) + 0.2
    place = rng.uniform(0, 1, 2)
    if not askew:
        place[rng.integers(2)] = rng.integers(2)
    low, high = room[:2] + margin, room[2:] - margin
    at = np.where(high > low, low + place * (high - low), (low + high) / 2)
    return shifted(piece, *at, 0.0)


def _size(rng: np.random.Generator, *mean: float) -> Float[np.ndarray, "1 3"]:
    return np.array([mean]) * rng.uniform(0.75, 1.25, (1, 3))


def _cabinet(rng: np.random.Generator) -> SceneSegments:
    """A box with boards and doors on its front: a small bundle of parallels."""
    size = _size(rng, 1.3, 0.5, 1.4)
    x, y, z = size[0]
    front = np.array([[-x / 2, -y / 2, 0.0], [x / 2, -y / 2, 0.0]])
    boards, doors = int(rng.integers(0, 5)), int(rng.integers(0, 4))
    rise = np.array([0, 0, z / (boards + 1)])
    shelf = bundle(front + rise, rise, boards)
    upright = np.array([[-x / 2, -y / 2, 0.0], [-x / 2, -y / 2, z]])
    leaf = np.array([x / (doors + 1), 0, 0])
    return np.concatenate([upright_boxes(np.zeros((1, 3)), size), shelf, bundle(upright + leaf, leaf, doors)])


def _table(rng: np.random.Generator) -> SceneSegments:
    size = _size(rng, 1.3, 0.8, 0.73)
    x, y, z = size[0]
    top = upright_boxes(np.array([[0, 0, z]]), np.array([[x, y, 0.04]]))
    feet = 0.46 * np.array([[x, y], [x, -y], [-x, y], [-x, -y]])
    legs = np.stack([np.column_stack([feet, np.full(4, h)]) for h in (0.0, z)], axis=1)
    return np.concatenate([top, legs])


def _bed(rng: np.random.Generator) -> SceneSegments:
    size = _size(rng, 2.0, 1.5, 0.5)
    x, y, z = size[0]
    head = upright_boxes(np.array([[x / 2, 0, 0]]), np.array([[0.08, y, 2 * z]]))
    return np.concatenate([upright_boxes(np.zeros((1, 3)), size), head])


def _block(rng: np.random.Generator) -> SceneSegments:
    return upright_boxes(np.zeros((1, 3)), _size(rng, 0.7, 0.6, 0.9))


def _round(rng: np.random.Generator) -> SceneSegments:
    sides = int(rng.integers(5, 9))
    outline = polygon(sides, rng.uniform(0.3, 0.7), rng.uniform(0, np.pi))
    return prism(outline, rng.uniform(0.0, 0.6), rng.uniform(0.7, 1.0))


def _picture(rng: np.random.Generator) -> SceneSegments:
    size = _size(rng, 0.9, 0.04, 0.6)
    return upright_boxes(np.array([[0, 0, rng.uniform(0.9, 1.5)]]), size)


_FURNITURE = (_cabinet, _cabinet, _table, _bed, _block, _block, _picture, _round)
