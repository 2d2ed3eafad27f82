"""Protocols that only the evaluation needs, beside those of :mod:`plueckernet.data.protocols`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.protocols import (
    AnyProtocol,
    LinePair,
    Noise,
    PaperProtocol,
    ScanProtocol,
    sample_pair,
    unrelated_pair,
    with_noise,
)
from plueckernet.errors import InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, rotation_exp

_NO_MOTION = PaperProtocol(angle=0.0, translation=0.0)
_ALL_LINES = PaperProtocol(keep=1.0)
_RECORDED = PaperProtocol()  # by which the authors made the pairs that they published
_VEHICLE = Noise(position=0.15, position_limit=0.75)


@dataclass(frozen=True)
class Placed:
    """The paper's pair, noise included, with the target then turned by an angle and carried away by a distance."""

    angle: float = 0.0  # degrees about a random axis
    distance: float = 0.0  # m in a random direction
    base: PaperProtocol = _NO_MOTION


@dataclass(frozen=True)
class Putative:
    """The paper's pair with putative matches given, some of them wrong."""

    wrong: float = 0.5  # fraction of the matches
    count: int = 200  # at most
    base: PaperProtocol = _ALL_LINES


@dataclass(frozen=True)
class Driving:
    """Two views from a vehicle that moves on a little: lines near it, in its own frame.

    Directions follow the paper's hemisphere rule in the frame of each view, as those of recorded frames do.
    """

    step: float = 8.0  # m it moves at most
    turn: float = 16.0  # degrees it turns at most about the vertical; a third of that about the other axes
    radius: float = 25.0  # m within which lines are seen
    seen: float = 0.1  # fraction of them that a view shows
    noise: Noise = _VEHICLE


@dataclass(frozen=True)
class Recorded:
    """Pairs as a dataset has them."""


@dataclass(frozen=True)
class Unrelated:
    """Maps of two different scenes, drawn in turn as random parts and as surveys: there is nothing to find."""

    seeds_apart: int = 500_000  # between the scene of the source and that of the target
    infinite: bool = False  # random parts only, whose lines have no ends


@dataclass(frozen=True, eq=False)
class PutativePair(LinePair):
    """A pair with matches to estimate from."""

    putative: Int[Tensor, "p 2"]


@dataclass(frozen=True, eq=False)
class CentredPair(LinePair):
    """A pair whose noise acts at the feet of the lines from a point that is not the origin."""

    source_centre: Float[Tensor, "3"]
    target_centre: Float[Tensor, "3"]


class UnrelatedPair(LinePair):
    """Two maps of different places; its pose means nothing, and it has no matches."""


@dataclass(frozen=True, eq=False)
class LabelledPair(LinePair):
    """A pair that knows where it comes from, and every pose that is as right as the first.

    A map that repeats itself has a family of true poses. Where all lines are parallel, a shift along them changes
    nothing: ``free_direction`` names it in the target frame.
    """

    places: tuple[str, ...]  # shown by either map
    band: str  # how hard, in words of its kind
    related: bool = True  # False: maps of different places, whose pose means nothing
    family: Pose | None = None  # (k,) all true poses, if there are more than one
    free_direction: Float[Tensor, "3"] | None = None


EvaluationProtocol = PaperProtocol | AnyProtocol | ScanProtocol | Placed | Putative | Driving | Recorded | Unrelated


def draw_pair(scene: LineSet, protocol: EvaluationProtocol, seed: int) -> LinePair:
    """One pair of a scene under any protocol; the same seed gives the same pair."""
    if isinstance(protocol, Placed):
        return _placed(sample_pair(scene, protocol.base, seed), protocol, seed)
    if isinstance(protocol, Putative):
        return _putative(sample_pair(scene, protocol.base, seed), protocol, seed)
    if isinstance(protocol, Driving):
        return _driving(scene, protocol, torch.Generator().manual_seed(seed))
    if isinstance(protocol, Recorded | Unrelated):
        raise InputError(f"{type(protocol).__name__} pairs are not drawn from one scene")
    pair = sample_pair(scene, protocol, seed)
    return _centred(pair, scene) if isinstance(protocol, AnyProtocol) else pair


def recordable(protocol: EvaluationProtocol) -> bool:
    """Whether a recorded pair can show what the protocol is about without being given noise a second time."""
    if isinstance(protocol, PaperProtocol):
        return replace(protocol, directed=True, keep=_RECORDED.keep) == _RECORDED and protocol.keep <= _RECORDED.keep
    return isinstance(protocol, Recorded | Putative)


def from_recorded(pair: LinePair, protocol: EvaluationProtocol, seed: int) -> LinePair:
    """A recorded pair as it is, with fewer lines, without its directions, or with wrong matches; never with noise."""
    if not recordable(protocol):
        raise InputError(f"{slug(protocol)}: recorded pairs have their own noise and motion, and are used as recorded")
    if isinstance(protocol, Putative):
        return _putative(pair, protocol, seed)
    if isinstance(protocol, PaperProtocol):
        if not protocol.directed:
            pair = replace(pair, source=pair.source.on_hemisphere(), target=pair.target.on_hemisphere())
        return _fewer_lines(pair, protocol.keep / _RECORDED.keep, torch.Generator().manual_seed(seed))
    return pair


def _fewer_lines(pair: LinePair, fraction: float, generator: torch.Generator) -> LinePair:
    """A random part of the lines of each side, so that the fraction in common is ``fraction`` of what it was."""
    if fraction >= 1:
        return pair
    rows = [
        torch.randperm(len(side), generator=generator)[: max(1, round(fraction * len(side)))]
        for side in (pair.source, pair.target)
    ]
    return pair.of_rows(rows[0], rows[1])


def draw_unrelated(first: LineSet, second: LineSet, seed: int, infinite: bool = False) -> UnrelatedPair:
    """Two maps of different scenes; odd seeds give random parts, even ones surveys unless lines are infinite."""
    protocol = AnyProtocol() if infinite or seed % 2 else ScanProtocol()
    source, target = unrelated_pair(first, second, protocol, seed)
    return UnrelatedPair(source, target, Pose.identity(), torch.zeros(0, 2, dtype=torch.int64))


def protocol_config(protocol: EvaluationProtocol) -> dict[str, Any]:
    """The protocol as plain data, with its name."""
    return {"protocol": type(protocol).__name__, **asdict(protocol)}


def slug(protocol: EvaluationProtocol) -> str:
    """A short name fit for a folder: the protocol and what is not at its default."""
    return "-".join([type(protocol).__name__.removesuffix("Protocol").lower(), *_changes(protocol)])


def _changes(value: Any) -> list[str]:
    standard = type(value)()
    words: list[str] = []
    for field in fields(value):
        entry, default = getattr(value, field.name), getattr(standard, field.name)
        if entry == default:
            continue
        words += _changes(entry) if is_dataclass(entry) else [f"{field.name}{_word(entry)}"]
    return words


def _word(entry: float | int | str | None) -> str:
    """A number, a name, or nothing for None: limits that are not there."""
    return f"{entry:g}" if isinstance(entry, int | float) else "" if entry is None else f"-{entry}"


def _centred(pair: LinePair, scene: LineSet) -> CentredPair:
    centre = scene.centre()
    there = pair.target_T_source.act(centre[None])[0]
    return CentredPair(pair.source, pair.target, pair.target_T_source, pair.matches, centre, there)


def _placed(pair: LinePair, protocol: Placed, seed: int) -> LinePair:
    generator = torch.Generator().manual_seed(seed + 1)
    axis, way = (_unit(generator) for _ in range(2))
    place = Pose(rotation_exp(math.radians(protocol.angle) * axis), protocol.distance * way)
    return replace(pair, target=place @ pair.target, target_T_source=place @ pair.target_T_source)


def _putative(pair: LinePair, protocol: Putative, seed: int) -> PutativePair:
    """Wrong matches join lines that belong to other matches."""
    generator = torch.Generator().manual_seed(seed + 1)
    rows = pair.matches[torch.randperm(len(pair.matches), generator=generator)[: protocol.count]]
    bad = round(protocol.wrong * len(rows))
    rows[:bad, 1] = rows[torch.randint(len(rows), (bad,), generator=generator), 1]
    return PutativePair(pair.source, pair.target, pair.target_T_source, pair.matches, rows)


def _driving(scene: LineSet, protocol: Driving, generator: torch.Generator) -> LinePair:
    """The world frame is the scene's; each view is taken from a vehicle's frame in it."""
    middle = scene.centre()
    turn = rotation_exp(_uniform(generator) * math.pi * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))
    world_T_first = Pose(turn, middle + 0.25 * protocol.radius * torch.cat([_uniform(generator, 2), torch.zeros(1)]))
    tilt = torch.tensor([1 / 3, 1 / 3, 1.0], dtype=torch.float64) * math.radians(protocol.turn)
    ahead = protocol.step * torch.stack([(1 + _uniform(generator)) / 2, 0.1 * _uniform(generator), torch.zeros(())])
    first_T_second = Pose(rotation_exp(tilt * _uniform(generator, 3)), ahead)
    views = [_view(scene, pose, protocol, generator) for pose in (world_T_first, world_T_first @ first_T_second)]
    (source, rows), (target, columns) = views
    places = torch.full((len(scene),), -1).scatter(0, columns, torch.arange(len(columns)))
    seen_again = places[rows]
    matches = torch.stack([torch.arange(len(rows))[seen_again >= 0], seen_again[seen_again >= 0]], -1)
    return LinePair(source, target, first_T_second.inverse(), matches)


def _view(
    scene: LineSet, world_T_vehicle: Pose, protocol: Driving, generator: torch.Generator
) -> tuple[LineSet, Tensor]:
    near = (scene.midpoints() - world_T_vehicle.translation).norm(dim=-1) < protocol.radius
    shown = torch.rand(len(scene), generator=generator) < protocol.seen
    rows = (near & shown).nonzero()[:, 0]
    lines = world_T_vehicle.inverse() @ scene[rows].infinite()
    return with_noise(lines, protocol.noise, None, generator).on_hemisphere().replaced(ids=None), rows


def _unit(generator: torch.Generator) -> Tensor:
    return normalize(torch.randn(3, generator=generator, dtype=torch.float64), dim=-1)


def _uniform(generator: torch.Generator, *shape: int) -> Tensor:
    """Between -1 and 1."""
    return 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
