"""How well poses of many pairs of maps explain whole maps: :mod:`plueckernet.estimation.verification`, batched."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.line_grid import BatchedLineGrid
from plueckernet.estimation.batched.lines import PaddedLines, max_entries, mean
from plueckernet.estimation.batched.partners import BatchedOccupancy, InfinitePartners
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.estimation.batched.residuals import Thresholds, pair_squares
from plueckernet.estimation.hull import MAX_LINE_RATIO, RAYS, VOLUME_EVIDENCE, Hull, MovedSide, SharedVolume
from plueckernet.estimation.verification import (
    COMPARED_LINES,
    INFINITE_LINES,
    MIN_DEVIATION,
    VerificationSettings,
    missing_lines,
    shifted_poses,
)
from plueckernet.geometry.pose import Pose


@dataclass(frozen=True, eq=False)
class BatchedExplained:
    """How many lines of either map poses explain, and how many are expected."""

    source: Float[Tensor, "b h"]
    target: Float[Tensor, "b h"]
    expected_source: Float[Tensor, "b h"]
    expected_target: Float[Tensor, "b h"]

    @property
    def lines(self) -> Float[Tensor, "b h"]:
        """Explained lines, averaged over the maps."""
        return (self.source + self.target) / 2

    @property
    def expected(self) -> Float[Tensor, "b h"]:
        """Expected lines, averaged over the maps."""
        return (self.expected_source + self.expected_target) / 2

    @property
    def fraction(self) -> Float[Tensor, "b h"]:
        """Explained over expected lines of both maps."""
        return self.lines / self.expected.clamp_min(1e-6)

    def deficit(self, fraction: Float[Tensor, "b 1"]) -> Float[Tensor, "b h"]:
        """How many lines fewer poses explain than if they explained a given fraction, in standard deviations."""
        return missing_lines(fraction.clamp_max(1.0), self.fraction, self.expected)


@dataclass(frozen=True, eq=False)
class _Side:
    lines: PaddedLines  # in single precision
    weight: Float[Tensor, "b n"]  # zero for padding
    partners: InfinitePartners | BatchedLineGrid
    occupancy: BatchedOccupancy | None  # None for infinite lines
    hull: Hull | None  # likewise

    def of_pairs(self, rows: Int[Tensor, " r"]) -> _Side:
        """Of some pairs of maps, each as often as it is asked for."""
        occupancy = None if self.occupancy is None else self.occupancy.of_pairs(rows)
        hull = None if self.hull is None else Hull(self.hull.normal[rows], self.hull.offset[rows])
        return _Side(self.lines.maps(rows), self.weight[rows], self.partners.of_pairs(rows), occupancy, hull)


class BatchedMapScorer:
    """Scores poses on both maps of each pair."""

    def __init__(self, maps: BatchedMaps, settings: VerificationSettings = VerificationSettings()) -> None:
        self._settings = settings
        self._sides = tuple(_side(side.single, maps, settings) for side in maps.sides)

    def against_itself(self, side: int) -> BatchedMapScorer:
        """Scores motions of the sources (0) or the targets (1) within the same map."""
        scorer = copy(self)
        scorer._sides = (self._sides[side],) * 2
        return scorer

    def scores(self, poses: Pose) -> Float[Tensor, "b h"]:
        """Number of explained lines times the explained fraction, for each pose."""
        return self.score(self.explained(poses))

    def score(self, explained: BatchedExplained) -> Float[Tensor, "b h"]:
        """The score that follows from explained and expected lines."""
        return explained.lines.square() / (explained.expected + self._settings.score_prior)

    def compared_scores(self, poses: Pose) -> Float[Tensor, "b h"]:
        """The same, less precise for large maps of infinite lines, to compare many poses with each other."""
        return self.score(self.explained(poses, COMPARED_LINES))

    def explained(self, poses: Pose, sample: int = INFINITE_LINES) -> BatchedExplained:
        """How many lines each pose explains, and how many are expected; ``sample`` lines of larger maps tell."""
        single, (source, target) = poses.to(torch.float32), self._sides
        if source.occupancy is None:
            sampled = torch.maximum(source.lines.count, target.lines.count) > INFINITE_LINES
            limit = torch.where(sampled, sample, INFINITE_LINES)
            most = int(limit.max())  # of the maps of a batch, so that none is padded to more
            first, second = (
                _explained_infinite(motion, moved.lines.sample(most, limit), moved.lines.count, other)
                for motion, moved, other in ((single, source, target), (single.inverse(), target, source))
            )
            least = torch.minimum(source.lines.count, target.lines.count)[:, None].expand_as(first).float()
            return BatchedExplained(first, second, least, least)
        return self._explained(single, source.lines, target.lines, (source.weight, target.weight))

    def rough_scores(self, poses: Pose) -> Float[Tensor, "b h"]:
        """The score on some lines of each map; of infinite lines, on some of the source against all of the target."""
        source, target = self._sides
        count, single = self._settings.screening_lines, poses.to(torch.float32)
        some = source.lines.sample(count)
        if source.occupancy is None:
            return _explained_infinite(single, some, some.count, target)
        others = target.lines.sample(count)
        weights = tuple(_sampled(side, count) for side in self._sides)
        explained = self._explained(single, some, others, (weights[0], weights[1]))
        least = [
            torch.minimum(*pair) for pair in ((some.count, others.count), (source.lines.count, target.lines.count))
        ]
        prior = self._settings.score_prior * (least[0] / least[1])[:, None]
        return explained.lines.square() / (explained.expected + prior)

    def of_pairs(self, rows: Int[Tensor, " r"]) -> BatchedMapScorer:
        """Scores poses on some pairs of maps, each as often as it is asked for."""
        scorer = copy(self)
        scorer._sides = tuple(side.of_pairs(rows) for side in self._sides)
        return scorer

    def stand_out(
        self, poses: Pose, scores: Float[Tensor, "b h"], mask: Bool[Tensor, "b h"]
    ) -> tuple[Float[Tensor, "b h"], Float[Tensor, "b h"]]:
        """How far scores lie above those of shifted poses, and how many lines these explain; zero where no mask is.

        Most pairs of maps have one candidate and some have many: only poses that the mask selects are shifted.
        """
        pair, column = mask.nonzero().mT
        result = scores.new_zeros(2, *scores.shape)
        if not len(pair):
            return result[0], result[1]
        shifted = shifted_poses(poses[pair, column])[:, 1:]  # the first is the pose itself
        explained = self.of_pairs(pair).explained(shifted, COMPARED_LINES)
        chance = self.score(explained)
        result[0, pair, column] = (scores[pair, column] - chance.mean(-1)) / (chance.std(-1) + MIN_DEVIATION)
        result[1, pair, column] = explained.lines.mean(-1)
        return result[0], result[1]

    def shared_volume(self, poses: Pose, mask: Bool[Tensor, "b h"]) -> SharedVolume:
        """The lines in the volume that both maps fill; zero where no mask is."""
        result = poses.translation.new_zeros(len(VOLUME_EVIDENCE), *mask.shape)
        size = max(1, max_entries(mask.device) // (RAYS * max(side.lines.mask.shape[1] for side in self._sides)))
        counts = torch.stack([side.lines.count for side in self._sides])
        alike = counts.amax(0) <= MAX_LINE_RATIO * counts.amin(0)
        for rows in (mask & alike[:, None]).nonzero().split(size):
            pair, column = rows.mT
            scorer, motion = self.of_pairs(pair), poses[pair, column]
            sides = scorer._moved(0, motion), scorer._moved(1, motion.inverse())
            if sides[0] is not None and sides[1] is not None:
                volume = SharedVolume.of(sides[0], sides[1])
                result[:, pair, column] = torch.stack([getattr(volume, name) for name in VOLUME_EVIDENCE])
        return SharedVolume(*result)

    def _moved(self, side: int, poses: Pose) -> MovedSide | None:
        """The lines of the source (0) or the target (1), moved by one pose of each pair; None of infinite ones."""
        lines, other, single = self._sides[side].lines, self._sides[1 - side], poses.to(torch.float32)
        if lines.half_length is None or other.hull is None or other.occupancy is None:
            return None
        each = Pose(single.rotation[:, None], single.translation[:, None])
        fit = (1 - other.partners.misfit(each, lines)).clamp_min(0)
        segments = (value.double() for value in (lines.anchor, lines.direction, lines.half_length))
        rows = fit[:, 0], other.occupancy.coverage(each, lines)[:, 0], other.hull.coverage(poses, *segments)
        return MovedSide(lines.count.double(), *(row.double() * lines.mask for row in (lines.half_length, *rows)))

    def _explained(
        self, poses: Pose, source: PaddedLines, target: PaddedLines, weights: tuple[Tensor, Tensor]
    ) -> BatchedExplained:
        """Of segments, in blocks of poses."""
        rows = len(source.mask) * max(source.mask.shape[1], target.mask.shape[1])
        size = max(1, max_entries(source.mask.device) // (4 * rows))
        blocks = zip(poses.rotation.split(size, 1), poses.translation.split(size, 1), strict=True)
        sums = [self._sums(Pose(*block), (source, target), weights) for block in blocks]
        return BatchedExplained(*(torch.cat(side, 1) for side in zip(*sums, strict=True)))

    def _sums(
        self, poses: Pose, lines: tuple[PaddedLines, PaddedLines], weights: tuple[Tensor, Tensor]
    ) -> list[Tensor]:
        explained, expected = [], []
        for moved, weight, motion, other in zip(
            lines, weights, (poses, poses.inverse()), reversed(self._sides), strict=True
        ):
            fit = (1 - other.partners.misfit(motion, moved)).clamp_min_(0)
            coverage = other.occupancy.coverage(motion, moved) if other.occupancy else fit
            explained.append((fit @ weight[..., None])[..., 0])
            expected.append((torch.maximum(coverage, fit) @ weight[..., None])[..., 0])
        return explained + expected


def _side(lines: PaddedLines, maps: BatchedMaps, settings: VerificationSettings) -> _Side:
    if lines.half_length is None:
        return _Side(lines, lines.mask.float(), InfinitePartners(lines, maps.distance, maps.angle), None, None)
    partners = BatchedLineGrid(lines, maps.distance, maps.angle)
    bundle = Thresholds.of(settings.bundle_width * maps.distance, maps.angle)
    occupancy, arm = BatchedOccupancy(lines, settings.cell_size), lines.half_length[..., None] * lines.direction
    ends = torch.cat([lines.anchor - arm, lines.anchor + arm], 1).double()
    return _Side(lines, _weights(lines, bundle), partners, occupancy, Hull.of(ends, lines.mask.repeat(1, 2)))


def _weights(lines: PaddedLines, bundle: Thresholds) -> Float[Tensor, "b n"]:
    """One over the number of lines in the bundle of each line, scaled to a mean of one."""
    identity = Pose.identity(len(lines.mask), dtype=torch.float32, device=str(lines.mask.device))
    close = (pair_squares(identity, lines, lines, bundle) < 1) & lines.mask[:, None]
    weight = 1 / close.sum(2).clamp_min(1)
    return (weight / mean(weight, lines.mask)[:, None]).masked_fill(~lines.mask, 0)


def _sampled(side: _Side, count: int) -> Float[Tensor, "b k"]:
    """Weights of the sampled lines."""
    lines = PaddedLines(
        side.lines.direction, side.lines.moment, side.lines.anchor, side.weight, side.lines.mask
    ).sample(count)  # weights in place of lengths
    return torch.zeros_like(lines.anchor[..., 0]) if lines.half_length is None else lines.half_length * lines.mask


def _explained_infinite(poses: Pose, moved: PaddedLines, count: Tensor, other: _Side) -> Float[Tensor, "b h"]:
    """Explained lines of an infinite map; some of its lines stand for all of it."""
    fit = (1 - other.partners.misfit(poses, moved)).clamp_min_(0)
    return mean(fit, moved.mask[:, None].expand_as(fit)) * count[:, None]
