"""Scenes unlike houses and streets: cities of plain solids, trusses, drawings full of small edges."""

import numpy as np

from plueckernet.data.primitives import (
    Points2,
    SceneSegments,
    bundle,
    concatenate_segments,
    polygon,
    prism,
    scattered,
    shifted,
    to_lines,
    turned,
    upright_boxes,
)
from plueckernet.geometry import LineSet


def city_scene(seed: int) -> LineSet:
    """Buildings of a city model: plain or notched footprints under flat, gabled or hipped roofs."""
    rng = np.random.default_rng(seed)
    spacing, count = rng.uniform(9, 30), int(rng.integers(3, 9))
    yaw, detail = rng.uniform(0, np.pi), rng.random()
    pieces = []
    for x in range(count):
        for y in range(count):
            if rng.random() < 0.75:
                building = _solid(rng, rng.uniform(0.35, 1.0) * spacing, detail)
                askew = rng.normal(0, 0.05) if rng.random() < 0.7 else rng.uniform(0, np.pi)
                place = spacing * (np.array([x, y]) - count / 2) + rng.normal(0, 0.1 * spacing, 2)
                pieces.append(shifted(turned(building, askew), *place, rng.normal(0, 0.3)))
    return to_lines(turned(concatenate_segments(pieces), yaw))


def truss_scene(seed: int) -> LineSet:
    """Bars between joints: bridges, towers, scaffolds; tapered and bent, so that few bars are parallel."""
    rng = np.random.default_rng(seed)
    pieces = []
    for _ in range(int(rng.integers(1, 4))):
        bays, wide, high = int(rng.integers(4, 18)), rng.uniform(1, 5), rng.uniform(1, 5)
        long = rng.uniform(0.8, 3.0)
        taper, sag = rng.uniform(-0.8, 0.3), rng.normal(0, 0.15)
        x = (np.arange(bays + 1) - bays / 2) * long
        narrow = 1 + taper * np.linspace(0, 1, bays + 1)
        rise = sag * x**2 / max(1.0, bays * long / 4)
        ring = np.array([[-1, 0], [1, 0], [1, 1], [-1, 1]]) * [wide / 2, high]
        joint = np.empty((bays + 1, 4, 3))
        joint[..., 0], joint[..., 1] = x[:, None], narrow[:, None] * ring[:, 0]
        joint[..., 2] = rise[:, None] + narrow[:, None] * ring[:, 1]
        bars = [np.stack([joint[:-1], joint[1:]], 2), np.stack([joint, np.roll(joint, -1, 1)], 2)]
        brace = rng.integers(0, 3)
        if brace:
            bars.append(np.stack([joint[:-1], np.roll(joint, -1, 1)[1:]], 2))
        if brace == 2:
            bars.append(np.stack([np.roll(joint, -1, 1)[:-1], joint[1:]], 2))
        truss = concatenate_segments(bar.reshape(-1, 2, 3) for bar in bars)
        if rng.random() < 0.5:  # bars have a thickness: each is seen as two edges
            truss = concatenate_segments([truss, truss + rng.normal(0, 0.12, (len(truss), 1, 3))])
        if rng.random() < 0.3:  # a tower
            truss = truss[..., [2, 1, 0]]
        pieces.append(shifted(turned(truss, rng.uniform(0, np.pi)), *rng.normal(0, 5, 2), rng.uniform(0, 4)))
    around = rng.normal(0, 6, (int(rng.integers(0, 60)), 3))
    stray = scattered(rng, around, np.ones_like(around), (0.3, 3.0))
    return to_lines(concatenate_segments([*pieces, stray]))


def drawing_scene(seed: int) -> LineSet:
    """A building model: slabs and walls, stairs, rails, fittings, and round objects in many short edges."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(4, 9, 2)
    storey, storeys = rng.uniform(2.6, 3.4), int(rng.integers(1, 4))
    pieces = [upright_boxes(np.array([[0, 0, k * storey]]), np.array([[*size * 2, 0.25]])) for k in range(storeys + 1)]
    for k in range(storeys):
        for _ in range(int(rng.integers(10, 60))):
            fitting = _FITTINGS[int(rng.integers(len(_FITTINGS)))](rng)
            yaw = np.pi / 2 * rng.integers(4) if rng.random() < 0.9 else rng.uniform(0, np.pi)
            pieces.append(shifted(turned(fitting, yaw), *rng.uniform(-size, size), k * storey + 0.25))
    return to_lines(concatenate_segments(pieces))


def _solid(rng: np.random.Generator, size: float, detail: float) -> SceneSegments:
    outline = _footprint(rng, size)
    height = rng.uniform(3, 12)
    solid = prism(outline, 0.0, height)
    pieces = [solid]
    x, y = np.abs(outline).max(axis=0)
    roof = rng.random()
    if roof < 0.6 and detail > 0.3:
        rise, inset = rng.uniform(1, 4), 0.0 if roof < 0.35 else rng.uniform(0.2, 0.8) * min(x, y)
        ridge = np.array([[inset - x, 0, height + rise], [x - inset, 0, height + rise]])
        corner = np.array([[-x, -y], [-x, y], [x, -y], [x, y]])
        hips = np.stack([np.column_stack([corner, np.full(4, height)]), ridge[[0, 0, 1, 1]]], 1)
        pieces += [ridge[None], hips]
    if detail > 0.6:
        for _ in range(int(rng.integers(0, 5))):
            box = upright_boxes(np.zeros((1, 3)), rng.uniform(0.5, 2.5, (1, 3)))
            pieces.append(shifted(box, *rng.uniform(-0.8, 0.8, 2) * [x, y], height))
    return concatenate_segments(pieces)


def _footprint(rng: np.random.Generator, size: float) -> Points2:
    x, y = size / 2 * rng.uniform(0.5, 1.0, 2)
    cut = rng.uniform(0.2, 0.7, 2) * [x, y]
    corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]])
    kind = rng.random()
    if kind < 0.5:
        return corners
    if kind < 0.8:  # an L
        notch = np.array([[x, y - cut[1]], [x - cut[0], y - cut[1]], [x - cut[0], y]])
        return np.concatenate([corners[:2], notch, corners[3:]])
    return corners + rng.normal(0, 0.1 * size, (4, 2))


def _wall(rng: np.random.Generator) -> SceneSegments:
    size = np.array([[rng.uniform(1, 6), rng.uniform(0.1, 0.4), rng.uniform(2.2, 2.8)]])
    x, y, _ = size[0]
    hole = upright_boxes(
        np.array([[rng.uniform(-0.3, 0.3) * x, 0, rng.choice([0.0, 0.9])]]), np.array([[0.3 * x, y, 1.2]])
    )
    return concatenate_segments([upright_boxes(np.zeros((1, 3)), size), hole])


def _frame(rng: np.random.Generator) -> SceneSegments:
    """A window or door with its frame and glazing bars: boxes in boxes."""
    x, z = rng.uniform(0.6, 1.8), rng.uniform(0.8, 2.1)
    boxes = [
        upright_boxes(np.array([[0, 0, k]]), np.array([[x - 2 * k, 0.12 - k / 2, z - 2 * k]])) for k in (0.0, 0.06)
    ]
    bar = upright_boxes(np.array([[0, 0, 0.06]]), np.array([[0.04, 0.05, z - 0.12]]))
    return shifted(concatenate_segments([*boxes, bar]), 0.0, 0.0, rng.uniform(0, 1))


def _round(rng: np.random.Generator) -> SceneSegments:
    """A column, basin or lamp in many short edges."""
    outline = polygon(int(rng.integers(10, 28)), rng.uniform(0.05, 0.5))
    return prism(outline, rng.uniform(0, 1), rng.uniform(1.0, 2.5))


def _flight(rng: np.random.Generator) -> SceneSegments:
    step = np.array([0.28, 0.0, 0.18])
    tread = upright_boxes(np.zeros((1, 3)), np.array([[0.28, rng.uniform(0.8, 1.4), 0.04]]))
    return concatenate_segments(tread + k * step for k in range(int(rng.integers(4, 16))))


def _rail(rng: np.random.Generator) -> SceneSegments:
    post = np.array([[0.0, 0, 0], [0, 0, rng.uniform(0.8, 1.1)]])
    count, step = int(rng.integers(5, 30)), np.array([rng.uniform(0.1, 0.2), 0, 0])
    rail = np.stack([post[1], post[1] + count * step])
    return concatenate_segments(
        [bundle(post, step, count), bundle(post + np.array([0, 0.03, 0]), step, count), rail[None]]
    )


def _cupboard(rng: np.random.Generator) -> SceneSegments:
    size = rng.uniform(0.4, 1.2, (1, 3)) * [[1.5, 0.6, 1.5]]
    handle = upright_boxes(np.array([[0.1, -size[0, 1] / 2, size[0, 2] / 2]]), np.array([[0.02, 0.03, 0.15]]))
    return concatenate_segments([upright_boxes(np.zeros((1, 3)), size), handle])


_FITTINGS = (_wall, _wall, _frame, _frame, _round, _flight, _rail, _cupboard)
