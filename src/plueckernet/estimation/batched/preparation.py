"""Many pairs of maps in their normalized frames, and which of them the batched search is made for.

The batched form of :mod:`plueckernet.estimation.maps`, :mod:`plueckernet.estimation.strays` and
:mod:`plueckernet.estimation.extents`. Maps with strays, with bad coordinates, of different units or of nearly parallel
lines are rare: they are told apart here and registered one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines, median, padded, quantile
from plueckernet.estimation.batched.residuals import Thresholds, pair_squares
from plueckernet.estimation.partners import SPACING_LINES
from plueckernet.estimation.scoring import InlierThreshold, row_squares
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose

_STRAY_RADII = 30.0  # as in `strays`
_NEAR_FRACTION, _ROUNDS = 0.75, 5
_EXTENT_RATIO, _LENGTH_RATIO = 2.3, 24.0  # of two maps; up to both of them their unit is the same
_PARALLEL_ANGLE, _MIN_OTHER_FRACTION = 0.175, 0.25  # as in `parallel_hypotheses`


@dataclass(frozen=True, eq=False)
class BatchedMaps:
    """``b`` pairs of maps, each centred and scaled to a radius of about one."""

    source: PaddedLines
    target: PaddedLines
    source_offset: Float[Tensor, "b 3"]
    target_offset: Float[Tensor, "b 3"]
    unit: Float[Tensor, " b"]  # length of one normalized unit, in the unit of the maps
    distance: Float[Tensor, " b"]  # inlier threshold, normalized
    angle: float  # inlier threshold, rad

    @property
    def sides(self) -> tuple[PaddedLines, PaddedLines]:
        """Source and target."""
        return self.source, self.target

    def __len__(self) -> int:
        return len(self.unit)


@dataclass(frozen=True, eq=False)
class PreparedMaps:
    """The maps, and what was noticed about each pair."""

    maps: BatchedMaps
    regular: Bool[Tensor, " b"]  # False: to be registered by itself
    same_unit: Bool[Tensor, " b"]  # False: sizes differ so much that units have to be compared


@dataclass(frozen=True, eq=False)
class _Side:
    """The maps of one side as they were given, in double precision."""

    direction: Float[Tensor, "b n 3"]
    moment: Float[Tensor, "b n 3"]
    endpoints: Float[Tensor, "b n 2 3"] | None
    mask: Bool[Tensor, "b n"]

    @classmethod
    def of(cls, sets: Sequence[LineSet], segments: bool, device: str) -> _Side:
        direction, mask = padded([lines.direction for lines in sets], device)
        moment, _ = padded([lines.moment for lines in sets], device)
        ends = [lines.endpoints for lines in sets if lines.endpoints is not None]
        return _Side(direction, moment, padded(ends, device)[0] if segments else None, mask)

    def centre(self, mask: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b 3"]:
        """The mean midpoint of segments, the closest point to infinite lines."""
        weight = (self.mask if mask is None else mask)[..., None].to(self.direction.dtype)
        if self.endpoints is not None:
            return (weight * self.endpoints.mean(-2)).sum(-2) / weight.sum(-2).clamp_min(1)
        eye = torch.eye(3, dtype=weight.dtype, device=weight.device)
        normal = weight.sum(-2)[..., None] * eye - (self.direction * weight).mT @ self.direction
        foot = (weight * torch.linalg.cross(self.direction, self.moment)).sum(-2)
        return (_inverse(normal) @ foot[..., None])[..., 0]

    def anchors(self, centre: Float[Tensor, "b 3"]) -> Float[Tensor, "b n 3"]:
        """Midpoints, or the points closest to the centre, relative to it."""
        if self.endpoints is not None:
            return self.endpoints.mean(-2) - centre[:, None]
        shift = torch.linalg.cross(centre[:, None].expand_as(self.direction), self.direction)
        return torch.linalg.cross(self.direction, self.moment - shift)

    def lengths(self) -> Float[Tensor, "b n"] | None:
        """Of segments."""
        return None if self.endpoints is None else (self.endpoints[:, :, 1] - self.endpoints[:, :, 0]).norm(dim=-1)

    def normalized(self, centre: Float[Tensor, "b 3"], unit: Float[Tensor, " b"]) -> PaddedLines:
        """Relative to the centre and in the given unit."""
        scale, lengths = unit[:, None, None], self.lengths()
        anchor = self.anchors(centre) / scale
        moment = torch.linalg.cross(anchor, self.direction)
        half = None if lengths is None else lengths / (2 * unit[:, None])
        return PaddedLines(self.direction, moment, anchor, half, self.mask)


def prepare(pairs: Sequence[tuple[LineSet, LineSet]], settings: RegistrationSettings, device: str) -> PreparedMaps:
    """Pairs of segments or of infinite lines, not of both, as :func:`~plueckernet.estimation.maps.normalize_maps`."""
    segments = pairs[0][0].endpoints is not None
    sides = [_Side.of(sets, segments, device) for sets in zip(*pairs, strict=True)]
    centres = [side.centre() for side in sides]
    anchors = [side.anchors(centre) for side, centre in zip(sides, centres, strict=True)]
    radii = [median(anchor.norm(dim=-1), side.mask) for anchor, side in zip(anchors, sides, strict=True)]
    unit = (radii[0] * radii[1]).sqrt()
    regular = torch.stack([_is_regular(side) for side in sides]).all(0) & (unit > 0) & unit.isfinite()
    unit = torch.where(regular, unit, 1.0)
    lines = [side.normalized(centre, unit) for side, centre in zip(sides, centres, strict=True)]
    distance, angle = _inlier_distance(lines, unit, settings), math.radians(settings.inlier_angle)
    maps = BatchedMaps(lines[0], lines[1], centres[0], centres[1], unit, distance, angle)
    return PreparedMaps(maps, regular, _have_same_unit(sides, anchors))


def _is_regular(side: _Side) -> Bool[Tensor, " b"]:
    """Whether lines are finite, have a length, have no strays and are not nearly parallel."""
    values = torch.cat([side.direction, side.moment], -1) if side.endpoints is None else side.endpoints.flatten(2)
    finite, lengths = values.isfinite().flatten(1).all(1), side.lengths()
    if lengths is not None:
        finite = finite & (lengths > 0).all(1)
    return finite & ~_has_strays(side) & ~_is_nearly_parallel(side, lengths)


def _has_strays(side: _Side) -> Bool[Tensor, " b"]:
    """Whether a line is so far away that it may be a stray."""
    if side.endpoints is not None:
        middle = side.endpoints.mean(-2)
        centre = torch.stack([median(axis, side.mask) for axis in middle.unbind(-1)], -1)
        distance = (side.endpoints - centre[:, None, None]).norm(dim=-1).amax(-1)
    else:
        centre = side.centre()
        for _ in range(_ROUNDS):
            distance = side.anchors(centre).norm(dim=-1)
            near = distance <= quantile(distance, side.mask, _NEAR_FRACTION)[:, None]
            centre = side.centre(near & side.mask)
        distance = side.anchors(centre).norm(dim=-1)
    is_stray = distance > _STRAY_RADII * median(distance, side.mask)[:, None]
    return (is_stray & side.mask).any(1)


def _is_nearly_parallel(side: _Side, lengths: Float[Tensor, "b n"] | None) -> Bool[Tensor, " b"]:
    length = side.mask.to(side.direction.dtype)
    length = length if lengths is None else lengths * length
    parallel = (side.direction @ side.direction.mT).abs_() > math.cos(_PARALLEL_ANGLE)
    most = (parallel.to(length.dtype) @ length[..., None])[..., 0].masked_fill(~side.mask, 0).amax(1)
    return 1 - most / length.sum(1) < _MIN_OTHER_FRACTION


def _have_same_unit(sides: Sequence[_Side], anchors: Sequence[Tensor]) -> Bool[Tensor, " b"]:
    """Whether extents and lengths differ so little that nothing suggests different units."""
    extents = [
        quantile(anchor.norm(dim=-1), side.mask, 0.75) for anchor, side in zip(anchors, sides, strict=True)
    ]  # fmt: skip
    same = _ratio(extents[0], extents[1]) < _EXTENT_RATIO
    lengths = [side.lengths() for side in sides]
    if lengths[0] is None or lengths[1] is None:
        return same
    middles = [
        _middle_length(length, side.mask) for length, side in zip(lengths, sides, strict=True) if length is not None
    ]
    return same & (_ratio(middles[0], middles[1]) < _LENGTH_RATIO)


def _middle_length(lengths: Float[Tensor, "b n"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, " b"]:
    """The length of the segments in which half of the total length is."""
    ordered = lengths.masked_fill(~mask, 0).sort(-1).values
    place = (ordered.cumsum(-1) < ordered.sum(-1, keepdim=True) / 2).sum(-1, keepdim=True)
    return ordered.gather(-1, place.clamp_max(lengths.shape[1] - 1))[:, 0]


def _ratio(first: Float[Tensor, " b"], second: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
    """The larger over the smaller; not a number if one is."""
    return torch.maximum(first, second) / torch.minimum(first, second)


def _inlier_distance(
    sides: Sequence[PaddedLines], unit: Float[Tensor, " b"], settings: RegistrationSettings
) -> Float[Tensor, " b"]:
    if settings.inlier_distance is not None:
        return settings.inlier_distance / unit
    spacings = [_spacing(side, math.radians(settings.inlier_angle)) for side in sides]
    derived, limits = settings.threshold.spacing_fraction * (spacings[0] * spacings[1]).sqrt(), settings.threshold
    return derived.clamp(limits.min_distance, limits.max_distance)


def _spacing(lines: PaddedLines, angle: float) -> Float[Tensor, " b"]:
    """Median distance of a line to its nearest neighbour of similar direction, normalized."""
    count, single, device = len(lines.mask), lines.single, lines.mask.device
    size = min(SPACING_LINES, lines.mask.shape[1])
    place, chosen = torch.arange(size, device=device), lines.count[:, None].clamp_max(SPACING_LINES)
    real = place < chosen
    rows = torch.where(real, place * lines.count[:, None] // chosen.clamp_min(1), 0)
    identity = Pose.identity(count, dtype=torch.float32, device=str(device))
    threshold = Thresholds.of(single.direction.new_ones(count), angle)
    squares = pair_squares(identity, single.rows(rows, real), single, threshold)
    squares.masked_fill_(~lines.mask[:, None], math.inf).scatter_(2, rows[..., None], math.inf)
    own, other = lines.rows(rows, real), lines.rows(squares.argmin(2), real)
    half = None if own.half_length is None or other.half_length is None else own.half_length + other.half_length
    directions, unit = (own.direction, other.direction), InlierThreshold(1.0, angle)
    return median(row_squares(directions, other.anchor - own.anchor, half, unit), real).sqrt()


def _inverse(matrix: Float[Tensor, "b 3 3"]) -> Float[Tensor, "b 3 3"]:
    """Inverse of 3x3 matrices by cross products; unlike a solver it does not synchronise the device."""
    a, b, c = matrix.unbind(-2)
    cofactors = torch.stack([torch.linalg.cross(b, c), torch.linalg.cross(c, a), torch.linalg.cross(a, b)], -1)
    return cofactors / (a * cofactors[..., 0]).sum(-1)[..., None, None]
