"""Protocols that only experiments need, beside those of :mod:`plueckernet.data.protocols`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.protocols import (
    AnyProtocol,
    LinePair,
    Noise,
    PaperProtocol,
    ScanProtocol,
    sample_pair,
    with_noise,
)
from plueckernet.errors import InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, rotation_exp

_STILL = PaperProtocol(angle=0.0, translation=0.0)
_WHOLE = PaperProtocol(keep=1.0)
_VEHICLE = Noise(position=0.05, position_limit=0.25, direction=1.0, direction_limit=2.5)


@dataclass(frozen=True)
class Placed:
    """The paper's pair, noise included, with the target then turned by an angle and carried away by a distance."""

    angle: float = 0.0  # degrees about a random axis
    distance: float = 0.0  # m in a random direction
    base: PaperProtocol = _STILL


@dataclass(frozen=True)
class Putative:
    """The paper's pair with putative matches given, of which a share is wrong."""

    wrong: float = 0.5
    count: int = 200  # at most
    base: PaperProtocol = _WHOLE


@dataclass(frozen=True)
class Driving:
    """Two views from a vehicle that moves on a little: lines near it, in its own frame; directions carried over."""

    step: float = 6.0  # m it moves at most
    turn: float = 12.0  # degrees it turns at most about the vertical; a third of that about the other axes
    radius: float = 10.0  # m within which lines are seen
    seen: float = 0.25  # share of them that a view shows
    noise: Noise = _VEHICLE


@dataclass(frozen=True)
class Recorded:
    """Pairs as a prepared dataset has them."""


@dataclass(frozen=True, eq=False)
class PutativePair(LinePair):
    """A pair with matches to estimate from."""

    putative: Int[Tensor, "p 2"]


Protocol = PaperProtocol | AnyProtocol | ScanProtocol | Placed | Putative | Driving | Recorded


def draw_pair(scene: LineSet, protocol: Protocol, seed: int) -> LinePair:
    """One pair of a scene under any protocol; the same seed gives the same pair."""
    if isinstance(protocol, Placed):
        return _placed(sample_pair(scene, protocol.base, seed), protocol, seed)
    if isinstance(protocol, Putative):
        return _putative(sample_pair(scene, protocol.base, seed), protocol, seed)
    if isinstance(protocol, Driving):
        return _driving(scene, protocol, torch.Generator().manual_seed(seed))
    if isinstance(protocol, Recorded):
        raise InputError("recorded pairs come from a prepared dataset and are not drawn from a scene")
    return sample_pair(scene, protocol, seed)


def describe(protocol: Protocol) -> dict[str, Any]:
    """The protocol as plain data, with its name."""
    return {"protocol": type(protocol).__name__, **asdict(protocol)}


def slug(protocol: Protocol) -> str:
    """A short name fit for a folder: the protocol and what is not at its default."""
    return "-".join([type(protocol).__name__.removesuffix("Protocol").lower(), *_changes(protocol)])


def _changes(value: Any) -> list[str]:
    standard = type(value)()
    found: list[str] = []
    for field in fields(value):
        one, usual = getattr(value, field.name), getattr(standard, field.name)
        if one == usual:
            continue
        found += _changes(one) if is_dataclass(one) else [f"{field.name}{one:g}"]
    return found


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
    found = places[rows]
    matches = torch.stack([torch.arange(len(rows))[found >= 0], found[found >= 0]], -1)
    return LinePair(source, target, first_T_second.inverse(), matches)


def _view(
    scene: LineSet, world_T_vehicle: Pose, protocol: Driving, generator: torch.Generator
) -> tuple[LineSet, Tensor]:
    near = (scene.midpoints() - world_T_vehicle.translation).norm(dim=-1) < protocol.radius
    shown = torch.rand(len(scene), generator=generator) < protocol.seen
    rows = (near & shown).nonzero()[:, 0]
    lines = world_T_vehicle.inverse() @ scene[rows].infinite().on_hemisphere()
    return with_noise(lines, protocol.noise, None, generator).replaced(ids=None), rows


def _unit(generator: torch.Generator) -> Tensor:
    return normalize(torch.randn(3, generator=generator, dtype=torch.float64), dim=-1)


def _uniform(generator: torch.Generator, *shape: int) -> Tensor:
    """Between -1 and 1."""
    return 2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1
