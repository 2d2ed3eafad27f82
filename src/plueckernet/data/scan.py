"""Surveys of a scene: fragments of its lines, with gaps, errors and spurious segments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.data.fragments import (
    Breaks,
    Fragments,
    broken,
    concatenated,
    displaced,
    half_vectors,
    overlapping,
    same_line,
    segments_of,
    spurious,
    surveyed_matches,
)
from plueckernet.data.noise import NoiseDraws
from plueckernet.data.pairs import real_rows
from plueckernet.data.random_source import RandomSource, SceneGenerators
from plueckernet.errors import InputError
from plueckernet.geometry import LineSet
from plueckernet.geometry.lines import stack_lines

__all__ = ["Fragments", "Survey", "choose_windows", "survey", "surveyed_matches", "surveys"]

_BISECTIONS = 12  # of the windows' distance: 40 m to 1 cm


@dataclass(frozen=True)
class Survey:
    """How a survey distorts what it sees."""

    missing: float = 0.15  # fraction of the scene's lines not recorded
    spurious: float = 0.1  # fraction of recorded lines that are not in the scene
    piece: float = 3.0  # m, mean distance between breaks of a line
    gap: float = 0.1  # mean fraction of a fragment lost at each of its ends
    endpoint: float = 0.05  # m, one sigma of the ends along the line
    position: float = 0.04  # m, one sigma on each axis for a line of 1 m, less for longer ones
    direction: float = 1.5  # degrees about a random axis, likewise


def survey(scene: LineSet, settings: Survey, generator: torch.Generator) -> Fragments:
    """One survey of one whole scene, in random order."""
    fragments = surveys(stack_lines([scene]), settings, SceneGenerators([generator]))[0]
    return fragments[fragments.real]


def surveys(scenes: LineSet, settings: Survey, random: RandomSource) -> Fragments:
    """One survey of each scene of a batch, in random order."""
    segments_of(scenes)
    real = real_rows(scenes)
    seen = real & ~random.chance(real, settings.missing)
    fragments = broken(scenes, _breaks(scenes.lengths(), seen, settings, random))
    fragments = fragments.with_real(fragments.recorded())
    draws = NoiseDraws.draw(fragments.real, random)
    fragments = displaced(fragments, settings.position, settings.direction, draws)
    fragments = concatenated(fragments, _spurious(fragments, settings.spurious, random))
    return fragments.gathered(random.order(fragments.real))


def choose_windows(
    source: Fragments, target: Fragments, overlap: float, random: RandomSource
) -> tuple[Fragments, Fragments]:
    """Cut the two surveys of each scene so that about the fraction ``overlap`` of their lines is in common.

    Along a random horizontal axis the source keeps what lies before ``middle + half``, the target what lies
    behind ``middle - half``; ``half`` is found by bisection. Where missing and spurious lines leave less in
    common than ``overlap``, both sides keep everything.
    """
    if not 0 <= overlap <= 1:
        raise InputError(f"overlap must lie between 0 and 1, not {overlap}")
    angle, place = random.uniform(random.each, 2).unbind(-1)
    axis = torch.stack([(math.tau * angle).cos(), (math.tau * angle).sin(), torch.zeros_like(angle)], -1)
    heights, real = _heights(concatenated(source, target), axis)
    middle = _quantile(heights, real, 0.35 + 0.3 * place)  # neither side is a mere sliver
    pairs = same_line(source, target)

    def windows(half: Tensor) -> tuple[Fragments, Fragments]:
        return source.within(axis, -math.inf, middle + half), target.within(axis, middle - half, math.inf)

    distance = (heights - middle[:, None]).abs().masked_fill(~real, 0.0)
    low, high = torch.zeros_like(middle), distance.amax(-1) + 1e-6
    for _ in range(_BISECTIONS):
        half = (low + high) / 2
        too_little = _common(*windows(half), pairs) < overlap
        low, high = torch.where(too_little, half, low), torch.where(too_little, high, half)
    before, behind = windows(high)
    return before.with_real(before.recorded()), behind.with_real(behind.recorded())


def _heights(fragments: Fragments, axis: Float[Tensor, "b 3"]) -> tuple[Float[Tensor, "b e"], Bool[Tensor, "b e"]]:
    """All endpoints along the axis, and which of them are real."""
    heights = (fragments.endpoints @ axis[:, None, :, None])[..., 0]
    return heights.flatten(1), fragments.real.repeat_interleave(2, -1)


def _quantile(
    values: Float[Tensor, "b n"], real: Bool[Tensor, "b n"], quantile: Float[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """The quantile of the real values of each row, with linear interpolation."""
    ordered = values.masked_fill(~real, torch.inf).sort(-1).values
    rank = (quantile * (real.sum(-1) - 1))[:, None].clamp_min(0)
    low, high = ordered.gather(1, rank.floor().long()), ordered.gather(1, rank.ceil().long())
    return torch.lerp(low, high, rank - rank.floor())[:, 0]


def _common(source: Fragments, target: Fragments, pairs: Int[Tensor, "k 2"]) -> Float[Tensor, " b"]:
    """Fraction of recorded fragments, of both sides together, that have a match."""
    matched = pairs[overlapping(source, target, pairs)]
    hits = source.span.new_zeros(len(source))
    for side, fragments in enumerate((source, target)):
        hit = torch.zeros_like(fragments.real)
        hit.view(-1)[matched[:, side]] = True
        hits = hits + hit.sum(-1)
    return hits / (source.recorded().sum(-1) + target.recorded().sum(-1)).clamp_min(1)


def _breaks(length: Float[Tensor, "b s"], seen: Bool[Tensor, "b s"], settings: Survey, random: RandomSource) -> Breaks:
    """Split the seen lines at random places, lose a little at each break and move the ends."""
    pieces = torch.where(seen, 1 + random.poisson(length / settings.piece, seen).long(), 0)
    line, place, real = _pieces(pieces)
    pieces_of_line = pieces.gather(1, line).clamp_min(1)
    # One random place for each border between two neighbours, so that fragments never overlap.
    border = random.rows(real, _borders)
    inner = torch.stack([place > 0, place + 1 < pieces_of_line], -1)
    lost = 2 * settings.gap * random.rows(real, _losses)
    return Breaks(
        line=line,
        place=place,
        pieces=pieces_of_line.to(length.dtype),
        real=real,
        moved=torch.where(inner, 0.8 * border, 0.0),
        lost=lost * inner,
        offset=settings.endpoint * random.normal(real, 2),
    )


def _borders(generator: torch.Generator, count: int) -> Float[Tensor, "n 2"]:
    border = torch.rand(count + 1, generator=generator, dtype=torch.float64) - 0.5
    return torch.stack([border[:-1], border[1:]], -1)


def _losses(generator: torch.Generator, count: int) -> Float[Tensor, "n 2"]:
    return torch.rand(2, count, generator=generator, dtype=torch.float64).mT


def _pieces(pieces: Int[Tensor, "b s"]) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"], Bool[Tensor, "b n"]]:
    """The line of each piece and its place on that line, padded; and which of them are real."""
    lines, count = pieces.shape[1], pieces.sum(-1)
    flat = pieces.flatten()
    line_of_piece = torch.arange(len(flat)).repeat_interleave(flat)  # lines numbered through over all scenes
    real = torch.arange(int(count.amax())) < count[:, None]
    line, place = torch.zeros(2, *real.shape, dtype=torch.int64)
    line[real] = line_of_piece % lines
    place[real] = torch.arange(len(line_of_piece)) - (flat.cumsum(0) - flat)[line_of_piece]
    return line, place, real


def _spurious(true: Fragments, fraction: float, random: RandomSource) -> Fragments:
    """Segments the scene does not have: half of them copies put elsewhere, half of any direction."""
    recorded = true.real.sum(-1)
    count = (recorded.double() * fraction / (1 - fraction)).round()
    real = torch.arange(int(count.amax())) < count[:, None]
    rows = (~true.real).long().argsort(dim=-1, stable=True)  # the recorded ones first
    models = true.gathered(rows.gather(1, random.integers(real, recorded.clamp_min(1)))).with_real(real)
    offset = 0.7 * random.normal(real, 3)
    scale = random.uniform(real, 1) + 0.2
    free = normalize(random.normal(real, 3), dim=-1) * scale
    copied = random.chance(real, 0.5)[..., None]
    return spurious(models, offset, torch.where(copied, half_vectors(models), free))
