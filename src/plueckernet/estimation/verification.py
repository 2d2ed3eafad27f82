r"""How well a pose explains two whole maps, not only a list of matches.

Every line ``i`` of either map counts by the fit of its best partner, ``e_i = max_j max(0, 1 - r_ij^2)``. Maps of one
place that cover different parts of it need three precautions:

* A line that falls where the other map has no lines says nothing. A line that falls among lines of the other map
  without a partner speaks against the pose. Without this distinction the pose wins that overlaps the maps most.
* Lines of a bundle, such as a blind or a flight of steps, find partners by chance, all at once. Lines within a few
  inlier distances of one another therefore count as one.
* Hypotheses are many. All are scored on a few lines of each map, and the best of them on all lines. A grid
  (:class:`~plueckernet.estimation.line_grid.LineGrid`) gives the few lines that can be the partner of another.

With ``w_i`` one over the size of the bundle, scaled to a mean of one, and ``c_i`` the fraction of the line that falls
where the other map has lines, ``E = sum w_i e_i`` lines are explained of ``C = sum w_i max(c_i, e_i)`` expected, for
each map. With both averaged over the maps, the score is the number of explained lines times the explained fraction,
``E^2 / (C + k)``. The prior ``k`` keeps a few chance agreements at the rim of both maps from winning. Infinite lines
have no extent: all of the smaller map are expected, and ``w_i = 1``.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.hull import MAX_LINE_RATIO, Hull, MovedSide, SharedVolume, counted_lines
from plueckernet.estimation.infinite_lines import InfiniteLines
from plueckernet.estimation.line_grid import LineGrid
from plueckernet.estimation.moved_lines import MovedLines
from plueckernet.estimation.occupancy import Occupancy
from plueckernet.estimation.partners import line_arrays
from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.kernels.library import compiled
from plueckernet.kernels.map_sides import MapSide, explained_sums, segment_fits
from plueckernet.settings import check_at_least, check_positive

INFINITE_LINES = 256  # of a map of infinite lines, which no grid can hold, that are compared with all of the other
COMPARED_LINES = 128  # the same of larger maps, where many poses are compared with each other
_POSE_LINES = 400_000  # poses times lines that are looked up in the grids at once
_SHIFTS = 32  # of a pose, to learn what it would explain by chance
_SHIFT_RANGE = 0.15, 0.75  # radii of the map: far enough to part true matches, near enough to keep the overlap
COUNT_VARIANCE = 4.0  # lines squared, added to the variance of the number of explained lines
_MIN_COVERAGE = 0.5  # of a line in the overlap of two maps
MIN_DEVIATION = 0.3  # lines, added to the standard deviation: few lines cannot tell how much chance varies

_Number = TypeVar("_Number", float, Tensor)


@dataclass(frozen=True)
class VerificationSettings:
    """How poses are scored on whole maps."""

    score_prior: float = 10.0  # lines, the ``k`` of the score
    bundle_width: float = 3.0  # inlier distances within which parallel lines form one bundle
    cell_size: float = 0.15  # of the occupancy grid, in radii of the map
    screening_lines: int = 64  # of each map on which all hypotheses are scored first

    def __post_init__(self) -> None:
        check_positive(self, "score_prior", "bundle_width", "cell_size")
        check_at_least(self, 1, "screening_lines")


@dataclass(frozen=True, eq=False)
class Explained:
    """How many lines of either map poses explain, and how many are expected: ``E`` and ``C`` above."""

    source: Float[Tensor, " h"]
    target: Float[Tensor, " h"]
    expected_source: Float[Tensor, " h"]
    expected_target: Float[Tensor, " h"]

    @property
    def lines(self) -> Float[Tensor, " h"]:
        """Explained lines, averaged over the maps."""
        return (self.source + self.target) / 2

    @property
    def expected(self) -> Float[Tensor, " h"]:
        """Expected lines, averaged over the maps."""
        return (self.expected_source + self.expected_target) / 2

    @property
    def fraction(self) -> Float[Tensor, " h"]:
        """Explained over expected lines of both maps."""
        return self.lines / self.expected.clamp_min(1e-6)

    def deficit(self, fraction: float) -> Float[Tensor, " h"]:
        """How many lines fewer poses explain than if they explained a given fraction, in standard deviations.

        Two percent of a thousand lines of an exact drawing are much, of a hundred lines of a scan nothing.
        """
        return missing_lines(min(fraction, 1.0), self.fraction, self.expected)


def missing_lines(fraction: float | _Number, explained: _Number, expected: _Number) -> _Number:
    """How many lines an explained fraction lacks to a given one of those expected, in standard deviations."""
    missing = (fraction - explained) * expected
    return missing / (expected * fraction * (1 - fraction) + COUNT_VARIANCE) ** 0.5


class MapScorer:
    """Scores poses on two maps that are centred and have a radius of about one.

    Lines of the given maps are counted. Their partners are looked for among ``partners``, all lines of larger maps of
    which the given ones are the core: a line of one core need not be in the other.
    """

    def __init__(
        self,
        source: AnchoredLines,
        target: AnchoredLines,
        threshold: InlierThreshold,
        settings: VerificationSettings = VerificationSettings(),
        partners: tuple[AnchoredLines, AnchoredLines] | None = None,
    ) -> None:
        self._settings = settings
        self._infinite = source.half_length is None or target.half_length is None
        source_partners, target_partners = partners or (source, target)
        self._source = _Side(source, source_partners, threshold, settings, self._infinite)
        self._target = _Side(target, target_partners, threshold, settings, self._infinite)

    def against_itself(self, side: int) -> MapScorer:
        """Scores motions of the source (0) or the target (1) within the same map."""
        scorer = copy(self)
        scorer._source = scorer._target = (self._source, self._target)[side]
        return scorer

    def scores(self, poses: Pose) -> Float[Tensor, " h"]:
        """Number of explained lines times the explained fraction, for each pose."""
        return self.score(self.explained(poses))

    def compared_scores(self, poses: Pose) -> Float[Tensor, " h"]:
        """The same, less precise for large maps of infinite lines, to compare many poses with each other."""
        return self.score(self.explained(poses, COMPARED_LINES))

    def explained(self, poses: Pose, sample: int = INFINITE_LINES) -> Explained:
        """How many lines each pose explains, and how many are expected.

        Of infinite lines, all of the smaller map are expected, and a sample of larger maps stands for all of them.
        """
        single = poses.to(torch.float32)
        if not self._infinite:
            return self._explained(single, max(len(self._source), len(self._target)))
        sides = self._explained_sides(single, sample)
        expected = torch.full_like(sides[0], min(len(self._source), len(self._target)))
        return Explained(*sides, expected, expected)

    def best(self, poses: Pose, count: int) -> tuple[Int[Tensor, " k"], Float[Tensor, " k"]]:
        """Rows and scores of at most ``count`` of many poses, best first.

        All are scored on some lines of each map, spread evenly, and the best ``count`` on all lines.
        """
        rows = torch.arange(poses.rotation.shape[0], device=poses.rotation.device)
        if len(rows) > count:
            rows = self._rough_scores(poses.to(torch.float32)).topk(count).indices
        scores, order = self.compared_scores(poses[rows]).sort(descending=True, stable=True)
        return rows[order[:count]], scores[:count]

    def overlap(self, pose: Pose) -> tuple[Int[Tensor, " k"], Int[Tensor, " l"]]:
        """Rows of the lines of each map that lie where the other has lines; none of infinite lines."""
        if self._infinite:
            none = torch.zeros(0, dtype=torch.int64, device=pose.rotation.device)
            return none, none
        single = Pose(pose.rotation[None], pose.translation[None]).to(torch.float32)
        covered = [
            other.occupancy.coverage(MovedLines.of(motion, side.lines))[0] > _MIN_COVERAGE
            for side, motion, other in (
                (self._source, single, self._target),
                (self._target, single.inverse(), self._source),
            )
        ]
        return covered[0].nonzero()[:, 0], covered[1].nonzero()[:, 0]

    def stand_out(self, pose: Pose) -> tuple[float, float, float]:
        """The score of a pose, how far it lies above that of the same pose shifted, and how many lines that explains.

        The second is in standard deviations of the scores of many shifts, the third a mean over them: what the maps
        explain by chance.
        """
        shifted = shifted_poses(pose)
        explained = self.explained(shifted, COMPARED_LINES)
        scores, chance = self.score(explained), explained.lines[1:].mean()
        own = self.scores(shifted[:1])[0] if self._is_sampled else scores[0]
        above = (own - scores[1:].mean()) / (scores[1:].std() + MIN_DEVIATION)
        return float(own), float(above), float(chance)

    def shared_volume(self, poses: Pose) -> SharedVolume:
        """The lines in the volume that both maps fill; long ones count more than short ones.

        None of infinite lines, and of maps of which one has many times the lines of the other.

        The cells of the score are coarse and grow: where maps have little in common, most lines that it expects lie
        beside the part that both show.
        """
        moved, fixed = self._source, self._target
        if not self._has_volumes:
            return SharedVolume.none(poses.translation[:, 0])
        return SharedVolume.of(moved.moved_into(fixed, poses), fixed.moved_into(moved, poses.inverse()))

    def shared_fractions(self, poses: Pose) -> Float[Tensor, " h"] | None:
        """Explained lines over those in the volume that both maps fill; None where that says nothing.

        Both are rough, to compare many poses with each other. The prior keeps poses that barely touch from winning.
        """
        if not self._has_volumes:
            return None
        single = poses.to(torch.float32)
        source, target = self._source, self._target
        inside = source.lines_inside(target, single), target.lines_inside(source, single.inverse())
        counts = (single.translation.new_tensor(len(side)) for side in (source, target))
        weights = counted_lines(*counts)
        lines = weights[0] * inside[0] + weights[1] * inside[1]
        return self.explained(single).lines / (lines + self._settings.score_prior)

    def _rough_scores(self, poses: Pose) -> Float[Tensor, " h"]:
        """The score on some lines of each map; of infinite lines, on some of the source against all of the target."""
        count, smaller = self._settings.screening_lines, min(len(self._source), len(self._target))
        if self._infinite:
            return self._explained_infinite(poses, self._source, self._target, count)
        return self.score(self._explained(poses, count), min(count, smaller) / smaller * self._settings.score_prior)

    def score(self, explained: Explained, prior: float | None = None) -> Float[Tensor, " h"]:
        """The score that follows from explained and expected lines."""
        prior = self._settings.score_prior if prior is None else prior
        return explained.lines.square() / (explained.expected + prior)

    def _explained(self, poses: Pose, count: int) -> Explained:
        """Of segments, at most ``count`` of each map."""
        sides = self._source, self._target
        counts = min(count, len(sides[0])), min(count, len(sides[1]))
        if sides[0].kernel is not None and sides[1].kernel is not None:
            pose = poses.rotation, poses.translation
            return Explained(*explained_sums(sides[0].kernel, sides[1].kernel, pose, counts))
        size = max(1, _POSE_LINES // max(1, sum(counts)))
        blocks = [poses[start : start + size] for start in range(0, max(1, poses.rotation.shape[0]), size)]
        sums = [self._sums(block, counts) for block in blocks]
        return Explained(*(torch.cat(side) for side in zip(*sums, strict=True)))

    def _sums(self, poses: Pose, counts: tuple[int, int]) -> tuple[Tensor, ...]:
        explained, expected = [], []
        source, target = self._source, self._target
        for side, count, motion, other in (
            (source, counts[0], poses, target),
            (target, counts[1], poses.inverse(), source),
        ):
            rows = side.sample(count)
            lines, weight = MovedLines.of(motion, side.lines[rows]), side.weight[rows]
            fit = (1 - other.grid.misfit(lines)).clamp_min_(0)
            covered = torch.maximum(other.occupancy.coverage(lines), fit)
            explained.append(fit @ weight)
            expected.append(covered @ weight)
        return *explained, *expected

    @property
    def _has_volumes(self) -> bool:
        """Whether the maps fill volumes, and have so many lines each that missing ones tell something."""
        fewer, more = sorted((self._source.size, self._target.size))
        return not self._infinite and more <= MAX_LINE_RATIO * fewer

    @property
    def _is_sampled(self) -> bool:
        """Whether some infinite lines stand for others."""
        return self._infinite and max(len(self._source), len(self._target)) > INFINITE_LINES

    def _explained_sides(self, poses: Pose, sample: int) -> tuple[Float[Tensor, " h"], Float[Tensor, " h"]]:
        """Explained lines of both infinite maps; one comparison tells both where no line has to stand for others."""
        source, target = self._source, self._target
        if self._is_sampled:
            scales = [len(side) / max(1, min(sample, len(side))) for side in (source, target)]
            first = self._explained_infinite(poses, source, target, sample) * scales[0]
            return first, self._explained_infinite(poses.inverse(), target, source, sample) * scales[1]
        if source.kernel is not None and target.kernel is not None:
            counts, pose = (len(source), len(target)), (poses.rotation, poses.translation)
            sums = explained_sums(source.kernel, target.kernel, pose, counts)
            return sums[0], sums[1]
        misfits = target.infinite_lines.misfits(poses, source.lines)
        return (1 - misfits[0]).clamp_min_(0).sum(-1), (1 - misfits[1]).clamp_min_(0).sum(-1)

    def _explained_infinite(self, poses: Pose, moved: _Side, other: _Side, count: int) -> Float[Tensor, " h"]:
        """Explained lines among at most ``count`` of an infinite map."""
        if moved.kernel is not None and other.kernel is not None:
            counts, pose = (min(count, len(moved)), 0), (poses.rotation, poses.translation)
            return explained_sums(moved.kernel, other.kernel, pose, counts)[0]
        misfit = other.infinite_lines.misfit(poses, moved.lines[moved.sample(count)])
        return (1 - misfit).clamp_min_(0).sum(-1)


class _Side:
    """One of two maps: lines that are counted, and partners of the lines of the other map.

    What is kept by the library is made at once, the rest when it is needed.
    """

    def __init__(
        self,
        lines: AnchoredLines,
        partners: AnchoredLines,
        threshold: InlierThreshold,
        settings: VerificationSettings,
        infinite: bool,
    ) -> None:
        self._lines, self._partners, self._threshold, self._settings = lines, partners, threshold, settings
        self.kernel = self._kernel(infinite) if compiled(lines.anchor) else None

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def size(self) -> int:
        """The number of lines of the whole map."""
        return len(self._partners)

    def sample(self, count: int) -> Int[Tensor, " k"]:
        """Rows of at most ``count`` lines, spread evenly."""
        count = min(count, len(self))
        return torch.arange(count, device=self._lines.anchor.device) * len(self) // max(1, count)

    @cached_property
    def lines(self) -> AnchoredLines:
        """The lines that are counted."""
        return self._lines.to(torch.float32)

    @cached_property
    def hull(self) -> Hull:
        """The volume that the map fills."""
        arm = self._partners.segment_half_length[:, None] * self._partners.lines.direction
        return Hull.of(torch.cat([self._partners.anchor - arm, self._partners.anchor + arm]))

    @cached_property
    def single_hull(self) -> Hull:
        """The same in single precision."""
        return Hull(self.hull.normal.float(), self.hull.offset.float())

    def moved_into(self, other: _Side, poses: Pose) -> MovedSide:
        """The segments that are counted, moved into the other map."""
        fit, covered = (values.to(poses.translation) for values in self._fits(other, poses.to(torch.float32)))
        lines = self._lines
        inside = other.hull.coverage(poses, lines.anchor, lines.lines.direction, lines.segment_half_length)
        return MovedSide(fit.new_tensor(len(self)), lines.segment_half_length, fit, covered, inside)

    def lines_inside(self, other: _Side, poses: Pose) -> Float[Tensor, " h"]:
        """The fraction of some of the segments that lies in the volume of the other map, by length."""
        lines = self.lines[self.sample(COMPARED_LINES)]
        length = lines.segment_half_length
        inside = other.single_hull.coverage(poses, lines.anchor, lines.lines.direction, length)
        return inside @ (length / length.sum().clamp_min(torch.finfo(length.dtype).tiny))

    def _fits(self, other: _Side, poses: Pose) -> tuple[Float[Tensor, "h n"], Float[Tensor, "h n"]]:
        """How well each segment fits its best partner, and the fraction of it where the other map has lines."""
        if self.kernel is not None and other.kernel is not None:
            return segment_fits(self.kernel, other.kernel, (poses.rotation, poses.translation))
        moved = MovedLines.of(poses, self.lines)
        return (1 - other.grid.misfit(moved)).clamp_min_(0), other.occupancy.coverage(moved)

    @cached_property
    def weight(self) -> Float[Tensor, " n"]:
        """The weight of each segment."""
        return _weights(self.lines, self._bundle)

    @cached_property
    def grid(self) -> LineGrid:
        """The segments that may be partners."""
        return LineGrid(self._partners.to(torch.float32), self._threshold)

    @cached_property
    def occupancy(self) -> Occupancy:
        """Where the map has segments."""
        return Occupancy(self._partners.to(torch.float32), self._settings.cell_size)

    @cached_property
    def infinite_lines(self) -> InfiniteLines:
        """The infinite lines that may be partners."""
        return InfiniteLines(self.lines, self._threshold)

    @property
    def _bundle(self) -> InlierThreshold:
        return InlierThreshold(self._settings.bundle_width * self._threshold.distance, self._threshold.angle)

    def _kernel(self, infinite: bool) -> MapSide:
        lines, partners = (line_arrays(side) for side in (self._lines, self._partners))
        if infinite:
            lines = partners = lines._replace(half_length=None)
        threshold = self._threshold.distance, self._threshold.angle, self._threshold.directed
        return MapSide(lines, partners, threshold, self._bundle.distance, self._settings.cell_size)


def _weights(lines: AnchoredLines, bundle: InlierThreshold) -> Float[Tensor, " n"]:
    """One over the number of lines in the bundle of each line, scaled to a mean of one."""
    if lines.half_length is None:
        return torch.ones_like(lines.anchor[:, 0])
    identity = Pose.identity(1, dtype=torch.float32, device=str(lines.anchor.device))
    blocks = torch.arange(len(lines), device=lines.anchor.device).split(max(1, 8 * BLOCK_ENTRIES // len(lines)))
    sizes = torch.cat([pair_residuals(identity, lines[rows], lines, bundle)[0].lt_(1).sum(1) for rows in blocks])
    weight = 1 / sizes.clamp_min(1)
    return weight / weight.mean()


def shifted_poses(poses: Pose) -> Pose:
    """Each pose, and then what chance is measured with: the same shifts of it every time, in a dimension ``s``."""
    shifts = _shifts(str(poses.translation.device))
    rotation = poses.rotation[..., None, :, :]
    return Pose(rotation.expand(*rotation.shape[:-3], len(shifts), 3, 3), poses.translation[..., None, :] + shifts)


@lru_cache(maxsize=8)
def _shifts(device: str) -> Float[Tensor, "s 3"]:
    """None, and then the same shifts every time, in all directions."""
    generator = torch.Generator().manual_seed(0)
    direction = normalize(torch.randn(_SHIFTS, 3, generator=generator, dtype=torch.float64), dim=-1)
    low, high = _SHIFT_RANGE
    shifts = direction * torch.linspace(low, high, _SHIFTS, dtype=torch.float64)[:, None]
    return torch.cat([torch.zeros_like(shifts[:1]), shifts]).to(device)
