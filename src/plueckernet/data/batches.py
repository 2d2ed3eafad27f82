"""Batches of pairs of line maps, drawn from padded scenes on the device that trains on them.

The same ideas as :mod:`plueckernet.data.protocols` and :mod:`plueckernet.data.scan`, for many scenes at once and with
every strength drawn anew for each pair: training should have seen more than the tests ask for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.protocols import Noise
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import rotation_exp

_FRAGMENTS = 3  # at most, of a line
_SHORTEST = 0.05  # m; of a fragment, and of what two must share to be a match
_FEWEST = 24.0  # lines of the part of a scene that a pair is drawn from


@dataclass(frozen=True, eq=False)
class PairBatch:
    """Pairs of padded line maps, and which of their lines belong together."""

    source: LineSet  # (b, m)
    target: LineSet  # (b, n)
    correspondence: Bool[Tensor, "b m n"]
    target_T_source: Pose  # (b,)


@dataclass(frozen=True, eq=False)
class SceneBatch:
    """Scenes as padded segments."""

    endpoints: Float[Tensor, "b s 2 3"]
    real: Bool[Tensor, "b s"]

    def __len__(self) -> int:
        return len(self.real)


@dataclass(frozen=True, eq=False)
class _Side:
    """What one map shows of the scenes: fragments, the line each comes from (-1: none), and where on that line."""

    endpoints: Float[Tensor, "b f 2 3"]
    line: Int[Tensor, "b f"]
    span: Float[Tensor, "b f 2"]  # m
    real: Bool[Tensor, "b f"]

    def __getitem__(self, rows: Int[Tensor, "b n"]) -> _Side:
        pick = rows[..., None, None].expand(-1, -1, 2, 3)
        return _Side(
            self.endpoints.gather(1, pick),
            self.line.gather(1, rows),
            self.span.gather(1, pick[..., 0]),
            self.real.gather(1, rows),
        )


class Draw:
    """Random numbers on the generator's device."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Between two bounds."""
        return low + (high - low) * torch.rand(*shape, generator=self.generator, device=self.generator.device)

    def log_uniform(self, *shape: int, low: float, high: float) -> Tensor:
        """Between two positive bounds, each factor as likely as any other."""
        return self.uniform(*shape, low=math.log(low), high=math.log(high)).exp()

    def normal(self, *shape: int) -> Tensor:
        """Of unit variance."""
        return torch.randn(*shape, generator=self.generator, device=self.generator.device)

    def chance(self, *shape: int, of: float) -> Tensor:
        """True with that probability."""
        return self.uniform(*shape) < of


def paper_batch(scenes: SceneBatch, lines: int, keep: tuple[float, float], generator: torch.Generator) -> PairBatch:
    """:class:`~plueckernet.data.protocols.PaperProtocol`, directed, in batches: infinite lines, small motion."""
    draw, count = Draw(generator), len(scenes)
    angles = draw.uniform(count, 3, high=math.radians(45.0))
    about_x, about_y, about_z = rotation_exp(torch.diag_embed(angles)).unbind(1)
    motion = Pose(about_z @ about_y @ about_x, draw.uniform(count, 3, low=-2.0, high=2.0))
    scene = _line_set(scenes.endpoints, scenes.real).infinite().on_hemisphere()
    origin = scenes.endpoints.new_zeros(count, 1, 3)
    share = draw.uniform(count, 1, low=keep[0], high=keep[1])
    sides, rows = [], []
    for shown in (scene, motion @ scene):
        point, direction, _ = _paper_noise(shown, origin, draw)
        key = draw.uniform(*scenes.real.shape).masked_fill(~scenes.real, 2.0)
        row = key.argsort(-1)[:, :lines]
        kept = (share * scenes.real.sum(-1, keepdim=True)).round().clamp(1, lines)
        mask = torch.arange(row.shape[1], device=row.device) < kept
        pick = row[..., None].expand(-1, -1, 3)
        point, direction = point.gather(1, pick), direction.gather(1, pick)
        direction = torch.where(mask[..., None], direction, direction.new_tensor([1.0, 0.0, 0.0]))
        sides.append(LineSet(direction, torch.linalg.cross(point, direction) * mask[..., None], mask=mask))
        rows.append(row.masked_fill(~mask, -1))
    same = (rows[0][:, :, None] == rows[1][:, None, :]) & (rows[0] >= 0)[:, :, None]
    return PairBatch(sides[0], sides[1], same, motion)


def mixed_batch(
    scenes: SceneBatch,
    lines: int,
    keep: tuple[float, float],
    surveys: float,
    infinite: bool,
    generator: torch.Generator,
) -> PairBatch:
    """Random parts and neighbouring surveys of scenes, any rotation, lines undirected, every strength."""
    draw, count = Draw(generator), len(scenes)
    endpoints = _warped(scenes.endpoints, draw)
    survey = draw.chance(count, of=surveys)
    focus, radius = _neighbourhood(endpoints, scenes.real, survey, lines, draw)
    axes, middles = _windows(focus, radius, draw)
    share = torch.where(survey, draw.uniform(count, low=0.6, high=1.0), draw.uniform(count, low=keep[0], high=keep[1]))
    inside = ((endpoints.mean(-2) - focus[:, None]).norm(dim=-1) <= radius[:, None]) | survey[:, None]
    motion = Pose.random(count, generator=generator, translation=10.0, dtype=endpoints.dtype)
    sides = []
    for middle in middles:
        recorded = _survey(endpoints, scenes.real, (axes, middle, radius), share, draw)
        part = _part(endpoints, scenes.real & inside, share, draw)
        sides.append(_longest(_either(survey, recorded, part), survey, lines, draw))
    source, target = sides
    one, other = source.span[:, :, None], target.span[:, None]
    both = torch.minimum(one[..., 1], other[..., 1]) - torch.maximum(one[..., 0], other[..., 0])
    same = (source.line[:, :, None] == target.line[:, None]) & (source.line >= 0)[:, :, None]
    same &= (both > _SHORTEST) & source.real[:, :, None] & target.real[:, None]
    maps = [_line_set(side.endpoints, side.real) for side in sides]
    maps = [one.flipped(draw.chance(*one.direction.shape[:2], of=0.5)) for one in maps]
    maps[1] = motion @ maps[1]
    if infinite:
        maps = [one.infinite() for one in maps]
    return PairBatch(maps[0], maps[1], same, motion)


# Scenes


def _warped(endpoints: Tensor, draw: Draw) -> Tensor:
    """Stretched and sheared a little, some much: few places are as square as drawings."""
    count = len(endpoints)
    stretch = torch.diag_embed((0.2 * draw.normal(count, 3)).exp())
    strength = torch.where(draw.chance(count, of=0.3), 0.2, 0.0)[:, None, None]
    shear = torch.eye(3, device=endpoints.device) + strength * draw.normal(count, 3, 3)
    return endpoints @ (stretch @ shear)[:, None]


def _neighbourhood(
    endpoints: Tensor, real: Tensor, survey: Tensor, lines: int, draw: Draw
) -> tuple[Float[Tensor, "b 3"], Float[Tensor, " b"]]:
    """A place in each scene, and how far from it its nearest lines reach, for a random number of lines."""
    count, device = len(real), real.device
    chosen = draw.uniform(*real.shape).masked_fill(~real, -1.0).argmax(-1)
    focus = endpoints[torch.arange(count, device=device), chosen].mean(-2)  # (b, 3)
    distance = (endpoints.mean(-2) - focus[:, None]).norm(dim=-1).masked_fill(~real, torch.inf)
    ordered = distance.sort(-1).values
    wanted = draw.log_uniform(count, low=max(_FEWEST, lines / 6), high=2.5 * lines)
    # Half of the random parts are of whole scenes, as the paper's are.
    wanted = torch.where(~survey & draw.chance(count, of=0.5), float(real.shape[1]), wanted)
    last = torch.minimum(wanted.long(), real.sum(-1)).clamp_min(1) - 1
    return focus, ordered.gather(-1, last[:, None])[:, 0].clamp_min(0.5)


def _windows(
    focus: Tensor, radius: Tensor, draw: Draw
) -> tuple[Float[Tensor, "b 3 2"], tuple[Float[Tensor, "b 3"], Float[Tensor, "b 3"]]]:
    """Where two surveys look: squares with two common axes, mostly horizontal, and middles up to a side apart."""
    count = len(focus)
    turn = rotation_exp(math.tau * draw.uniform(count, 1) * focus.new_tensor([0.0, 0.0, 1.0]))
    tilted = draw.chance(count, of=0.2)[:, None, None]
    turn = torch.where(tilted, Pose.random(count, generator=draw.generator, dtype=focus.dtype).rotation, turn)
    axes = turn[..., :2]  # (b, 3, 2)
    way = math.tau * draw.uniform(count)
    way = (axes * torch.stack([way.cos(), way.sin()], -1)[:, None]).sum(-1)  # (b, 3)
    half = (radius * draw.uniform(count, high=0.9))[:, None] * way
    return axes, (focus - half, focus + half)


# What a map shows of them


def _part(endpoints: Tensor, real: Tensor, share: Tensor, draw: Draw) -> _Side:
    """A random part of the lines with the paper's noise."""
    count, size = real.shape
    shown = _line_set(endpoints, real)
    middle = shown.centre()[:, None]
    point, _, turn = _paper_noise(shown, middle, draw)
    foot = shown.footpoints(middle[:, 0])
    moved = (endpoints - foot[:, :, None]) @ turn.mT + point[:, :, None]
    kept = real & (draw.uniform(count, size) < share[:, None])
    length = (endpoints[:, :, 1] - endpoints[:, :, 0]).norm(dim=-1)
    span = torch.stack([torch.zeros_like(length), length.clamp_min(2 * _SHORTEST)], -1)
    row = torch.arange(size, device=real.device).expand(count, -1)
    return _Side(moved, row, span, kept)


def _survey(endpoints: Tensor, real: Tensor, window: tuple[Tensor, Tensor, Tensor], share: Tensor, draw: Draw) -> _Side:
    """What one survey records inside its window: fragments, moved and turned, some lines not, some invented."""
    count, size = real.shape
    length = (endpoints[:, :, 1] - endpoints[:, :, 0]).norm(dim=-1)
    clear = draw.log_uniform(count, 1, low=1.5, high=30.0)  # m, mean distance between breaks
    parts = 1 + torch.poisson(length / clear, generator=draw.generator).clamp_max(_FRAGMENTS - 1)
    place = torch.arange(_FRAGMENTS, device=real.device).expand(count, size, -1)
    parts = parts[..., None]
    lost = draw.uniform(count, 1, 1, high=0.4) * draw.uniform(count, size, _FRAGMENTS * 2)
    low, high = place + lost[..., :_FRAGMENTS], place + 1 - lost[..., _FRAGMENTS:]
    span = torch.stack([low, high], -1) / parts[..., None] * length[..., None, None]  # (b, s, f, 2)
    span = span + draw.uniform(count, 1, 1, 1, high=0.1) * draw.normal(*span.shape)
    way = normalize(endpoints[:, :, 1] - endpoints[:, :, 0], dim=-1)[:, :, None]
    start = endpoints[:, :, 0][:, :, None]
    span = _clipped(span, start, way, window)
    seen = real & (draw.uniform(count, size) < share[:, None])
    # Long lines are found more often, and some surveys find nothing short.
    shortest = draw.log_uniform(count, 1, low=_SHORTEST, high=0.6)
    shortest = torch.where(draw.chance(count, 1, of=0.3), shortest, _SHORTEST)
    found = (place < parts) & seen[..., None] & (span[..., 1] - span[..., 0] > shortest[..., None])
    ends = start[..., None, :] + span[..., None] * way[..., None, :]  # (b, s, f, 2, 3)
    row = torch.arange(size, device=real.device)[:, None].expand(count, -1, _FRAGMENTS)
    side = _Side(ends.flatten(1, 2), row.flatten(1), span.flatten(1, 2), found.flatten(1))
    return _invented(_displaced(side, draw), window[2], draw)


def _clipped(
    span: Tensor, start: Tensor, way: Tensor, window: tuple[Tensor, Tensor, Tensor]
) -> Float[Tensor, "b s f 2"]:
    """The part of each span inside the window (Liang and Barsky)."""
    axes, middle, radius = window
    rise = way @ axes[:, None]  # (b, s, 1, 2)
    height = (start - middle[:, None, None]) @ axes[:, None]
    rise = torch.where(rise.abs() < 1e-6, 1e-6, rise)
    edge = radius[:, None, None, None]
    enter, leave = (-edge - height) / rise, (edge - height) / rise
    low = torch.minimum(enter, leave).amax(-1)  # (b, s, 1)
    high = torch.maximum(enter, leave).amin(-1)
    return torch.stack([torch.maximum(span[..., 0], low), torch.minimum(span[..., 1], high)], -1)


def _displaced(side: _Side, draw: Draw) -> _Side:
    """Each fragment turned about its middle and moved, the less the longer it is."""
    count, size = side.real.shape
    strength = draw.log_uniform(count, 1, 1, low=0.1, high=1.5)
    length = (side.span[..., 1] - side.span[..., 0]).clamp_min(1.0)[..., None]
    shift = 0.04 * strength / length.sqrt() * draw.normal(count, size, 3)
    angle = math.radians(1.5) * strength / length * draw.normal(count, size, 1)
    turn = rotation_exp(angle * normalize(draw.normal(count, size, 3), dim=-1))
    middle = side.endpoints.mean(-2, keepdim=True)
    moved = middle + (side.endpoints - middle) @ turn.mT + shift[:, :, None]
    return _Side(moved, side.line, side.span, side.real)


def _invented(side: _Side, radius: Tensor, draw: Draw) -> _Side:
    """Some fragments put elsewhere and turned: they show nothing that is there."""
    count, size = side.real.shape
    false = draw.uniform(count, size) < draw.uniform(count, 1, high=0.25)
    middle = side.endpoints.mean(-2, keepdim=True)
    offset = 0.3 * radius[:, None, None] * draw.normal(count, size, 3)
    arm = side.endpoints - middle
    turn = rotation_exp(math.pi * normalize(draw.normal(count, size, 3), dim=-1))
    arm = torch.where(draw.chance(count, size, 1, 1, of=0.5), arm, arm @ turn.mT)
    moved = torch.where(false[..., None, None], middle + offset[:, :, None] + arm, side.endpoints)
    return _Side(moved, side.line.masked_fill(false, -1), side.span, side.real)


def _either(survey: Tensor, side: _Side, part: _Side) -> _Side:
    """The one or the other for each pair, the shorter padded."""
    extra = side.real.shape[1] - part.real.shape[1]

    def chosen(one: Tensor, other: Tensor) -> Tensor:
        padding = other.new_zeros(other.shape[0], extra, *other.shape[2:])
        return torch.where(survey.view(-1, *[1] * (one.ndim - 1)), one, torch.cat([other, padding], 1))

    return _Side(
        chosen(side.endpoints, part.endpoints),
        chosen(side.line, part.line),
        chosen(side.span, part.span),
        chosen(side.real, part.real),
    )


def _longest(side: _Side, survey: Tensor, lines: int, draw: Draw) -> _Side:
    """As many as there is room for, in random order: the longest of a survey, any of a random part."""
    length = (side.endpoints[:, :, 1] - side.endpoints[:, :, 0]).norm(dim=-1)
    key = torch.where(survey[:, None], length, draw.uniform(*side.real.shape)).masked_fill(~side.real, -1.0)
    rows = key.topk(lines, dim=-1).indices
    # Real ones stand first, as everywhere; shuffled among themselves.
    order = draw.uniform(*rows.shape).masked_fill(~side.real.gather(1, rows), 2.0).argsort(-1)
    return side[rows.gather(1, order)]


def _paper_noise(lines: LineSet, reference: Tensor, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """A moved point and a turned direction of each line, at its foot from the reference; and the turn."""
    noise, shape = Noise(), lines.direction.shape[:2]
    limit = math.radians(noise.direction_limit)
    offset = (noise.position * draw.normal(*shape, 3)).clamp(-noise.position_limit, noise.position_limit)
    angle = (math.radians(noise.direction) * draw.normal(*shape, 1)).clamp(-limit, limit)
    turn = rotation_exp(angle * normalize(draw.normal(*shape, 3), dim=-1))
    foot = lines.footpoints(reference[:, 0])
    return foot + offset, (turn @ lines.direction[..., None])[..., 0], turn


def _line_set(endpoints: Tensor, real: Tensor) -> LineSet:
    """Padded lines; padding is the x axis."""
    way = endpoints[:, :, 1] - endpoints[:, :, 0]
    good = real & (way.norm(dim=-1) > 1e-6)
    x_axis = endpoints.new_tensor([1.0, 0.0, 0.0])
    direction = torch.where(good[..., None], normalize(way, dim=-1), x_axis)
    ends = torch.where(real[..., None, None], endpoints, 0.0)
    return LineSet(direction, torch.linalg.cross(ends.mean(-2), direction), ends, mask=real)
