"""Rows of simulated line maps and the stretch of a scene's line that each of them shows, for many scenes at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.data.noise import NoiseDraws
from plueckernet.errors import InputError
from plueckernet.geometry import LineSet
from plueckernet.geometry.pose import rotation_exp

MIN_LENGTH = 0.05  # m; shorter fragments are not recorded, shorter overlaps are no match
_Rows = TypeVar("_Rows", bound="Stretches")


@dataclass(frozen=True, eq=False)
class Stretches:
    """The stretch of a scene's line that each row of a map shows; of one map, or of a padded batch of maps."""

    line: Int[Tensor, "*b n"]  # row of the scene; -1 for a spurious line
    span: Float[Tensor, "*b n 2"]  # m along that line, from its start
    real: Bool[Tensor, "*b n"]  # False for padding

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self: _Rows, index: Tensor | int) -> _Rows:
        """Some rows of one map, or some maps of a batch."""
        return type(self)(**{name: value[index] for name, value in self._tensors().items()})

    def gathered(self: _Rows, rows: Int[Tensor, "b k"]) -> _Rows:
        """Other rows for each map of a batch."""
        return type(self)(**{name: gathered(value, rows) for name, value in self._tensors().items()})

    def chosen(self: _Rows, where: Bool[Tensor, "b _"], other: _Rows) -> _Rows:
        """These rows where the mask is True, the other ones elsewhere."""
        tensors = self._tensors().items()
        return type(self)(**{name: chosen(where, value, getattr(other, name)) for name, value in tensors})

    def recorded(self, min_length: Float[Tensor, "b 1"] | float = MIN_LENGTH) -> Bool[Tensor, "*b n"]:
        """Which of them are real and long enough to be recorded."""
        return self.real & (self.span[..., 1] - self.span[..., 0] > min_length)

    def _tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Fragments(Stretches):
    """Recorded segments in the scene's frame, and the stretches that they show."""

    endpoints: Float[Tensor, "*b n 2 3"]

    def stretches(self) -> Stretches:
        """What the segments show, without themselves."""
        return Stretches(self.line, self.span, self.real)

    def lines(self) -> LineSet:
        """The segments of one map as lines."""
        return LineSet.from_segments(self.endpoints)

    def with_real(self, real: Bool[Tensor, "*b n"]) -> Fragments:
        """The same fragments, of which others count as padding."""
        return Fragments(self.line, self.span, real, self.endpoints)

    def within(
        self, axis: Float[Tensor, "*b 3"], low: Float[Tensor, "*b"] | float, high: Float[Tensor, "*b"] | float
    ) -> Fragments:
        """What lies in the slab ``low <= axis . x <= high``; rows outside are left without length."""
        height = (self.endpoints @ axis[..., None, :, None])[..., 0]  # (*b, n, 2)
        rise = height[..., 1] - height[..., 0]
        safe = torch.where(rise.abs() < 1e-9, torch.full_like(rise, 1e-9), rise)
        cuts = [((_column(border, height) - height[..., 0]) / safe).clamp(0, 1) for border in (low, high)]
        cut = torch.stack([torch.minimum(*cuts), torch.maximum(*cuts)], -1)
        start, end = self.endpoints[..., :1, :], self.endpoints[..., 1:, :]
        span = self.span[..., :1] + cut * (self.span[..., 1:] - self.span[..., :1])
        return Fragments(self.line, span, self.real, start + cut[..., None] * (end - start))


@dataclass(frozen=True, eq=False)
class Breaks:
    """Fragments that lines are broken into. A line of ``k`` pieces has borders at 0, 1, ..., k before they move."""

    line: Int[Tensor, "b n"]  # row of the scene that the fragment is a piece of
    place: Int[Tensor, "b n"]  # of the piece on its line
    pieces: Float[Tensor, "b n"]  # of that line
    real: Bool[Tensor, "b n"]
    moved: Float[Tensor, "b n 2"]  # by how much the two borders of the piece move, in pieces
    lost: Float[Tensor, "b n 2"]  # fraction of the piece that is lost at each end
    offset: Float[Tensor, "b n 2"]  # m, errors of the two ends along the line


def broken(scene: LineSet, breaks: Breaks) -> Fragments:
    """The fragments of a batch of scenes of segments."""
    low = breaks.place + breaks.moved[..., 0]
    high = breaks.place + 1 + breaks.moved[..., 1]
    width = high - low
    low, high = low + breaks.lost[..., 0] * width, high - breaks.lost[..., 1] * width
    length = gathered(scene.lengths(), breaks.line) / breaks.pieces
    span = torch.stack([low, high], -1) * length[..., None] + breaks.offset
    start = gathered(segments_of(scene)[:, :, 0], breaks.line)[:, :, None]
    direction = gathered(scene.direction, breaks.line)[:, :, None]
    return Fragments(breaks.line, span, breaks.real, start + span[..., None] * direction)


def displaced(
    fragments: Fragments,
    position: Float[Tensor, "b 1 1"] | float,
    direction: Float[Tensor, "b 1 1"] | float,
    draws: NoiseDraws,
) -> Fragments:
    """Turn each fragment about its middle and move it, the less the longer it is.

    ``position`` (m) and ``direction`` (degrees) are the standard deviations for a fragment of up to 1 m.
    """
    length = (fragments.span[..., 1] - fragments.span[..., 0]).clamp_min(1.0)[..., None]
    # n points with independent errors fix the position to 1/sqrt(n), the direction better still.
    shift = position / length.sqrt() * draws.offset
    angle = direction * (math.pi / 180) / length * draws.angle
    middle = fragments.endpoints.mean(-2, keepdim=True)
    turned = (fragments.endpoints - middle) @ rotation_exp(angle * draws.axis()).mT
    endpoints = middle + turned + shift[..., None, :]
    return Fragments(fragments.line, fragments.span, fragments.real, endpoints)


def half_vectors(fragments: Fragments) -> Float[Tensor, "b n 3"]:
    """From the middle of each fragment to its end."""
    return (fragments.endpoints[..., 1, :] - fragments.endpoints[..., 0, :]) / 2


def spurious(models: Fragments, offset: Float[Tensor, "b n 3"], half_vector: Float[Tensor, "b n 3"]) -> Fragments:
    """Segments that the scene does not have: moved from the middles of their models, with other half vectors."""
    middle = models.endpoints.mean(-2) + offset
    length = 2 * half_vector.norm(dim=-1)
    return Fragments(
        torch.full_like(models.line, -1),
        torch.stack([torch.zeros_like(length), length], -1),
        models.real,
        torch.stack([middle - half_vector, middle + half_vector], -2),
    )


def concatenated(first: Fragments, second: Fragments) -> Fragments:
    """The rows of both, map by map."""
    names = [field.name for field in fields(Fragments)]
    return Fragments(**{name: torch.cat([getattr(first, name), getattr(second, name)], 1) for name in names})


# Matches


def correspondence(source: Stretches, target: Stretches) -> Bool[Tensor, "b m n"]:
    """Which rows of padded maps show the same stretch of the same line."""
    same = (source.line[:, :, None] == target.line[:, None]) & (source.line >= 0)[:, :, None]
    same &= source.real[:, :, None] & target.real[:, None]
    return same & (_overlap(source.span[:, :, None], target.span[:, None]) > MIN_LENGTH)


def same_line(source: Stretches, target: Stretches) -> Int[Tensor, "k 2"]:
    """All pairs of rows that show the same line, in the source's order.

    Rows of a batch are numbered through: row ``i`` of map ``b`` is ``b n + i``. This is for maps of any size;
    :func:`correspondence` compares each row to each.
    """
    lines = int(max(source.line.amax(), target.line.amax())) + 1 if source.line.numel() and target.line.numel() else 1
    source_line, target_line = (_numbered(rows, lines) for rows in (source, target))
    order = target_line.argsort(stable=True)
    ordered = target_line[order]
    first = torch.searchsorted(ordered, source_line)
    count = torch.searchsorted(ordered, source_line, right=True) - first
    count = torch.where(source_line < 0, 0, count)
    row = torch.arange(len(source_line)).repeat_interleave(count)
    place = torch.arange(len(row)) - (count.cumsum(0) - count)[row]
    return torch.stack([row, order[first[row] + place]], -1)


def overlapping(source: Stretches, target: Stretches, pairs: Int[Tensor, "k 2"]) -> Bool[Tensor, " k"]:
    """Which pairs of rows, as :func:`same_line` numbers them, show the same stretch."""
    source_span, target_span = (
        stretches.span.reshape(-1, 2)[pairs[:, side]] for side, stretches in enumerate((source, target))
    )
    return _overlap(source_span, target_span) > MIN_LENGTH


def surveyed_matches(source: Stretches, target: Stretches) -> Int[Tensor, "k 2"]:
    """All pairs of rows that show the same stretch of the same line."""
    pairs = same_line(source, target)
    return pairs[overlapping(source, target, pairs)]


def gathered(values: Tensor, rows: Int[Tensor, "b k"]) -> Tensor:
    """Rows of each element of a batch of tables, ``(b, n, ...) -> (b, k, ...)``."""
    index = rows.view(*rows.shape, *[1] * (values.ndim - 2)).expand(*rows.shape, *values.shape[2:])
    return values.gather(1, index)


def chosen(where: Bool[Tensor, "b *_"], first: Tensor, second: Tensor) -> Tensor:
    """``torch.where`` for a mask of the leading dimensions."""
    return torch.where(where.view(*where.shape, *[1] * (first.ndim - where.ndim)), first, second)


def segments_of(scene: LineSet) -> Float[Tensor, "*b n 2 3"]:
    """The endpoints of a scene that is known to have some."""
    if scene.endpoints is None:
        raise InputError("a scan needs a scene of segments")
    return scene.endpoints


def _numbered(rows: Stretches, lines: int) -> Int[Tensor, " r"]:
    """Lines of a batch of scenes, numbered through; negative for spurious ones and padding."""
    line = rows.line.masked_fill(~rows.real, -1)
    if line.ndim == 1:
        return line
    scene = lines * torch.arange(len(line))[:, None]
    return torch.where(line < 0, -1, scene + line).flatten()


def _overlap(first: Float[Tensor, "*n 2"], second: Float[Tensor, "*m 2"]) -> Tensor:
    """Metres that two spans of the same line have in common; negative where they lie apart."""
    end, start = torch.minimum(first[..., 1], second[..., 1]), torch.maximum(first[..., 0], second[..., 0])
    return end - start


def _column(border: Tensor | float, like: Tensor) -> Tensor:
    """One number per map, as it is compared to the rows of a map."""
    return torch.as_tensor(border, dtype=like.dtype, device=like.device)[..., None]
