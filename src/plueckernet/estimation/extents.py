"""Whether the sizes of two maps suggest different units, decided before any pose is searched for.

Three lengths of a map grow with its unit: its extent, the length of its segments and the spacing of its lines. A map of
a part of a place has a smaller extent, but the same segments and spacing. A map of another level of detail has other
segments and another spacing, but the same extent. Only a change of unit changes all three by one factor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.strays import quantile
from plueckernet.geometry.lines import LineSet
from plueckernet.kernels.centres import line_extent
from plueckernet.kernels.library import compiled

_MAX_SAMPLED = 100  # lines whose spacing is measured; the median of so many is accurate to a few percent
_NEIGHBOUR = 4  # spacing is the distance to this neighbour; the first one is often a copy of the line
_EXTENT_QUANTILE = 0.75  # of the distances from the centre; ignores a few lines far away
_MAX_PARALLEL_ANGLE = 15.0  # degrees; spacing of infinite lines is that of parallel ones, because others cross

_MIN_RATIO = 5.0  # of every length; below it, part and whole or the level of detail explain the ratios
_MIN_MIDDLE_RATIO = 25.0  # of two lengths, if the third contradicts by no more than the next number
_MIN_OTHER_RATIO = 0.5
_MIN_RATIO_OF_INFINITE_LINES = 20.0  # without segments, two lengths remain, and part and whole may change both
_MIN_RELATIVE_SPACING = 1e-3  # of the extent; infinite lines with a smaller spacing are copies of each other
_FEET = 1 / 0.3048
_MAX_FEET_DEVIATION = math.sqrt(2)  # factor by which each ratio may differ from that of feet and metres
_MIN_LINES_FOR_FEET = 20
_UNIT_SCALE = 0.01  # difference of the logarithm of a scale from that of two units
_SAME_RATIO = 0.1  # difference of the logarithms of two ratios that need not both be tried


@dataclass(frozen=True)
class _UnitPair:
    """Two units: a map in ``smaller_unit`` has coordinates ``factor`` times as large as in ``larger_unit``."""

    factor: float
    smaller_unit: str
    larger_unit: str
    deviation: float  # factor by which an estimate may differ


_UNIT_PAIRS = (
    _UnitPair(1000.0, "millimetres", "metres", 2.5),
    _UnitPair(100.0, "centimetres", "metres", 1.6),
    _UnitPair(1 / 0.0254, "inches", "metres", 1.245),  # meets the next one at 31.6
    _UnitPair(25.4, "millimetres", "inches", 1.245),
)
_FEET_AND_METRES = _UnitPair(_FEET, "feet", "metres", _MAX_FEET_DEVIATION)


def unit_warning(source: LineSet, target: LineSet) -> str | None:
    """One sentence if the maps seem to be in different units, otherwise None."""
    if not (len(source) and len(target)):  # that is an error of its own
        return None
    segments = source.endpoints is not None and target.endpoints is not None
    sizes = _Sizes.of(source, segments), _Sizes.of(target, segments)
    if _are_alike(*sizes):
        return None
    ratios = _ratios(sizes[0].lengths, sizes[1].lengths)
    if len(ratios) < 2:
        return None
    source_is_larger = _middle(ratios) > 1
    if not source_is_larger:
        ratios = [1 / ratio for ratio in ratios]
    names = ("source", "target") if source_is_larger else ("target", "source")
    if _differ(ratios, segments):
        return _sentence(_middle(ratios), *names)
    if len(ratios) == 3 and min(len(source), len(target)) >= _MIN_LINES_FOR_FEET and _differ_by_feet(ratios):
        return _unit_sentence(_FEET_AND_METRES, *names)
    return None


def size_ratios(source: LineSet, target: LineSet) -> list[float]:
    """Factors by which the source may have to grow to be as large as the target, the most reliable first; all differ.

    Those of the extents, of the spacings and, of segments, of the lengths; 1 where none is known.
    """
    segments = source.endpoints is not None and target.endpoints is not None
    pairs = zip(_Sizes.of(target, segments).lengths, _Sizes.of(source, segments).lengths, strict=True)
    ratios: list[float] = []
    for ratio in (a / b for a, b in pairs if 0 < a < math.inf and 0 < b < math.inf):
        if all(abs(math.log(ratio / other)) > _SAME_RATIO for other in ratios):
            ratios.append(ratio)
    return ratios or [1.0]


def unit_names(scale: float) -> tuple[str, str] | None:
    """The units from and to which a scale converts lengths; None if it is that of no two common units."""
    for units in (*_UNIT_PAIRS, _FEET_AND_METRES):
        if abs(math.log(scale * units.factor)) < _UNIT_SCALE:
            return units.smaller_unit, units.larger_unit
        if abs(math.log(scale / units.factor)) < _UNIT_SCALE:
            return units.larger_unit, units.smaller_unit
    return None


def _differ(ratios: list[float], segments: bool) -> bool:
    """Whether the lengths agree that one map is much larger."""
    if not segments:
        return min(ratios) >= _MIN_RATIO_OF_INFINITE_LINES
    # A part of a place in a smaller unit may have the extent of the whole place.
    part_and_whole = len(ratios) == 3 and _middle(ratios) >= _MIN_MIDDLE_RATIO and min(ratios) >= _MIN_OTHER_RATIO
    return min(ratios) >= _MIN_RATIO or part_and_whole


def _differ_by_feet(ratios: list[float]) -> bool:
    return all(_FEET / _MAX_FEET_DEVIATION < ratio < _FEET * _MAX_FEET_DEVIATION for ratio in ratios)


def _are_alike(source: _Sizes, target: _Sizes) -> bool:
    """Whether the extents and, of segments, the lengths differ so little that no spacing can suggest other units.

    Spacings take longer to compute than everything else. Without them two lengths of three are known of segments, and
    two of three must differ by much.
    """
    limit = _MIN_RATIO_OF_INFINITE_LINES if source.length is None else _FEET / _MAX_FEET_DEVIATION
    pairs = [(source.extent, target.extent)]
    if source.length is not None and target.length is not None:
        pairs.append((source.length, target.length))
    return all(0 < a < limit * b and b < limit * a for a, b in pairs)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """How large a map is."""

    lines: LineSet
    extent: float
    length: float | None  # of the segments in which half of the total length is; None if it was not asked for

    @classmethod
    def of(cls, lines: LineSet, segments: bool) -> _Sizes:
        """Of segments or, if it is said so, of lines without ends."""
        lines = lines.to("cpu").to(torch.float64)
        if lines.endpoints is None and compiled(lines.direction):
            return _Sizes(lines, line_extent(lines.direction.detach(), lines.moment.detach(), _EXTENT_QUANTILE), None)
        centred = _centred(lines, segments)
        extent = quantile(torch.linalg.vector_norm(centred.anchors(), dim=-1).numpy(), _EXTENT_QUANTILE)
        if not segments:
            return _Sizes(lines, extent, None)
        lengths = centred.lengths().sort().values
        half = int(torch.searchsorted(lengths.cumsum(0), lengths.sum() / 2))
        return _Sizes(lines, extent, float(lengths[half]))

    @property
    def lengths(self) -> list[float]:
        """Extent and spacing and, of segments, their length."""
        centred = _centred(self.lines, self.length is not None)
        anchors = centred.anchors()
        if self.length is not None:
            return [self.extent, _spacing(torch.cdist(_sample(anchors), anchors)), self.length]
        spacing = _spacing(_line_distances(centred, anchors))
        return [self.extent, spacing if spacing > _MIN_RELATIVE_SPACING * self.extent else math.nan]


def _centred(lines: LineSet, segments: bool) -> LineSet:
    """Segments or, if it is said so, lines without ends, about their centre."""
    return (lines if segments else lines.infinite()).shifted(lines.centre())


def _line_distances(lines: LineSet, footpoints: Float[Tensor, "n 3"]) -> Float[Tensor, "s n"]:
    """Distances of sampled lines to all lines, measured at the footpoints; infinite where they are not parallel.

    The footpoint ``f`` of a line is perpendicular to its direction ``d``, so the squared distance of a point ``p``
    from the line is ``|p - f|^2 - (p d)^2``.
    """
    points = _sample(footpoints)
    squares = torch.cdist(points, footpoints).square() - (points @ lines.direction.mT).square()
    cosines = (_sample(lines.direction) @ lines.direction.mT).abs()
    parallel = cosines > math.cos(math.radians(_MAX_PARALLEL_ANGLE))
    return torch.where(parallel, squares.clamp_min(0).sqrt(), torch.inf)


def _spacing(distances: Float[Tensor, "s n"]) -> float:
    """Median distance to the fourth neighbour; a row's smallest distance is that to itself."""
    count = min(_NEIGHBOUR + 1, distances.shape[1])
    return float(distances.topk(count, largest=False).values[:, -1].median())


def _sample(rows: Float[Tensor, "n 3"]) -> Float[Tensor, "s 3"]:
    """At most `_MAX_SAMPLED` rows, evenly spread over the file."""
    return rows[:: math.ceil(len(rows) / _MAX_SAMPLED)]


def _ratios(source: list[float], target: list[float]) -> list[float]:
    """Source over target, of the lengths that are known of both maps, from the smallest to the largest."""
    pairs = zip(source, target, strict=True)
    return sorted(a / b for a, b in pairs if 0 < a < math.inf and 0 < b < math.inf)


def _middle(ratios: list[float]) -> float:
    """The median; of two ratios, their geometric mean."""
    half = len(ratios) // 2
    return ratios[half] if len(ratios) % 2 else math.sqrt(ratios[half - 1] * ratios[half])


def _sentence(ratio: float, larger: str, smaller: str) -> str:
    for units in _UNIT_PAIRS:
        if 1 / units.deviation < ratio / units.factor < units.deviation:
            return _unit_sentence(units, larger, smaller)
    size = f"The {larger} looks about {float(f'{ratio:.1g}'):,.0f} times larger than the {smaller}"
    return f"{size}, and scale is not searched for: are both maps in the same unit?"


def _unit_sentence(units: _UnitPair, larger: str, smaller: str) -> str:
    factor = f"{units.factor:.0f}" if units.factor > 10 else f"{units.factor:.1f}"
    size = f"The {larger} looks about {factor} times larger than the {smaller}"
    return f"{size}: is the {larger} in {units.smaller_unit} and the {smaller} in {units.larger_unit}?"
