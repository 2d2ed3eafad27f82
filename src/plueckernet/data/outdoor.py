"""Cells of a town as a line detector sees them in a laser scan: façades, streets, clutter, greenery."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from plueckernet.data.primitives import (
    Segments,
    box_edges,
    bundle,
    clipped,
    fragmented,
    joined,
    polygon,
    prism,
    rectangles,
    scattered,
    shifted,
    to_lines,
    turned,
    upright_boxes,
)
from plueckernet.geometry import LineSet


@dataclass(frozen=True)
class TownStyle:
    """What cells are like; the default is like Semantic3D's, mean/median about 676/118 lines."""

    size: float = 10.0  # m, side of the square cell
    lines: tuple[int, int] = (20, 6000)  # fewest and most in a cell
    median: float = 80.0  # of the log-normal line count before `lines` cuts it off
    spread: float = 1.9  # its standard deviation, in natural logarithms
    height: float = 12.0  # m, of the tallest façade
    greenery: float = 0.25  # mean share of lines without structure
    piece: float = 4.0  # m, mean distance between breaks in a line
    jitter: float = 0.01  # m, of the ends a detector reports


TOWN = TownStyle()


def outdoor_scene(seed: int, style: TownStyle = TOWN) -> LineSet:
    """One cell of a town as segments in metres, origin near its middle, ground below it."""
    rng = np.random.default_rng(seed)
    budget = _line_budget(rng, style)
    green = rng.binomial(budget, rng.beta(1.0, 1 / style.greenery - 1))
    built = _built(rng, style, budget - green)
    segments = joined([built, _greenery(rng, style, green)])
    segments = segments + rng.normal(0, style.jitter, segments.shape)
    return to_lines(segments - [0, 0, rng.uniform(1.0, 2.0)])


def _line_budget(rng: np.random.Generator, style: TownStyle) -> int:
    """Log-normal, redrawn until within bounds: near the scanner every slat is seen, far off little."""
    while True:
        count = int(style.median * np.exp(rng.normal(0, style.spread)))
        if style.lines[0] <= count <= style.lines[1]:
            return count


def _built(rng: np.random.Generator, style: TownStyle, budget: int) -> Segments:
    """Street, perhaps a façade, then clutter until there are enough lines; a random part of them."""
    half = style.size / 2
    low, high = np.array([-half, -half, -2.0]), np.array([half, half, 3 * style.height])
    facade = rng.random() < 0.25 + 0.12 * np.log(max(budget, 1) / 20)
    pieces = [_street(rng, half)] + ([_building(rng, style)] if facade else [])
    yaw = rng.uniform(0, 2 * np.pi)
    segments = _seen(rng, style, turned(joined(pieces), yaw), low, high)
    while len(segments) < budget:
        kinds = _FACADE_DETAIL if facade and rng.random() < 0.6 else _CLUTTER
        piece = kinds[int(rng.integers(len(kinds)))](rng, half)
        segments = joined([segments, _seen(rng, style, turned(piece, yaw), low, high)])
    return rng.permutation(segments)[:budget]


def _seen(
    rng: np.random.Generator,
    style: TownStyle,
    segments: Segments,
    low: Float[np.ndarray, "3"],
    high: Float[np.ndarray, "3"],
) -> Segments:
    return fragmented(clipped(segments, low, high), rng, piece=style.piece, gap=0.2)


def _street(rng: np.random.Generator, half: float) -> Segments:
    """Kerbs and lane edges: long parallels along x, close to the ground."""
    count = int(rng.integers(2, 7))
    y, z = rng.uniform(-half, half, count), rng.normal(0, 0.05, count)
    tilt = rng.normal(0, 0.03, count)
    x = 1.5 * half * np.ones(count)
    start, end = np.stack([-x, y - tilt * x, z], 1), np.stack([x, y + tilt * x, z], 1)
    line = np.stack([start, end], axis=1)
    return np.concatenate([line, shifted(line, 0.0, 0.15, 0.12)])


def _building(rng: np.random.Generator, style: TownStyle) -> Segments:
    """A façade along x with its window grid, cornices and roof; at a corner, a second one along y."""
    half = style.size / 2
    height = rng.uniform(0.4, 1.0) * style.height
    wall = _facade(rng, 3 * half, height)
    place = np.array([-1.5 * half, rng.uniform(-0.5, 0.9) * half, 0.0])
    pieces = [wall + place, _roof(rng, 3 * half, height) + place]
    if rng.random() < 0.35:
        side = turned(_facade(rng, 2 * half, height), np.pi / 2)
        pieces.append(shifted(side, rng.uniform(-0.7, 0.7) * half, place[1], 0.0))
    return joined(pieces)


def _facade(rng: np.random.Generator, width: float, height: float) -> Segments:
    """Storeys of equal windows in the plane y = 0, from x = 0 to ``width``."""
    storey, bay = rng.uniform(2.7, 3.6), rng.uniform(1.6, 3.5)
    size = np.array([rng.uniform(0.4, 0.65) * bay, rng.uniform(0.45, 0.65) * storey])
    x, z = np.meshgrid(np.arange(bay / 2, width, bay), np.arange(0.9, height - size[1], storey))
    corner = np.stack([x.ravel(), np.zeros(x.size), z.ravel()], axis=1)
    u = np.broadcast_to([size[0], 0.0, 0.0], corner.shape)
    v = np.broadcast_to([0.0, 0.0, size[1]], corner.shape)
    reveal = np.broadcast_to([0.0, rng.uniform(0.08, 0.25), 0.0], corner.shape)
    windows = [box_edges(corner, u, v, reveal)]
    for margin in rng.uniform(0.04, 0.14, int(rng.integers(0, 3))):  # frames within the hole
        inset = margin * np.array([1.0, 0, 1.0])
        windows.append(rectangles(corner + reveal + inset, u - 2 * inset, v - 2 * inset))
    middle = corner + reveal + u / 2
    windows.append(np.stack([middle, middle + v], axis=1))
    level = np.concatenate([[0.0, height], np.arange(storey, height, storey)])
    cornice = np.zeros((len(level), 2, 3))
    cornice[:, 1, 0], cornice[..., 2] = width, level[:, None]
    return joined([*windows, cornice, cornice - [0, 0.1, 0.15]])


def _roof(rng: np.random.Generator, width: float, height: float) -> Segments:
    """Eaves, ridge and the verges or rafters between them, in a plane that leans back."""
    depth, pitch = rng.uniform(2.0, 5.0), rng.uniform(0.3, 1.0)
    up = np.array([0.0, depth, pitch * depth])
    eaves = np.array([[0.0, -0.3, height], [width, -0.3, height]])
    count = int(rng.integers(2, 12))
    rafter = np.stack([eaves[0], eaves[0] + up])
    step = np.array([width / (count - 1), 0.0, 0.0])
    return joined([bundle(eaves, up, 2), bundle(rafter, step, count)])


def _cladding(rng: np.random.Generator, half: float) -> Segments:
    """A patch of a façade covered with boards, bricks, blinds or tiles: a dense parallel bundle."""
    corner = np.array([*rng.uniform(-half, half, 2), rng.uniform(0, half)])
    along = np.array([rng.uniform(0.6, 4.0), 0.0, 0.0])
    step = np.array([0.0, rng.uniform(0.0, 0.1), rng.uniform(0.08, 0.4)])
    if rng.random() < 0.4:  # upright boards
        along, step = np.array([0.0, 0.0, along[0]]), np.array([step[2], 0.0, 0.0])
    return bundle(np.stack([corner, corner + along]), step, int(rng.integers(5, 30)))


def _window(rng: np.random.Generator, half: float) -> Segments:
    """One opening with its frames: nested rectangles."""
    corner = np.array([[*rng.uniform(-half, half, 2), rng.uniform(0, half)]])
    u = np.array([[rng.uniform(0.5, 2.0), 0.0, 0.0]])
    v = np.array([[0.0, 0.0, rng.uniform(0.6, 2.2)]])
    inset = np.array([rng.uniform(0.05, 0.12), 0.0, rng.uniform(0.05, 0.12)])
    reveal = np.array([[0.0, rng.uniform(0.05, 0.25), 0.0]])
    return joined([box_edges(corner, u, v, reveal), rectangles(corner + inset, u - 2 * inset, v - 2 * inset)])


def _pole(rng: np.random.Generator, half: float) -> Segments:
    """Lamp post, sign or trunk: the two silhouettes of a thin cylinder and perhaps an arm."""
    foot = np.array([*rng.uniform(-half, half, 2), 0.0])
    top = foot + np.array([*rng.normal(0, 0.1, 2), rng.uniform(2.0, 8.0)])
    arm = top + np.array([*rng.normal(0, 1.0, 2), rng.uniform(0, 0.5)])
    thick = np.array([rng.uniform(0.06, 0.3), 0.0, 0.0])
    return np.array([[foot, top], [foot + thick, top + thick], [top, arm]])


def _fence(rng: np.random.Generator, half: float) -> Segments:
    """Pickets between two rails, in any direction."""
    count, height = int(rng.integers(6, 25)), rng.uniform(0.8, 1.8)
    step = np.array([rng.uniform(0.1, 0.4), 0.0, 0.0])
    pickets = bundle(np.array([[0.0, 0, 0], [0, 0, height]]), step, count)
    rails = bundle(np.array([[0.0, 0, 0.2], count * step + [0, 0, 0.2]]), height * _UP / 2, 2)
    yaw = rng.choice([0.0, np.pi / 2, rng.uniform(0, np.pi)])
    return shifted(turned(joined([pickets, rails]), yaw), *rng.uniform(-half, half, 2), 0.0)


def _stairs(rng: np.random.Generator, half: float) -> Segments:
    count, width = int(rng.integers(3, 12)), rng.uniform(1.0, 4.0)
    edge = np.array([[0.0, 0.0, 0.0], [width, 0.0, 0.0]])
    steps = bundle(edge, np.array([0.0, 0.3, 0.17]), count)
    flight = np.concatenate([steps, shifted(steps, 0.0, 0.0, 0.17)])
    yaw = np.pi / 2 * rng.integers(4)
    return shifted(turned(flight, yaw), *rng.uniform(-half, half, 2), 0.0)


def _car(rng: np.random.Generator, half: float) -> Segments:
    """A body and a cabin with slanted screens, parked roughly along the street."""
    length, width = rng.uniform(3.6, 5.0), rng.uniform(1.6, 1.9)
    body = upright_boxes(np.array([[0, 0, 0.3]]), np.array([[length, width, 0.6]]))
    low, high = (scale * np.array([length, width]) / 2 for scale in (0.6, 0.45))
    sign = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    bottom = np.column_stack([sign * low, np.full(4, 0.9)])
    roof = np.column_stack([sign * high, np.full(4, 1.45)])
    cabin = [np.stack([bottom, roof], 1), np.stack([roof, np.roll(roof, -1, axis=0)], 1)]
    yaw = rng.normal(0, 0.1) + np.pi / 2 * rng.integers(2)
    return shifted(turned(joined([body, *cabin]), yaw), *rng.uniform(-half, half, 2), 0.0)


def _kiosk(rng: np.random.Generator, half: float) -> Segments:
    """Bins, planters, boxes, a column for posters: small prisms on the ground."""
    outline = polygon(int(rng.integers(4, 9)), rng.uniform(0.3, 1.2), rng.uniform(0, np.pi))
    top = rng.uniform(0.4, 2.8)
    return prism(outline + rng.uniform(-half, half, 2), 0.0, top)


def _greenery(rng: np.random.Generator, style: TownStyle, count: int) -> Segments:
    """Short lines of any direction in clumps: crowns, hedges, and false detections on rough ground."""
    half, clumps = style.size / 2, int(rng.integers(1, 6))
    where = np.column_stack([rng.uniform(-half, half, (clumps, 2)), rng.uniform(0.3, 5.0, clumps)])
    extent = rng.uniform(0.3, 1.5, (clumps, 3))
    clump = rng.integers(clumps, size=count)
    twigs = scattered(rng, where[clump], extent[clump], (0.2, 1.2))
    outside = np.abs(twigs[..., :2]).max(axis=(1, 2), initial=0) > half
    twigs[outside, :, :2] *= half / np.abs(twigs[outside, :, :2]).max(axis=(1, 2))[:, None, None]
    return twigs


_UP = np.array([0.0, 0.0, 1.0])
_Piece = Callable[[np.random.Generator, float], Segments]
_FACADE_DETAIL: tuple[_Piece, ...] = (_cladding, _cladding, _window, _stairs)
_CLUTTER: tuple[_Piece, ...] = (_pole, _fence, _stairs, _car, _kiosk, _window)
