"""What two surveys of one scene record: fragments of its lines, with gaps, errors and inventions."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet
from plueckernet.geometry.pose import rotation_exp

_SHORTEST = 0.05  # m; shorter fragments are not recorded, shorter overlaps are no match
_HALVINGS = 12  # of the windows' distance: 40 m to 1 cm


@dataclass(frozen=True)
class Survey:
    """How a survey distorts what it sees."""

    missing: float = 0.15  # share of the scene's lines not recorded
    spurious: float = 0.1  # share of recorded lines that are not in the scene
    piece: float = 3.0  # m, mean distance between breaks of a line
    gap: float = 0.1  # mean share of a fragment lost at each of its ends
    endpoint: float = 0.05  # m, one sigma of the ends along the line
    position: float = 0.04  # m, one sigma on each axis for a line of 1 m, less for longer ones
    direction: float = 1.5  # degrees about a random axis, likewise


@dataclass(frozen=True, eq=False)
class Fragments:
    """Recorded segments in the scene's frame, and where they come from."""

    line: Int[Tensor, " n"]  # row of the scene; -1 for an invention
    span: Float[Tensor, "n 2"]  # m along that line, from its start
    endpoints: Float[Tensor, "n 2 3"]

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, rows: Tensor) -> "Fragments":
        return Fragments(self.line[rows], self.span[rows], self.endpoints[rows])

    def lines(self) -> LineSet:
        """The segments as anybody sees them."""
        return LineSet.from_segments(self.endpoints)

    def recorded(self) -> Bool[Tensor, " n"]:
        """Which of them are long enough to be recorded."""
        return self.span[:, 1] - self.span[:, 0] > _SHORTEST

    def within(self, axis: Float[Tensor, "3"], low: float, high: float) -> "Fragments":
        """What lies in the slab ``low <= axis . x <= high``; rows outside are left without length."""
        height = self.endpoints @ axis
        rise = height[:, 1] - height[:, 0]
        safe = torch.where(rise.abs() < 1e-9, torch.full_like(rise, 1e-9), rise)
        borders = torch.tensor([low, high], dtype=height.dtype)
        cut = ((borders - height[:, :1]) / safe[:, None]).sort(-1).values.clamp(0, 1)
        span = self.span[:, :1] + cut * (self.span[:, 1:] - self.span[:, :1])
        start, end = self.endpoints[:, :1], self.endpoints[:, 1:]
        return Fragments(self.line, span, start + cut[..., None] * (end - start))


def survey(scene: LineSet, settings: Survey, generator: torch.Generator) -> Fragments:
    """One survey of the whole scene, in random order."""
    seen = torch.rand(len(scene), generator=generator) >= settings.missing
    true = _displaced(_broken(scene, seen, settings, generator), settings, generator)
    count = round(len(true) * settings.spurious / (1 - settings.spurious))
    false = _invented(true, count, generator)
    order = torch.randperm(len(true) + len(false), generator=generator)
    return Fragments(
        torch.cat([true.line, false.line]),
        torch.cat([true.span, false.span]),
        torch.cat([true.endpoints, false.endpoints]),
    )[order]


def choose_windows(
    source: Fragments, target: Fragments, overlap: float, generator: torch.Generator
) -> tuple[Fragments, Fragments]:
    """Cut both surveys so that about the share ``overlap`` of their lines is in common.

    Along a random horizontal axis the source keeps what lies before ``middle + half``, the target what lies
    beyond ``middle - half``; ``half`` is found by bisection. Where missing and invented lines leave less in
    common than asked for, both sides keep everything.
    """
    if not 0 <= overlap <= 1:
        raise InputError(f"overlap must lie between 0 and 1, not {overlap}")
    angle, place = torch.rand(2, generator=generator, dtype=torch.float64)
    axis = torch.stack([(math.tau * angle).cos(), (math.tau * angle).sin(), torch.zeros_like(angle)])
    heights = torch.cat([source.endpoints, target.endpoints]).flatten(0, 1) @ axis
    middle = float(heights.quantile(0.35 + 0.3 * place))  # neither side is a mere sliver
    pairs = _same_line(source, target)

    def windows(half: float) -> tuple[Fragments, Fragments]:
        before = source.within(axis, -math.inf, middle + half)
        return before, target.within(axis, middle - half, math.inf)

    low, high = 0.0, float((heights - middle).abs().max()) + 1e-6
    for _ in range(_HALVINGS):
        half = (low + high) / 2
        low, high = (half, high) if _common(*windows(half), pairs) < overlap else (low, half)
    before, beyond = windows(high)
    return before[before.recorded()], beyond[beyond.recorded()]


def surveyed_matches(source: Fragments, target: Fragments) -> Int[Tensor, "k 2"]:
    """All pairs of fragments that show the same stretch of the same line."""
    pairs = _same_line(source, target)
    return pairs[_shown_by_both(source, target, pairs)]


def _same_line(source: Fragments, target: Fragments) -> Tensor:
    """All pairs of fragments of one line, in the source's order."""
    order = target.line.argsort(stable=True)
    ordered = target.line[order]
    first = torch.searchsorted(ordered, source.line)
    count = torch.searchsorted(ordered, source.line, right=True) - first
    count = torch.where(source.line < 0, 0, count)
    row = torch.arange(len(source)).repeat_interleave(count)
    place = torch.arange(len(row)) - (count.cumsum(0) - count)[row]
    return torch.stack([row, order[first[row] + place]], -1)


def _shown_by_both(source: Fragments, target: Fragments, pairs: Tensor) -> Tensor:
    one, other = source.span[pairs[:, 0]], target.span[pairs[:, 1]]
    both = torch.minimum(one[:, 1], other[:, 1]) - torch.maximum(one[:, 0], other[:, 0])
    return both > _SHORTEST


def _common(source: Fragments, target: Fragments, pairs: Tensor) -> float:
    """Share of recorded fragments, of both sides together, that have a match."""
    matched = pairs[_shown_by_both(source, target, pairs)]
    hit = torch.zeros(2, max(len(source), len(target)), dtype=torch.bool)
    hit[0, matched[:, 0]] = hit[1, matched[:, 1]] = True
    return int(hit.sum()) / max(1, int(source.recorded().sum() + target.recorded().sum()))


def _broken(scene: LineSet, seen: Tensor, settings: Survey, generator: torch.Generator) -> Fragments:
    """Split the seen lines at random places, lose a little at each break and move the ends."""
    rows = seen.nonzero()[:, 0]
    if scene.endpoints is None:
        raise InputError("a scan needs a scene of segments")
    length = scene.lengths()[rows]
    parts = 1 + torch.poisson(length / settings.piece, generator=generator).long()
    of = torch.arange(len(rows)).repeat_interleave(parts)  # the line of each fragment
    place = torch.arange(len(of)) - (parts.cumsum(0) - parts)[of]
    # One random place for each border between two neighbours, so that fragments never overlap.
    border = torch.rand(len(of) + 1, generator=generator, dtype=torch.float64) - 0.5
    inner_low, inner_high = place > 0, place + 1 < parts[of]
    low = place + torch.where(inner_low, 0.8 * border[:-1], 0.0)
    high = place + 1 + torch.where(inner_high, 0.8 * border[1:], 0.0)
    lost = 2 * settings.gap * torch.rand(2, len(of), generator=generator, dtype=torch.float64)
    width = high - low
    low, high = low + lost[0] * width * inner_low, high - lost[1] * width * inner_high
    span = torch.stack([low, high], -1) * (length / parts)[of, None]
    span = span + settings.endpoint * _normal(generator, *span.shape)
    line = rows[of]
    start, way = scene.endpoints[line, :1], scene.direction[line, None]
    fragments = Fragments(line, span, start + span[..., None] * way)
    return fragments[fragments.recorded()]


def _displaced(fragments: Fragments, settings: Survey, generator: torch.Generator) -> Fragments:
    """Turn each fragment about its middle and move it, the less the longer it is."""
    length = (fragments.span[:, 1] - fragments.span[:, 0]).clamp_min(1.0)[:, None]
    # n points with independent errors fix the position to 1/sqrt(n), the direction better still.
    shift = settings.position / length.sqrt() * _normal(generator, len(fragments), 3)
    angle = math.radians(settings.direction) / length * _normal(generator, len(fragments), 1)
    axis = normalize(_normal(generator, len(fragments), 3), dim=-1)
    middle = fragments.endpoints.mean(1, keepdim=True)
    turned = (fragments.endpoints - middle) @ rotation_exp(angle * axis).mT
    return Fragments(fragments.line, fragments.span, middle + turned + shift[:, None])


def _invented(true: Fragments, count: int, generator: torch.Generator) -> Fragments:
    """Segments the scene does not have: half of them copies put elsewhere, half of any direction."""
    count = count if len(true) else 0
    model = torch.randint(max(1, len(true)), (count,), generator=generator)
    middle = true.endpoints[model].mean(1) + 0.7 * _normal(generator, count, 3)
    arm = (true.endpoints[model, 1] - true.endpoints[model, 0]) / 2
    scale = torch.rand(count, 1, generator=generator, dtype=torch.float64) + 0.2
    free = normalize(_normal(generator, count, 3), dim=-1) * scale
    arm = torch.where(torch.rand(count, 1, generator=generator) < 0.5, arm, free)
    length = 2 * arm.norm(dim=-1)
    endpoints = torch.stack([middle - arm, middle + arm], 1)
    span = torch.stack([torch.zeros_like(length), length], -1)
    return Fragments(torch.full((count,), -1), span, endpoints)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)
