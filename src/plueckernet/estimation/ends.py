r"""Whether the ends of matched segments determine a shift along them.

A line resists only motion across itself, but where a segment ends is evidence as well: under the right pose many ends
coincide, and few do when the pose is shifted along the lines. The lines of which an end coincides are counted, for
shifts up to one inlier distance and for larger ones. The largest count of the former must stand out

- from that of every larger shift: neither a smooth distribution of cut ends nor a repetition does;
- from chance: if two segments of the lengths ``a`` and ``b`` overlap by accident, two of their ends are closer than
  ``e`` with the probability ``2 e / (a + b)``, which is large for short ones.

Maps end where they were cut, and two windows of equal shape always fit each other. So ends on the border of both maps
count for nothing, and the others have to lie at several places along the axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.observability import MotionKind, ObservabilitySettings, UnobservableMotion
from plueckernet.estimation.refinement import Refinement

_PARALLEL = 0.95  # cosine of the angle between an axis and the lines whose ends count for it
_STEPS = 2  # shifts within the end distance
_BORDER_DIRECTIONS = 1000  # of planes across the axis that a map may have been cut along
_BORDER_COSINE = 0.25  # of the angle between the axis and such a normal; other planes cut few lines
_BORDER_MARGIN = 0.1  # radii of the map; a normal is up to 0.06 rad from the nearest of the directions
_BLOCK = 500  # segments compared with all directions at once


@dataclass(frozen=True, eq=False)
class MatchedEnds:
    """The ends of matched segments as coordinates along an axis, the lower end first."""

    source: Float[Tensor, "k 2"]  # of the moved source
    target: Float[Tensor, "k 2"]
    counted: Bool[Tensor, "k 2"]  # not on the border of both maps

    @classmethod
    def of(cls, refinement: Refinement, maps: MapPair, axis: Float[Tensor, "3"]) -> MatchedEnds | None:
        """Those of the inliers along the axis, in normalized units; None for infinite lines."""
        source, target = refinement.pose @ maps.all_source.lines, maps.all_target.lines
        if source.endpoints is None or target.endpoints is None:
            return None
        rows = refinement.matches[(target.direction[refinement.matches[:, 1]] @ axis).abs() > _PARALLEL]
        places, borders = [], []
        for ends, side, core in (
            (source.endpoints, rows[:, 0], maps.source_core),
            (target.endpoints, rows[:, 1], maps.target_core),
        ):
            place, order = (ends[side] @ axis).sort(-1)
            places.append(place)
            borders.append(_on_border(ends[side], ends[core], axis).gather(-1, order))
        return MatchedEnds(places[0], places[1], ~(borders[0] & borders[1]))

    def coinciding(self, shift: Float[Tensor, " s"], distance: float) -> Bool[Tensor, "s k 2"]:
        """Which ends are within a distance if the source is shifted along the axis."""
        return (((self.target - self.source) - shift[:, None, None]).abs() <= distance) & self.counted

    def chances(self, distance: float) -> Float[Tensor, " k"]:
        """How probable it is of each line that one of its ends coincides if the segments overlap by accident."""
        lengths = (self.source.diff(dim=-1) + self.target.diff(dim=-1))[:, 0].clamp_min(1e-12)
        apart = (self.source.diff(dim=-1) - self.target.diff(dim=-1)).abs()[:, 0].clamp_max(2 * distance)
        width = torch.where(self.counted.all(-1), 2 * distance + apart, 2 * distance * self.counted.any(-1))
        return (width / lengths).clamp_max(1.0)

    def hold(self, inlier_distance: float, settings: ObservabilitySettings) -> bool:
        """Whether more ends coincide under the pose than under shifted ones and by chance."""
        small, large = _shifts(settings, self.source)
        distance = settings.end_distance * inlier_distance
        coinciding = self.coinciding(inlier_distance * small, distance)
        counts = coinciding.any(-1).sum(-1)
        best = int(counts.argmax())
        if _separate(self.target[coinciding[best]], 2 * distance) < settings.min_end_places:
            return False
        elsewhere = int(self.coinciding(inlier_distance * large, distance).any(-1).sum(-1).max())
        chances = self.chances(distance)
        expected = (float(chances.sum()), float((chances * (1 - chances)).sum())), (elsewhere, elsewhere)
        needed = settings.min_end_excess  # with a variance of at least one, because counts are small
        return all(int(counts[best]) - mean >= needed * math.sqrt(1 + variance) for mean, variance in expected)


def held_by_ends(
    motion: UnobservableMotion, refinement: Refinement, maps: MapPair, settings: ObservabilitySettings
) -> bool:
    """Whether the ends of the inliers determine a motion that too few lines resist; never a rotation."""
    if motion.kind is MotionKind.ROTATION:
        return False
    ends = MatchedEnds.of(refinement, maps, refinement.pose.translation.new_tensor(motion.axis))
    return ends is not None and len(ends.source) > 0 and ends.hold(maps.threshold.distance, settings)


def _shifts(settings: ObservabilitySettings, like: Tensor) -> tuple[Float[Tensor, " s"], Float[Tensor, " t"]]:
    """Shifts in inlier distances: those that leave the pose what it is, and those that do not."""
    step = settings.end_distance / _STEPS
    small = torch.arange(-math.floor(1 / step), math.floor(1 / step) + 1).to(like) * step
    first = 1 + 2 * settings.end_distance
    large = torch.arange(first, max(first, settings.max_end_shift) + step / 2, step).to(like)
    return small, torch.cat([-large, large])


def _separate(places: Float[Tensor, " k"], distance: float) -> int:
    """How many of the places are further than a distance from each other."""
    count, last = 0, -math.inf
    for place in places.sort().values.tolist():
        if place - last > distance:
            count, last = count + 1, place
    return count


def _on_border(
    ends: Float[Tensor, "k 2 3"], all_ends: Float[Tensor, "n 2 3"], axis: Float[Tensor, "3"]
) -> Bool[Tensor, "k 2"]:
    """Which ends may have been cut off: all of the map lies on one side of a plane through them across the axis."""
    normals = _directions_about(axis)
    extent = all_ends.flatten(0, 1) @ normals
    high, low = extent.amax(0) - _BORDER_MARGIN, extent.amin(0) + _BORDER_MARGIN
    near = [((block @ normals > high) | (block @ normals < low)).any(-1) for block in ends.split(_BLOCK)]
    return torch.cat(near)


def _directions_about(axis: Float[Tensor, "3"]) -> Float[Tensor, "3 d"]:
    """Even directions of a half sphere, less those almost perpendicular to its axis."""
    row = torch.arange(_BORDER_DIRECTIONS).to(axis) + 0.5
    cosine, turn = 1 - row / _BORDER_DIRECTIONS, row * math.pi * (1 + math.sqrt(5))
    cosine, turn = cosine[cosine > _BORDER_COSINE], turn[cosine > _BORDER_COSINE]
    first = torch.linalg.cross(axis, torch.eye(3).to(axis)[axis.abs().argmin()])
    first = first / first.norm()
    second = torch.linalg.cross(axis, first)
    radius = (1 - cosine.square()).sqrt()
    return (
        torch.outer(axis, cosine) + torch.outer(first, radius * turn.cos()) + torch.outer(second, radius * turn.sin())
    )
