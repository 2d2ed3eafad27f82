"""Two maps in one normalized frame: centred, in a common unit, with the inlier threshold that suits them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.close_pairs import NearbyPairs
from plueckernet.estimation.partners import line_spacing
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer
from plueckernet.estimation.strays import KeptLines
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.settings import check_positive

MIN_LINES = 3  # of each map; messages spell it
_NOISE_QUANTILE = 0.9  # of the sigmas of lines; larger ones are outliers and do not set the common noise
_ROUNDING = 1e-9  # normalized; a part of a map of no larger radius is one point
_MAX_NOISE_FACTOR = 20.0  # by which the noise of a line may differ from the common noise, either way


@dataclass(frozen=True)
class ThresholdSettings:
    """How the inlier distance follows from the maps where it is not given; lengths are in radii of the map."""

    spacing_fraction: float = 0.25  # of the spacing of neighbouring lines; a larger threshold confuses neighbours
    min_distance: float = 0.01
    max_distance: float = 0.1

    def __post_init__(self) -> None:
        check_positive(self, "spacing_fraction", "min_distance", "max_distance")


@dataclass(frozen=True, eq=False)
class MapPair:
    """Both maps, centred and scaled to a radius of about one.

    All lines are refined on; the core, at most ``max_lines`` of each map, is matched and verified.
    """

    all_source: AnchoredLines
    all_target: AnchoredLines
    source_core: Int[Tensor, " m"]  # rows of `all_source`
    target_core: Int[Tensor, " n"]
    source_offset: Float[Tensor, "3"]  # of the normalized origin, in the original frame
    target_offset: Float[Tensor, "3"]
    unit: float  # length of one normalized unit, in the unit of the maps
    threshold: InlierThreshold  # in normalized units

    @cached_property
    def source(self) -> AnchoredLines:
        """The core of the source."""
        return self.all_source[self.source_core]

    @cached_property
    def target(self) -> AnchoredLines:
        """The core of the target."""
        return self.all_target[self.target_core]

    @cached_property
    def nearby_pairs(self) -> NearbyPairs:
        """The close pairs of both cores under poses; what was found under one serves those near it."""
        return NearbyPairs(self.source, self.target)

    @property
    def normalized_lines(self) -> tuple[LineSet, LineSet]:
        """Both cores, centred and in the common unit."""
        return self.source.lines, self.target.lines

    @property
    def original_lines(self) -> tuple[LineSet, LineSet]:
        """Both cores in their original frames and unit."""
        return self._original(*self.normalized_lines)

    @property
    def all_original_lines(self) -> tuple[LineSet, LineSet]:
        """All lines in their original frames and unit."""
        return self._original(self.all_source.lines, self.all_target.lines)

    @property
    def are_infinite(self) -> bool:
        """Whether the lines have no ends."""
        return self.all_source.half_length is None

    @property
    def core_counts(self) -> tuple[int, int]:
        """Number of lines of each core."""
        return len(self.source_core), len(self.target_core)

    @property
    def has_lines_outside_core(self) -> bool:
        """Whether a map has more lines than its core."""
        return len(self.all_source) + len(self.all_target) > sum(self.core_counts)

    def match_scorer(self, source: Int[Tensor, " k"], target: Int[Tensor, " k"]) -> RowScorer:
        """Scores poses on matches, given as rows of the cores."""
        return RowScorer(self.source[source], self.target[target], self.threshold)

    def of_rows(self, source: Int[Tensor, " k"], target: Int[Tensor, " l"]) -> MapPair:
        """Some lines of the cores as maps of their own, with the same inlier threshold.

        Raises :class:`InputError` if the lines of a part all pass through one point.
        """
        lines = self.source.lines[source], self.target.lines[target]
        centres = lines[0].centre(), lines[1].centre()
        lines = lines[0].shifted(centres[0]), lines[1].shifted(centres[1])
        unit = math.sqrt(_radius(lines[0], _ROUNDING) * _radius(lines[1], _ROUNDING))
        sides = [_anchored(side.scaled(1 / unit)) for side in lines]
        rows = [torch.arange(len(side), device=centres[0].device) for side in lines]
        offsets = self.source_offset + self.unit * centres[0], self.target_offset + self.unit * centres[1]
        inlier = replace(self.threshold, distance=self.threshold.distance / unit)
        return MapPair(sides[0], sides[1], rows[0], rows[1], *offsets, unit * self.unit, inlier)

    def core_rows(self, rows: Int[Tensor, "k 2"]) -> Int[Tensor, "k 2"]:
        """Rows of the cores as rows of all lines."""
        return torch.stack([self.source_core[rows[:, 0]], self.target_core[rows[:, 1]]], -1)

    def original_target(self, rows: Int[Tensor, " k"]) -> AnchoredLines:
        """Lines of the target in their original frame and unit."""
        lines = self.all_target.lines[rows].scaled(self.unit).shifted(-self.target_offset)
        half_length = self.all_target.half_length
        half_length = None if half_length is None else half_length[rows] * self.unit
        return AnchoredLines(lines, self.all_target.anchor[rows] * self.unit + self.target_offset, half_length)

    def original_pose(self, pose: Pose) -> Pose:
        """A pose between the normalized maps as a pose between the original ones."""
        moved = (pose.rotation @ self.source_offset[:, None])[:, 0]
        return Pose(pose.rotation, self.target_offset + self.unit * pose.translation - moved)

    def normalized_pose(self, pose: Pose) -> Pose:
        """The inverse of :meth:`original_pose`."""
        moved = (pose.rotation @ self.source_offset[:, None])[:, 0]
        return Pose(pose.rotation, (pose.translation + moved - self.target_offset) / self.unit)

    def _original(self, source: LineSet, target: LineSet) -> tuple[LineSet, LineSet]:
        source, target = source.scaled(self.unit), target.scaled(self.unit)
        return source.shifted(-self.source_offset), target.shifted(-self.target_offset)

    def original_covariance(self, covariance: Tensor) -> Tensor:
        """The covariance of :meth:`original_pose`: ``tau = unit tau' + offset x omega``."""
        (x, y, z), unit = self.target_offset.tolist(), self.unit
        rotation = [[1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]
        translation = [[0, -z, y, unit, 0, 0], [z, 0, -x, 0, unit, 0], [-y, x, 0, 0, 0, unit]]
        change = covariance.new_tensor(rotation + translation)
        return change @ covariance @ change.mT


def normalize_maps(
    source: LineSet,
    target: LineSet,
    *,
    max_lines: int,
    inlier_distance: float | None,
    inlier_angle: float,
    directed: bool = False,
    threshold: ThresholdSettings = ThresholdSettings(),
) -> MapPair:
    """Centre both maps, scale them to a common unit and derive the inlier threshold.

    ``inlier_distance`` is in the unit of the maps; None derives it from the spacing of the lines. ``inlier_angle`` is
    in radians.
    """
    check_maps(source, target)
    if (source.endpoints is None) != (target.endpoints is None):
        source, target = source.infinite(), target.infinite()
    source, target = source.to(torch.float64), target.to(torch.float64)
    offsets = KeptLines.of(source).lines.centre(), KeptLines.of(target).lines.centre()
    source, target = source.shifted(offsets[0]).replaced(ids=None), target.shifted(offsets[1]).replaced(ids=None)
    unit = math.sqrt(_radius(source) * _radius(target))
    sides = [
        _anchored(lines.scaled(1 / unit), factor)
        for lines, factor in zip((source, target), _noise_factors(source, target), strict=True)
    ]
    cores = [_core(side, max_lines) for side in sides]
    if inlier_distance is None:
        spacings = [
            line_spacing(side[core], InlierThreshold(1.0, inlier_angle))
            for side, core in zip(sides, cores, strict=True)
        ]
        distance = _derived_distance(spacings, threshold)
    else:
        distance = inlier_distance / unit
    inlier = InlierThreshold(distance, inlier_angle, directed)
    return MapPair(sides[0], sides[1], cores[0], cores[1], offsets[0], offsets[1], unit, inlier)


def check_maps(source: LineSet, target: LineSet) -> None:
    """Raise if the maps cannot be registered."""
    for name, lines in (("source", source), ("target", target)):
        if lines.direction.ndim != 2:
            raise InputError(f"{name} must be one line set, not a batch")
        if len(lines) < MIN_LINES:
            raise InputError(f"{name} has {len(lines)} lines; at least three are needed")
        values = lines.pluecker() if lines.endpoints is None else lines.endpoints
        if not bool(torch.isfinite(values).all()):
            raise InputError(f"{name} has coordinates that are not finite")
        if lines.endpoints is not None and not bool((lines.lengths() > 0).all()):
            raise InputError(f"{name} has segments without length: {int((lines.lengths() == 0).sum())}")


def _noise_factors(source: LineSet, target: LineSet) -> list[Tensor | None]:
    """The noise of each line relative to that of all lines whose noise is known; None where it is not.

    The common noise is estimated from residuals, because the sigmas of a reconstruction are rarely right in scale.
    """
    known = [lines.sigma for lines in (source, target) if lines.sigma is not None]
    if not known:
        return [None, None]
    sigmas = torch.cat(known)
    common = sigmas.clamp_max(sigmas.quantile(_NOISE_QUANTILE)).square().mean().sqrt()
    return [
        None if lines.sigma is None else (lines.sigma / common).clamp(1 / _MAX_NOISE_FACTOR, _MAX_NOISE_FACTOR)
        for lines in (source, target)
    ]


def _derived_distance(spacings: list[float], settings: ThresholdSettings) -> float:
    distance = settings.spacing_fraction * math.sqrt(spacings[0] * spacings[1])
    return min(max(distance, settings.min_distance), settings.max_distance)


def _radius(lines: LineSet, least: float = 0.0) -> float:
    """Median distance of the anchors from the origin, more than ``least``."""
    radius = float(torch.linalg.vector_norm(lines.anchors(), dim=-1).median())
    if not radius > least:
        raise InputError("the lines of a map all pass through one point")
    return radius


def _anchored(lines: LineSet, noise_factor: Tensor | None = None) -> AnchoredLines:
    """Segments by their midpoints, infinite lines by their points nearest to the origin."""
    half_length = None if lines.endpoints is None else lines.lengths() / 2
    return AnchoredLines(lines, lines.anchors(), half_length, noise_factor)


def _core(lines: AnchoredLines, count: int) -> Int[Tensor, " k"]:
    """The longest segments, in their order; of infinite lines, an even sample."""
    if lines.half_length is None:
        step = max(1.0, len(lines) / count)
        return (torch.arange(min(count, len(lines)), device=lines.anchor.device) * step).long()
    return lines.half_length.topk(min(count, len(lines))).indices.sort().values
