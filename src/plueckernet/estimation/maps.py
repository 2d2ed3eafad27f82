"""Two maps made comparable: centred, in one unit, of moderate size, and with a tolerance that suits them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.scoring import AnchoredLines, Tolerance, line_spacing
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, Similarity, skew


@dataclass(frozen=True, eq=False)
class MapPair:
    """Both maps centred and in one unit, so that tolerances and bins need none."""

    all_source: AnchoredLines
    all_target: AnchoredLines
    source_core: Int[Tensor, " m"]  # the lines that are matched and verified
    target_core: Int[Tensor, " n"]
    source_offset: Float[Tensor, "3"]
    target_offset: Float[Tensor, "3"]
    unit: float
    tolerance: Tolerance

    @cached_property
    def source(self) -> AnchoredLines:
        """The core of the source."""
        return self.all_source[self.source_core]

    @cached_property
    def target(self) -> AnchoredLines:
        """The core of the target."""
        return self.all_target[self.target_core]

    @cached_property
    def scorer(self) -> MapScorer:
        """What holds poses against all lines of both cores."""
        return MapScorer(self.source, self.target, self.tolerance)

    @property
    def lines(self) -> tuple[LineSet, LineSet]:
        """Both cores, centred and in one unit."""
        return self.source.lines, self.target.lines

    @property
    def lines_as_they_came(self) -> tuple[LineSet, LineSet]:
        """Both cores in their own frames and unit."""
        source, target = (_scaled(lines, self.unit) for lines in self.lines)
        return source.shifted(-self.source_offset), target.shifted(-self.target_offset)

    @property
    def counts(self) -> tuple[int, int]:
        """Lines of either core."""
        return len(self.source_core), len(self.target_core)

    def pose(self, pose: Pose) -> Pose:
        """A pose between the normalised maps as one between the maps as they came."""
        moved = (pose.rotation @ self.source_offset[:, None])[:, 0]
        rotation = pose.rotation.clone()  # made in inference mode, which what a caller gets must not be
        return Pose(rotation, self.target_offset + self.unit * pose.translation - moved)

    def normalised(self, pose: Pose) -> Pose:
        """The inverse of :meth:`pose`."""
        moved = (pose.rotation @ self.source_offset[:, None])[:, 0]
        return Pose(pose.rotation, (pose.translation + moved - self.target_offset) / self.unit)

    def covariance(self, covariance: Tensor) -> Tensor:
        """A covariance likewise: ``tau = unit tau' + offset x omega``."""
        change = torch.eye(6, dtype=covariance.dtype, device=covariance.device)
        change[3:, 3:] *= self.unit
        change[3:, :3] = skew(self.target_offset)
        return change @ covariance @ change.mT


def normalised_maps(
    source: LineSet,
    target: LineSet,
    max_lines: int,
    angle: float,
    position: float | None = None,
    directed: bool = False,
) -> MapPair:
    """Both maps, ready to be matched; the position tolerance, in their unit, is derived unless given."""
    for name, lines in (("source", source), ("target", target)):
        if lines.direction.ndim != 2:
            raise InputError(f"{name} must be one line set, not a batch")
        if len(lines) < 3:
            raise InputError(f"{name} has {len(lines)} lines; at least three are needed")
    if (source.endpoints is None) != (target.endpoints is None):
        source, target = source.infinite(), target.infinite()
    source, target = source.to(torch.float64), target.to(torch.float64)
    offsets = source.centre(), target.centre()
    source, target = source.shifted(offsets[0]).replaced(ids=None), target.shifted(offsets[1]).replaced(ids=None)
    unit = math.sqrt(_radius(source) * _radius(target))
    origin = torch.zeros_like(offsets[0])
    sides = [AnchoredLines.of(_scaled(lines, 1 / unit), origin) for lines in (source, target)]
    cores = [_longest(side, max_lines) for side in sides]
    if position is None:
        reach = _spacing([side[core] for side, core in zip(sides, cores, strict=True)], angle)
    else:
        reach = position / unit
    tolerance = Tolerance(reach, angle, directed)
    return MapPair(sides[0], sides[1], cores[0], cores[1], offsets[0], offsets[1], unit, tolerance)


def _spacing(cores: list[AnchoredLines], angle: float) -> float:
    """A quarter of the usual distance between neighbouring lines: beyond, a line is taken for its neighbour."""
    gaps = [line_spacing(core, Tolerance(1.0, angle)) for core in cores]
    return min(max(0.25 * math.sqrt(gaps[0] * gaps[1]), 0.01), 0.1)


def _radius(lines: LineSet) -> float:
    """Half the lines have their anchor within it."""
    anchors = AnchoredLines.of(lines, torch.zeros_like(lines.direction[0])).anchor
    radius = float(anchors.norm(dim=-1).median())
    if not radius > 0:
        raise InputError("the lines of a map all pass through one point")
    return radius


def _scaled(lines: LineSet, factor: float) -> LineSet:
    return Similarity.from_pose(Pose.identity(device=str(lines.direction.device)), factor) @ lines


def _longest(lines: AnchoredLines, most: int) -> Int[Tensor, " k"]:
    """The longest segments, in their order; of infinite lines, an even sample."""
    if lines.reach is None:
        step = max(1.0, len(lines) / most)
        return (torch.arange(min(most, len(lines)), device=lines.anchor.device) * step).long()
    return lines.reach.topk(min(most, len(lines))).indices.sort().values
