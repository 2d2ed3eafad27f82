"""Cells of a town as a line detector sees them in a laser scan: façades, street, clutter, greenery."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from plueckernet.data.facades import facade
from plueckernet.data.primitives import (
    SceneSegments,
    bundle,
    clipped,
    concatenate_segments,
    fragmented,
    polygon,
    prism,
    scattered,
    shifted,
    to_lines,
    turned,
    upright_boxes,
)
from plueckernet.geometry import LineSet


@dataclass(frozen=True)
class TownStyle:
    """Statistics of the cells; the default resembles Semantic3D, with mean/median of about 676/118 lines."""

    size: float = 10.0  # m, side of the square cell
    lines: tuple[int, int] = (20, 6000)  # least and most in a cell
    sparse: tuple[float, float] = (80.0, 0.8)  # lines of most cells: median, sigma of the logarithm
    dense: tuple[float, float] = (2150.0, 0.6)  # the same where a building is near the scanner
    dense_fraction: float = 0.255  # of the cells
    height: float = 12.0  # m, of the tallest façade
    greenery: float = 0.25  # mean fraction of lines without structure
    piece: float = 3.0  # m, mean distance between breaks in a line
    jitter: float = 0.02  # m, of the ends a detector reports
    origin: float = 5.0  # m; distance from the middle to the origin along x and along y: a corner of the cell


TOWN = TownStyle()


def outdoor_scene(seed: int, style: TownStyle = TOWN) -> LineSet:
    """One cell of a town as segments in metres."""
    rng = np.random.default_rng(seed)
    dense = bool(rng.random() < style.dense_fraction)
    budget = _line_budget(rng, style, dense)
    green = rng.binomial(budget, rng.beta(1.0, 1 / style.greenery - 1))
    built = _built(rng, style, budget - green, dense)
    segments = concatenate_segments([built, _greenery(rng, style, green)])
    segments = segments + rng.normal(0, style.jitter, segments.shape)
    return to_lines(shifted(segments, style.origin, style.origin, -rng.uniform(0.5, 2.0)))


def _line_budget(rng: np.random.Generator, style: TownStyle, dense: bool) -> int:
    """Log-normal, redrawn until within bounds."""
    median, sigma = style.dense if dense else style.sparse
    while True:
        count = int(median * np.exp(rng.normal(0, sigma)))
        if style.lines[0] <= count <= style.lines[1]:
            return count


def _built(rng: np.random.Generator, style: TownStyle, budget: int, dense: bool) -> SceneSegments:
    """Street, perhaps a building, and clutter; the detector finds the lines that are seen best."""
    yaw, half = rng.uniform(0, 2 * np.pi), style.size / 2
    pieces = [_street(rng, half)]
    pieces += [_CLUTTER[k](rng, half) for k in rng.integers(len(_CLUTTER), size=rng.poisson(4))]
    if dense or rng.random() < 0.5:
        pieces.append(_building(rng, style, budget))
    segments = _detected(rng, style, turned(concatenate_segments(pieces), yaw))
    while len(segments) < budget:
        more = _building(rng, style, budget) if dense else _CLUTTER[rng.integers(len(_CLUTTER))](rng, half)
        segments = concatenate_segments([segments, _detected(rng, style, turned(more, yaw))])
    # The detector finds lines near the scanner's viewpoint first.
    focus = rng.uniform(-half, half, 3) * [1, 1, 0.3]
    distance = np.linalg.norm(segments.mean(axis=1) - focus, axis=1)
    return segments[np.argsort(distance * rng.lognormal(0, 0.5, len(segments)))[:budget]]


def _detected(rng: np.random.Generator, style: TownStyle, segments: SceneSegments) -> SceneSegments:
    """The fragments that lie in the cell."""
    half = style.size / 2
    low, high = np.array([-half, -half, -2.0]), np.array([half, half, 3 * style.height])
    return fragmented(clipped(segments, low, high), rng, piece=style.piece, gap=0.2)


def _building(rng: np.random.Generator, style: TownStyle, budget: int) -> SceneSegments:
    """A façade along the street; at a corner, a second one across."""
    half, height = style.size / 2, rng.uniform(0.4, 1.0) * style.height
    x, y = rng.uniform(-0.8, 0.8) * half, rng.uniform(-0.2, 0.9) * half
    front = facade(rng, 3 * half, height, budget)
    if rng.random() < 0.6:  # it extends outside the cell
        return shifted(front, -1.5 * half, y, 0.0)
    side = facade(rng, 2 * half, height, budget - len(front))
    return concatenate_segments([shifted(front, x, y, 0.0), shifted(turned(side, np.pi / 2), x, y, 0.0)])


def _street(rng: np.random.Generator, half: float) -> SceneSegments:
    """Kerbs and lane edges: long parallels along x, close to the ground."""
    count = int(rng.integers(1, 5))
    y, z = rng.uniform(-half, 0.5 * half, count), rng.normal(0, 0.05, count)
    tilt, x = rng.normal(0, 0.03, count), 1.5 * half * np.ones(count)
    start, end = np.stack([-x, y - tilt * x, z], 1), np.stack([x, y + tilt * x, z], 1)
    line = np.stack([start, end], axis=1)
    return concatenate_segments([line, shifted(line, 0.0, 0.15, 0.12)])


def _somewhere(rng: np.random.Generator, half: float, piece: SceneSegments, yaw: float) -> SceneSegments:
    return shifted(turned(piece, yaw), *rng.uniform(-half, half, 2), 0.0)


def _pole(rng: np.random.Generator, half: float) -> SceneSegments:
    """Lamp post, sign or trunk: the two silhouettes of a thin cylinder and perhaps an arm."""
    top = np.array([*rng.normal(0, 0.1, 2), rng.uniform(2.0, 8.0)])
    arm = top + np.array([*rng.normal(0, 1.0, 2), rng.uniform(0, 0.5)])
    thick = np.array([rng.uniform(0.06, 0.3), 0.0, 0.0])
    pole = np.array([[np.zeros(3), top], [thick, top + thick], [top, arm]])
    return _somewhere(rng, half, pole, rng.uniform(0, np.pi))


def _fence(rng: np.random.Generator, half: float) -> SceneSegments:
    """Pickets between two rails, along the street, across it or at any angle."""
    count, height = int(rng.integers(6, 25)), rng.uniform(0.8, 1.8)
    step = np.array([rng.uniform(0.1, 0.4), 0.0, 0.0])
    pickets = bundle(np.array([[0.0, 0, 0], [0, 0, height]]), step, count)
    rail = np.array([[np.zeros(3), count * step]])
    rails = [shifted(rail, 0.0, 0.0, fraction * height) for fraction in (0.2, 0.9)]
    yaw = rng.choice([0.0, np.pi / 2, rng.uniform(0, np.pi)])
    return _somewhere(rng, half, concatenate_segments([pickets, *rails]), yaw)


def _stairs(rng: np.random.Generator, half: float) -> SceneSegments:
    """Front and back edge of each step."""
    edge = np.array([[0.0, 0.0, 0.0], [rng.uniform(1.0, 4.0), 0.0, 0.0]])
    steps = bundle(edge, np.array([0.0, 0.3, 0.17]), int(rng.integers(3, 10)))
    flight = concatenate_segments([steps, shifted(steps, 0.0, 0.0, 0.17)])
    return _somewhere(rng, half, flight, np.pi / 2 * rng.integers(4))


def _car(rng: np.random.Generator, half: float) -> SceneSegments:
    """A body and a cabin with slanted screens, parked roughly along the street."""
    length, width = rng.uniform(3.6, 5.0), rng.uniform(1.6, 1.9)
    body = upright_boxes(np.array([[0, 0, 0.3]]), np.array([[length, width, 0.6]]))
    low, high = (scale * np.array([length, width]) / 2 for scale in (0.6, 0.45))
    sign = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    bottom = np.column_stack([sign * low, np.full(4, 0.9)])
    roof = np.column_stack([sign * high, np.full(4, 1.45)])
    cabin = [np.stack([bottom, roof], 1), np.stack([roof, np.roll(roof, -1, axis=0)], 1)]
    yaw = rng.normal(0, 0.1) + np.pi / 2 * rng.integers(2)
    return _somewhere(rng, half, concatenate_segments([body, *cabin]), yaw)


def _kiosk(rng: np.random.Generator, half: float) -> SceneSegments:
    """Bins, planters, boxes, a column for posters: small prisms on the ground."""
    outline = polygon(int(rng.integers(4, 9)), rng.uniform(0.3, 1.2))
    return _somewhere(rng, half, prism(outline, 0.0, rng.uniform(0.4, 2.8)), rng.uniform(0, np.pi))


def _greenery(rng: np.random.Generator, style: TownStyle, count: int) -> SceneSegments:
    """Short lines of any direction in clumps: crowns, hedges, false detections on rough ground."""
    half, clumps = style.size / 2, int(rng.integers(1, 6))
    where = np.column_stack([rng.uniform(-half, half, (clumps, 2)), rng.uniform(0.3, 5.0, clumps)])
    extent = rng.uniform(0.3, 1.5, (clumps, 3))
    clump = rng.integers(clumps, size=count)
    twigs = scattered(rng, where[clump], extent[clump], (0.2, 1.2))
    excess = np.abs(twigs[..., :2]).max(axis=(1, 2), initial=half) / half
    twigs[..., :2] /= excess[:, None, None]  # back into the cell
    return twigs


_Piece = Callable[[np.random.Generator, float], SceneSegments]
_CLUTTER: tuple[_Piece, ...] = (_pole, _fence, _stairs, _car, _kiosk)
