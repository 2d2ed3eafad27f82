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
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.infinite_lines import InfiniteLines
from plueckernet.estimation.line_grid import LineGrid
from plueckernet.estimation.moved_lines import MovedLines
from plueckernet.estimation.occupancy import Occupancy
from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.settings import check_at_least, check_positive

INFINITE_LINES = 256  # of a map of infinite lines, which no grid can hold, that are compared with all of the other
COMPARED_LINES = 128  # the same of larger maps, where many poses are compared with each other
_POSE_LINES = 400_000  # poses times lines that are looked up in the grids at once
_SHIFTS = 32  # of a pose, to learn what it would explain by chance
_SHIFT_RANGE = 0.15, 0.75  # radii of the map: far enough to part true matches, near enough to keep the overlap
COUNT_VARIANCE = 4.0  # lines squared, added to the variance of the number of explained lines
_MIN_COVERAGE = 0.5  # of a line in the overlap of two maps
MIN_DEVIATION = 0.3  # lines, added to the standard deviation: few lines cannot tell how much chance varies


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
        fraction = min(fraction, 1.0)
        missing = (fraction - self.fraction) * self.expected
        return missing / (self.expected * fraction * (1 - fraction) + COUNT_VARIANCE).sqrt()


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
        sides = source.to(torch.float32), target.to(torch.float32)
        bundle = InlierThreshold(settings.bundle_width * threshold.distance, threshold.angle)
        self._source, self._target = (_WeightedLines(lines, _weights(lines, bundle)) for lines in sides)
        self._threshold, self._settings = threshold, settings
        self._infinite = source.half_length is None or target.half_length is None
        if self._infinite:
            self._infinite_lines = [InfiniteLines(lines, threshold) for lines in sides]
        else:
            partner_sides = sides if partners is None else tuple(side.to(torch.float32) for side in partners)
            self._grids = [LineGrid(lines, threshold) for lines in partner_sides]
            self._occupancies = [Occupancy(lines, settings.cell_size) for lines in partner_sides]

    def against_itself(self, side: int) -> MapScorer:
        """Scores motions of the source (0) or the target (1) within the same map."""
        scorer = copy(self)
        scorer._source = scorer._target = (self._source, self._target)[side]
        if self._infinite:
            scorer._infinite_lines = [self._infinite_lines[side]] * 2
        else:
            scorer._grids, scorer._occupancies = [self._grids[side]] * 2, [self._occupancies[side]] * 2
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
            return self._explained(single, self._source, self._target)
        sides = self._explained_sides(single, sample)
        expected = torch.full_like(sides[0], min(len(self._source.weight), len(self._target.weight)))
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
            occupancy.coverage(MovedLines.of(motion, side.lines))[0] > _MIN_COVERAGE
            for occupancy, motion, side in zip(
                reversed(self._occupancies), (single, single.inverse()), (self._source, self._target), strict=True
            )
        ]
        return covered[0].nonzero()[:, 0], covered[1].nonzero()[:, 0]

    def stand_out(self, pose: Pose) -> tuple[float, float, float]:
        """The score of a pose, how far it lies above that of the same pose shifted, and how many lines that explains.

        The second is in standard deviations of the scores of many shifts, the third a mean over them: what the maps
        explain by chance.
        """
        shifts = pose_shifts(str(pose.translation.device))
        shifted = Pose(pose.rotation.expand(len(shifts), 3, 3), pose.translation + shifts)
        explained = self.explained(shifted, COMPARED_LINES)
        scores, chance = self.score(explained), explained.lines[1:].mean()
        own = self.scores(shifted[:1])[0] if self._is_sampled else scores[0]
        above = (own - scores[1:].mean()) / (scores[1:].std() + MIN_DEVIATION)
        return float(own), float(above), float(chance)

    def _rough_scores(self, poses: Pose) -> Float[Tensor, " h"]:
        """The score on some lines of each map; of infinite lines, on some of the source against all of the target."""
        source = self._source.sample(self._settings.screening_lines)
        if self._infinite:
            return self._explained_infinite(poses, source, 1, INFINITE_LINES)
        target = self._target.sample(self._settings.screening_lines)
        sampled = min(len(source.weight), len(target.weight)) / min(len(self._source.weight), len(self._target.weight))
        return self.score(self._explained(poses, source, target), sampled * self._settings.score_prior)

    def score(self, explained: Explained, prior: float | None = None) -> Float[Tensor, " h"]:
        """The score that follows from explained and expected lines."""
        prior = self._settings.score_prior if prior is None else prior
        return explained.lines.square() / (explained.expected + prior)

    def _explained(self, poses: Pose, source: _WeightedLines, target: _WeightedLines) -> Explained:
        size = max(1, _POSE_LINES // max(1, len(source.weight) + len(target.weight)))
        blocks = [poses[start : start + size] for start in range(0, max(1, poses.rotation.shape[0]), size)]
        sums = [self._sums(block, source, target) for block in blocks]
        return Explained(*(torch.cat(side) for side in zip(*sums, strict=True)))

    def _sums(self, poses: Pose, source: _WeightedLines, target: _WeightedLines) -> tuple[Tensor, ...]:
        explained, expected = [], []
        for moved, motion, other in ((source, poses, 1), (target, poses.inverse(), 0)):
            lines = MovedLines.of(motion, moved.lines)
            fit = (1 - self._grids[other].misfit(lines)).clamp_min_(0)
            covered = torch.maximum(self._occupancies[other].coverage(lines), fit)
            explained.append(fit @ moved.weight)
            expected.append(covered @ moved.weight)
        return *explained, *expected

    @property
    def _is_sampled(self) -> bool:
        """Whether some infinite lines stand for others."""
        return self._infinite and max(len(self._source.weight), len(self._target.weight)) > INFINITE_LINES

    def _explained_sides(self, poses: Pose, sample: int) -> tuple[Float[Tensor, " h"], Float[Tensor, " h"]]:
        """Explained lines of both infinite maps; one comparison tells both where no line has to stand for others."""
        if self._is_sampled:
            first = self._explained_infinite(poses, self._source, 1, sample)
            return first, self._explained_infinite(poses.inverse(), self._target, 0, sample)
        source, target = self._infinite_lines[1].misfits(poses, self._source.lines)
        return (1 - source).clamp_min_(0).sum(-1), (1 - target).clamp_min_(0).sum(-1)

    def _explained_infinite(
        self, poses: Pose, moved: _WeightedLines, other: int, sample: int
    ) -> Float[Tensor, " h"]:  # fmt: skip
        """Explained lines of an infinite map; some of its lines stand for all of it."""
        misfit = self._infinite_lines[other].misfit(poses, moved.sample(sample).lines)
        return (1 - misfit).clamp_min_(0).mean(-1) * len(moved.weight)


@dataclass(frozen=True, eq=False)
class _WeightedLines:
    lines: AnchoredLines
    weight: Float[Tensor, " n"]

    def sample(self, count: int) -> _WeightedLines:
        """At most ``count`` lines, spread evenly."""
        total = len(self.weight)
        count = min(count, total)
        rows = torch.arange(count, device=self.weight.device) * total // max(1, count)
        return _WeightedLines(self.lines[rows], self.weight[rows])


def _weights(lines: AnchoredLines, bundle: InlierThreshold) -> Float[Tensor, " n"]:
    """One over the number of lines in the bundle of each line, scaled to a mean of one."""
    if lines.half_length is None:
        return torch.ones_like(lines.anchor[:, 0])
    identity = Pose.identity(1, dtype=torch.float32, device=str(lines.anchor.device))
    blocks = torch.arange(len(lines), device=lines.anchor.device).split(max(1, 8 * BLOCK_ENTRIES // len(lines)))
    sizes = torch.cat([pair_residuals(identity, lines[rows], lines, bundle)[0].lt_(1).sum(1) for rows in blocks])
    weight = 1 / sizes.clamp_min(1)
    return weight / weight.mean()


@lru_cache(maxsize=8)
def pose_shifts(device: str) -> Float[Tensor, "s 3"]:
    """None, and then the same shifts every time, in all directions."""
    generator = torch.Generator().manual_seed(0)
    direction = normalize(torch.randn(_SHIFTS, 3, generator=generator, dtype=torch.float64), dim=-1)
    low, high = _SHIFT_RANGE
    shifts = direction * torch.linspace(low, high, _SHIFTS, dtype=torch.float64)[:, None]
    return torch.cat([torch.zeros_like(shifts[:1]), shifts]).to(device)
