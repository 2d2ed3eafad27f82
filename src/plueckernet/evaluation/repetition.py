"""Synthetic maps that repeat themselves, with every motion that changes nothing.

Corridors of equal bays, grids of windows, flats that are each other turned by half a turn, rotational symmetry, regular
prisms, a cube and a field of poles. A pair of such maps has a family of true poses, of which no method can choose one;
with some distinct details added to the place it has a single one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.scan import Fragments, Survey, survey
from plueckernet.evaluation.protocols import LabelledPair
from plueckernet.evaluation.real_crops import View, between, drawn_integer, placed
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import rotation_exp

_WHOLE = 1e6  # m between breaks of a line: none
DETAILS = (8, 20)  # distinct lines
_VERTICAL = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Repetition:
    """A place that repeats itself, and a piece of it."""

    lines: Float[Tensor, "n 2 3"]
    piece: Int[Tensor, " m"]  # rows that the source shows; the target shows all
    motions: Pose  # (k,) that move the piece onto the place, identity first
    free_direction: Float[Tensor, "3"] | None = None  # along which all lines run


def symmetric(shape: str, generator: torch.Generator) -> LabelledPair:
    """A pair that has more than one true pose."""
    place = SHAPES[shape](generator)
    view = View(*_surveyed(place, generator), (shape,), shape)
    pair = placed(view, generator, place.motions)
    if place.free_direction is None:
        return pair
    return replace(pair, free_direction=pair.target_T_source.rotation @ place.free_direction)


def with_details(shape: str, generator: torch.Generator) -> LabelledPair:
    """A pair whose distinct details leave a single true pose."""
    place = SHAPES[shape](generator)
    count = DETAILS[0] + drawn_integer(generator, DETAILS[1] - DETAILS[0] + 1)
    models = place.piece[torch.randint(len(place.piece), (count,), generator=generator)]
    middle = place.lines[models].mean(1) + 0.7 * torch.randn(count, 3, generator=generator, dtype=torch.float64)
    half = normalize(torch.randn(count, 3, generator=generator, dtype=torch.float64), dim=-1)
    half = half * (0.25 + 0.75 * torch.rand(count, 1, generator=generator, dtype=torch.float64))
    rows = len(place.lines) + torch.arange(count)
    lines = torch.cat([place.lines, torch.stack([middle - half, middle + half], 1)])
    changed = replace(place, lines=lines, piece=torch.cat([place.piece, rows]))
    return placed(View(*_surveyed(changed, generator), (shape,), shape), generator)


def _surveyed(place: Repetition, generator: torch.Generator) -> tuple[Fragments, Fragments]:
    """Surveys of the piece and of the place, with small errors and few lines missing."""
    precision = between(generator, 0.1, 1.0)
    settings = Survey(
        missing=max(0.0, between(generator, -0.1, 0.1)),  # none in half of the pairs
        spurious=0.0,
        piece=_WHOLE,
        gap=0.0,
        endpoint=0.02 * precision,
        position=0.02 * precision,
        direction=0.5 * precision,
    )
    source = survey(LineSet.from_segments(place.lines[place.piece]), settings, generator)
    return replace(source, line=place.piece[source.line]), survey(
        LineSet.from_segments(place.lines), settings, generator
    )


# Shapes


def cube(generator: torch.Generator) -> Repetition:
    """Twelve edges; 24 rotations."""
    lines = between(generator, 1.5, 6.0) * _box(1.0, 1.0, 1.0)
    turns = [
        torch.stack([sign * axis for sign, axis in zip(signs, order, strict=True)])
        for order in itertools.permutations(torch.eye(3, dtype=torch.float64))
        for signs in itertools.product((1.0, -1.0), repeat=3)
    ]
    return _whole(lines, torch.stack([turn for turn in turns if torch.det(turn) > 0]))


def prism(generator: torch.Generator) -> Repetition:
    """A regular prism; it can be turned and turned over."""
    corners = (3, 5, 6, 7, 8)[drawn_integer(generator, 5)]
    radius, height = between(generator, 1.5, 4.0), between(generator, 4.5, 8.0)
    angles = math.tau * torch.arange(corners, dtype=torch.float64) / corners
    ring = torch.stack([radius * angles.cos(), radius * angles.sin(), torch.full_like(angles, height / 2)], -1)
    floor = ring * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    pairs = [(ring, ring.roll(-1, 0)), (floor, floor.roll(-1, 0)), (floor, ring)]
    lines = torch.cat([torch.stack(pair, 1) for pair in pairs])
    over = _turns([(1.0, 0.0, 0.0)], math.pi)
    return _whole(lines, _products(_about_vertical(corners), over))


def rosette(generator: torch.Generator) -> Repetition:
    """A random fragment and its copies about a vertical axis."""
    count = 3 + drawn_integer(generator, 6)
    fragment = _furniture(generator, 5 + drawn_integer(generator, 8), 3.0)
    fragment = fragment + torch.tensor([between(generator, 2.0, 4.0), 0.0, 0.0], dtype=torch.float64)
    turns = _about_vertical(count)
    return _whole(torch.cat([fragment @ turn.mT for turn in turns]), turns)


def flats(generator: torch.Generator) -> Repetition:
    """A flat beside itself turned by half a turn."""
    flat = torch.cat([_box(5.0, 8.0, 2.7), _furniture(generator, 15 + drawn_integer(generator, 30), 2.3)])
    flat = flat + torch.tensor([2.5, between(generator, -1.0, 1.0), 0.0], dtype=torch.float64)
    turns = _about_vertical(2)
    return _whole(torch.cat([flat @ turn.mT for turn in turns]), turns)


def window_grid(generator: torch.Generator) -> Repetition:
    """Windows in one plane; shifts, and half turns about all axes."""
    width, height = between(generator, 0.8, 1.4), between(generator, 1.5, 2.2)
    window = _rectangle((width, 0.0, 0.0), (0.0, 0.0, height))
    pitch = (width + between(generator, 0.6, 1.5), height + between(generator, 0.8, 1.6))
    return _tiled(window, pitch, generator)


def pole_field(generator: torch.Generator) -> Repetition:
    """Equal vertical poles in rows; a shift along them is not observable."""
    height, pitch = between(generator, 3.0, 8.0), between(generator, 2.0, 4.0)
    pole = torch.tensor([[[0.0, 0.0, -height / 2], [0.0, 0.0, height / 2]]], dtype=torch.float64)
    field = _tiled(pole, (pitch, 1.3 * pitch), generator)
    upright = torch.tensor([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]], dtype=torch.float64)  # rows were made in x and z
    return _poles(field, upright, pole)


def corridor(generator: torch.Generator) -> Repetition:
    """Equal bays with a door on either side; shifts by bays, and half a turn about the vertical."""
    bay, width, height = between(generator, 2.5, 5.0), between(generator, 1.8, 3.0), between(generator, 2.4, 3.2)
    frame = _rectangle((0.0, width, 0.0), (0.0, 0.0, height))
    door = _rectangle((1.0, 0.0, 0.0), (0.0, 0.0, 2.0)) - torch.tensor([0.0, 0.0, (height - 2.0) / 2]).double()
    aside = torch.tensor([0.0, width / 2, 0.0], dtype=torch.float64)
    ahead = torch.tensor([bay / 2, 0.0, 0.0], dtype=torch.float64)
    edges = _box(bay, width, height)[:4]  # along the corridor
    unit = torch.cat([frame - ahead, edges, door + aside, door - aside])  # the next frame closes the last bay
    bays = 6 + drawn_integer(generator, 5)
    shown = 3 + drawn_integer(generator, bays - 4)
    first = drawn_integer(generator, bays - shown + 1)
    offset = 2 * ahead * (torch.arange(bays, dtype=torch.float64) - first - (shown - 1) / 2)[:, None]
    lines = torch.cat([unit + shift for shift in offset] + [frame + offset[-1] + ahead])
    piece = torch.arange(first * len(unit), (first + shown) * len(unit) + len(frame))
    shifts = 2 * ahead * (torch.arange(bays - shown + 1, dtype=torch.float64) - first)[:, None]
    return Repetition(lines, piece, _motions(shifts, _about_vertical(2)))


SHAPES: dict[str, Callable[[torch.Generator], Repetition]] = {
    "corridor": corridor,
    "window grid": window_grid,
    "flats": flats,
    "rosette": rosette,
    "prism": prism,
    "cube": cube,
    "pole field": pole_field,
}


def _whole(lines: Float[Tensor, "n 2 3"], turns: Float[Tensor, "k 3 3"]) -> Repetition:
    """A shape about the origin that is shown as a whole."""
    return Repetition(lines, torch.arange(len(lines)), _motions(torch.zeros(1, 3, dtype=torch.float64), turns))


def _tiled(unit: Float[Tensor, "n 2 3"], pitch: tuple[float, float], generator: torch.Generator) -> Repetition:
    """Copies in x and z, of which a block is shown that is centred at the origin."""
    counts = [5 + drawn_integer(generator, 4) for _ in pitch]
    shown = [3 + drawn_integer(generator, count - 3) for count in counts]
    first = [drawn_integer(generator, count - size + 1) for count, size in zip(counts, shown, strict=True)]
    cells = torch.cartesian_prod(*(torch.arange(count) for count in counts))
    inside = torch.ones(len(cells), dtype=torch.bool)
    places, shifts = [], []
    for axis, (count, size, begin) in enumerate(zip(counts, shown, first, strict=True)):
        inside &= (cells[:, axis] >= begin) & (cells[:, axis] < begin + size)
        places.append(pitch[axis] * (cells[:, axis] - begin - (size - 1) / 2).double())
        shifts.append(pitch[axis] * (torch.arange(count - size + 1) - begin).double())
    offset = torch.stack([places[0], torch.zeros_like(places[0]), places[1]], -1)
    lines = (unit + offset[:, None, None]).flatten(0, 1)
    rows = torch.arange(len(lines)).reshape(len(cells), len(unit))[inside].flatten()
    steps = torch.cartesian_prod(*shifts)
    moved = torch.stack([steps[:, 0], torch.zeros(len(steps), dtype=torch.float64), steps[:, 1]], -1)
    return Repetition(lines, rows, _motions(moved, _half_turns()))


def _poles(field: Repetition, upright: Float[Tensor, "3 3"], pole: Float[Tensor, "1 2 3"]) -> Repetition:
    """The field with its rows in x and y, its poles in z."""
    middles = field.lines.mean(1) @ upright.mT
    motions = Pose(field.motions.rotation, field.motions.translation @ upright.mT)
    return Repetition(middles[:, None] + pole, field.piece, motions, _VERTICAL)


def _motions(shifts: Float[Tensor, "s 3"], turns: Float[Tensor, "t 3 3"]) -> Pose:
    """Every turn with every shift, identity first."""
    rotation = turns.repeat(len(shifts), 1, 1)
    translation = shifts.repeat_interleave(len(turns), 0)
    unmoved = (rotation - torch.eye(3, dtype=torch.float64)).flatten(1).norm(dim=-1) + translation.norm(dim=-1)
    order = (unmoved > 1e-9).long().argsort(stable=True)
    return Pose(rotation[order], translation[order])


def _about_vertical(count: int) -> Float[Tensor, "k 3 3"]:
    return rotation_exp(math.tau / count * torch.arange(count, dtype=torch.float64)[:, None] * _VERTICAL)


def _turns(axes: Sequence[tuple[float, float, float]], angle: float) -> Float[Tensor, "k 3 3"]:
    """No turn, and one about each axis."""
    return rotation_exp(angle * torch.tensor([(0.0, 0.0, 0.0), *axes], dtype=torch.float64))


def _half_turns() -> Float[Tensor, "4 3 3"]:
    return _turns([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], math.pi)


def _products(first: Float[Tensor, "a 3 3"], second: Float[Tensor, "b 3 3"]) -> Float[Tensor, "k 3 3"]:
    return (first[:, None] @ second).flatten(0, 1)


def _rectangle(first: Sequence[float], second: Sequence[float]) -> Float[Tensor, "4 2 3"]:
    """About the origin, with these two sides."""
    a, b = torch.tensor([first, second], dtype=torch.float64) / 2
    corners = torch.stack([-a - b, a - b, a + b, b - a])
    return torch.stack([corners, corners.roll(-1, 0)], 1)


def _box(*sides: float) -> Float[Tensor, "12 2 3"]:
    """The edges of a box about the origin, those along the first axis first."""
    half = torch.tensor(sides, dtype=torch.float64) / 2
    edges = []
    for axis in range(3):
        for signs in itertools.product((-1.0, 1.0), repeat=2):
            corner = half.clone()
            corner[[other for other in range(3) if other != axis]] *= torch.tensor(signs, dtype=torch.float64)
            other_end = corner.clone()
            other_end[axis] *= -1
            edges.append(torch.stack([other_end, corner]))
    return torch.stack(edges)


def _furniture(generator: torch.Generator, count: int, extent: float) -> Float[Tensor, "n 2 3"]:
    """Random lines within some metres of the origin, most of them along the axes."""
    middle = extent * (2 * torch.rand(count, 3, generator=generator, dtype=torch.float64) - 1)
    middle[:, 2] *= 0.5
    axes = torch.eye(3, dtype=torch.float64)[torch.randint(3, (count,), generator=generator)]
    free = normalize(torch.randn(count, 3, generator=generator, dtype=torch.float64), dim=-1)
    direction = torch.where(torch.rand(count, 1, generator=generator) < 0.8, axes, free)
    half = direction * (0.2 + 0.8 * torch.rand(count, 1, generator=generator, dtype=torch.float64))
    return torch.stack([middle - half, middle + half], 1)
