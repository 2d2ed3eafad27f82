"""Rounds of the search on many pairs of maps: matches, hypotheses, candidates, refinement and evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.candidates import BatchedCandidates, select_candidates
from plueckernet.estimation.batched.close_pairs import PosedMaps
from plueckernet.estimation.batched.distinct import close_poses, compacted
from plueckernet.estimation.batched.hypotheses import propose
from plueckernet.estimation.batched.lines import of_pairs, take_rows
from plueckernet.estimation.batched.matching import BatchedMatches, MatchBatch, match_longest
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.estimation.batched.refinement import BatchedRefinement, refine_poses
from plueckernet.estimation.batched.residuals import Thresholds
from plueckernet.estimation.batched.scoring import BatchedRowScorer
from plueckernet.estimation.batched.verification import BatchedMapScorer
from plueckernet.estimation.distinct import Distinctness
from plueckernet.estimation.evidence import MATCH_EVIDENCE, MatchSupport, coincide_whole, rotation_deviation
from plueckernet.estimation.settings import RegistrationSettings, RoundSettings
from plueckernet.estimation.verification import shifted_poses
from plueckernet.geometry.pose import Pose
from plueckernet.stages import StageClock


@dataclass(frozen=True, eq=False)
class LookedAt:
    """The refined candidates of each pair of maps and the evidence for each."""

    poses: Pose  # (b, c)
    mask: Bool[Tensor, "b c"]  # False: no candidate, or one that ended at the pose of another
    score: Float[Tensor, "b c"]
    stand_out: Float[Tensor, "b c"]
    chance_lines: Float[Tensor, "b c"]
    explained_fraction: Float[Tensor, "b c"]
    source_explained: Float[Tensor, "b c"]
    target_explained: Float[Tensor, "b c"]
    expected_source: Float[Tensor, "b c"]
    expected_target: Float[Tensor, "b c"]
    rotation_deviation: Float[Tensor, "b c"]
    matcher_agreement: Float[Tensor, "b c"]
    matched_lines: Float[Tensor, "b c"]
    chance_matches: Float[Tensor, "b c"]
    inliers: Int[Tensor, "b c"]
    whole_lines: Int[Tensor, "b c"]
    volume_lines: Float[Tensor, "b c"]
    volume_explained: Float[Tensor, "b c"]
    volume_covered: Float[Tensor, "b c"]
    directions: Float[Tensor, "b c 3 3"]  # sum of outer products over the inliers, for the lateral support
    crowd: Float[Tensor, " b"]
    regular: Bool[Tensor, " b"]  # False: a motion was not determined; to be registered by itself

    def of_columns(self, columns: Int[Tensor, " b"]) -> Pose:
        """The pose of one candidate of each pair of maps."""
        pair = torch.arange(len(columns), device=columns.device)
        return self.poses[pair, columns]

    def on_cpu(self) -> LookedAt:
        """The same, for Python."""
        return LookedAt(**{field.name: getattr(self, field.name).to("cpu") for field in fields(self)})


@dataclass(frozen=True, eq=False)
class Look:
    """What one round found in each pair of maps, and the matches it came from."""

    matches: BatchedMatches
    looked_at: LookedAt

    def of_pairs(self, rows: Int[Tensor, " r"]) -> Look:
        """Of some pairs of maps."""
        some: Look = of_pairs(self, rows)
        return some


class BatchedSearch:
    """Proposes, verifies, refines and weighs poses of many pairs of maps."""

    def __init__(self, maps: BatchedMaps, settings: RegistrationSettings, stage: StageClock) -> None:
        self.maps, self._settings, self._stage = maps, settings, stage
        with self.timed("verify"):
            self.map_scorer = BatchedMapScorer(maps, settings.verification)

    def of_pairs(self, rows: Int[Tensor, " r"]) -> BatchedSearch:
        """The search in some pairs of maps."""
        return BatchedSearch(of_pairs(self.maps, rows), self._settings, self._stage)

    def look(
        self,
        match: MatchBatch,
        size: tuple[int, int],
        seed: int,
        settings: RoundSettings = RoundSettings(),
        earlier: Look | None = None,
    ) -> Look:
        """One round: as many matches as ``size`` says of as many of the longest lines, and the candidates that follow.

        The candidates and the matches of an earlier round take part.
        """
        with self.timed("match"):
            matches = match_longest(self.maps, match, *size)
        with self.timed("estimate"):
            scorer = BatchedRowScorer(self.maps, matches)
            hypotheses = propose(scorer, settings.hypotheses, seed)
        with self.timed("verify"):
            candidates = select_candidates(
                hypotheses, scorer, self.map_scorer, settings.candidates, self._settings.refinement
            )  # fmt: skip
        with self.timed("refine"):
            refined = self._refined(candidates)
        with self.timed("judge"):
            if earlier is None:
                return Look(matches, self._evidence(refined, candidates.crowd, [scorer]))
            before = earlier.looked_at
            scorers = [BatchedRowScorer(self.maps, earlier.matches), scorer]
            together = _Candidates.of(before).followed_by(refined)
            return Look(matches, self._evidence(together, torch.maximum(before.crowd, candidates.crowd), scorers))

    def completed(self, poses: Pose) -> BatchedRefinement:
        """A pose of each pair of maps, refined to convergence."""
        with self.timed("refine"):
            maps = PosedMaps(self.maps.source, self.maps.target)
            threshold = Thresholds.of(self.maps.distance, self.maps.angle)
            return refine_poses(poses, maps, threshold, self._settings.refinement)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """A stage; its end waits for the device."""
        with self._stage(name):
            yield
            if self.maps.unit.device.type == "cuda":
                torch.cuda.synchronize(self.maps.unit.device)

    def _refined(self, candidates: BatchedCandidates) -> _Candidates:
        """The candidates refined briefly."""
        settings, (pair, column) = self._settings.refinement, candidates.mask.nonzero().mT
        brief = replace(
            settings, iterations=settings.candidate_iterations, final_iterations=settings.candidate_final_iterations
        )
        starts, mask = candidates.poses, candidates.mask
        maps = PosedMaps(self.maps.source.maps(pair), self.maps.target.maps(pair))
        refined = refine_poses(
            starts[pair, column], maps, Thresholds.of(self.maps.distance[pair], self.maps.angle), brief
        )
        direction = take_rows(maps.target.direction, refined.rows[1]) * refined.inlier[..., None]
        whole = _are_whole(refined, maps, self.maps.distance[pair, None])

        def placed(values: Tensor, others: Tensor) -> Tensor:
            result = others.clone()
            result[pair, column] = values
            return result

        return _Candidates(
            starts,
            Pose(
                placed(refined.poses.rotation, starts.rotation), placed(refined.poses.translation, starts.translation)
            ),
            placed(refined.supported, torch.zeros_like(mask)),
            placed(refined.determined, torch.ones_like(mask)),
            placed(rotation_deviation(refined.covariance), torch.zeros_like(starts.rotation[..., 0, 0])),
            placed(refined.inlier.sum(-1), torch.zeros_like(mask, dtype=torch.long)),
            placed((refined.inlier & whole).sum(-1), torch.zeros_like(mask, dtype=torch.long)),
            placed(direction.mT @ direction, torch.zeros_like(starts.rotation)),
        )

    def _evidence(
        self, candidates: _Candidates, crowd: Float[Tensor, " b"], scorers: Sequence[BatchedRowScorer]
    ) -> LookedAt:
        """The facts of :mod:`plueckernet.estimation.evidence` for each candidate."""
        new = _is_new(candidates, self.maps, self._settings.candidates.distinctness)
        poses, mask, order = compacted(candidates.poses, new)
        explained = self.map_scorer.explained(poses)
        score = self.map_scorer.score(explained)
        stand_out, chance_lines = self.map_scorer.stand_out(poses, score, mask)
        support, volume = _match_support(poses, mask, scorers), self.map_scorer.shared_volume(poses, mask)
        return LookedAt(
            poses,
            mask,
            score,
            stand_out,
            chance_lines,
            explained.fraction,
            explained.source / (explained.expected_source + 0.5),
            explained.target / (explained.expected_target + 0.5),
            explained.expected_source,
            explained.expected_target,
            candidates.rotation_deviation.gather(1, order),
            support.matcher_agreement,
            support.matched_lines,
            support.chance_matches,
            candidates.inliers.gather(1, order),
            candidates.whole_lines.gather(1, order),
            *(volume.volume_lines, volume.volume_explained, volume.volume_covered),
            take_rows(candidates.directions.flatten(2), order).unflatten(2, (3, 3)),
            crowd,
            candidates.determined.all(1),
        )


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Candidates before and after they were refined."""

    starts: Pose  # (b, c)
    poses: Pose  # (b, c)
    supported: Bool[Tensor, "b c"]
    determined: Bool[Tensor, "b c"]
    rotation_deviation: Float[Tensor, "b c"]
    inliers: Int[Tensor, "b c"]
    whole_lines: Int[Tensor, "b c"]
    directions: Float[Tensor, "b c 3 3"]  # sum of outer products over the inliers

    @classmethod
    def of(cls, looked_at: LookedAt) -> _Candidates:
        """Those of an earlier round."""
        determined = looked_at.regular[:, None].expand_as(looked_at.mask)
        facts = (getattr(looked_at, name) for name in _FACTS)
        return _Candidates(looked_at.poses, looked_at.poses, looked_at.mask, determined, *facts)

    def followed_by(self, others: _Candidates) -> _Candidates:
        """These and then others."""
        starts, poses = (
            Pose(torch.cat([a.rotation, b.rotation], 1), torch.cat([a.translation, b.translation], 1))
            for a, b in ((self.starts, others.starts), (self.poses, others.poses))
        )
        names = ("supported", "determined", *_FACTS)
        return _Candidates(
            starts, poses, *(torch.cat([getattr(self, name), getattr(others, name)], 1) for name in names)
        )


_FACTS = ("rotation_deviation", "inliers", "whole_lines", "directions")  # of a candidate, that a later round keeps


def _are_whole(refined: BatchedRefinement, maps: PosedMaps, distance: Float[Tensor, "q 1"]) -> Bool[Tensor, "q p"]:
    """Which close pairs coincide from end to end; none of lines without ends."""
    source_half, target_half = maps.source.half_length, maps.target.half_length
    if source_half is None or target_half is None:
        return torch.zeros_like(refined.inlier)
    poses, (source, target) = refined.poses, refined.rows
    moved = take_rows(maps.source.anchor, source) @ poses.rotation.mT + poses.translation[:, None]
    along = ((take_rows(maps.target.anchor, target) - moved) * take_rows(maps.target.direction, target)).sum(-1)
    return coincide_whole(along, source_half.gather(1, source), target_half.gather(1, target), distance)


def _match_support(poses: Pose, mask: Bool[Tensor, "b c"], scorers: Sequence[BatchedRowScorer]) -> MatchSupport:
    """What the matches say about each pose that the mask selects; zero elsewhere."""
    pair, column = mask.nonzero().mT
    result = MatchSupport(*poses.translation.new_zeros(len(fields(MatchSupport)), *mask.shape))
    if not len(pair):
        return result
    shifted = shifted_poses(poses[pair, column])
    scores = torch.stack([scorer.of_pairs(pair).scores(shifted) for scorer in scorers])
    totals = torch.stack([scorer.matches.probability.sum(-1)[pair] for scorer in scorers])
    support = MatchSupport.of(scores, totals)
    for name in MATCH_EVIDENCE:
        getattr(result, name)[pair, column] = getattr(support, name).to(poses.translation)
    return result


def _is_new(candidates: _Candidates, maps: BatchedMaps, settings: Distinctness) -> Bool[Tensor, "b c"]:
    """Which candidates neither started nor ended at the pose of one before."""
    known = close_poses(candidates.starts, candidates.poses, maps.distance, maps.angle, settings)
    known |= close_poses(candidates.poses, candidates.poses, maps.distance, maps.angle, settings)
    new = torch.zeros_like(candidates.supported)
    for column in range(new.shape[1]):
        repeated = (known[:, column] & new).any(1)
        new[:, column] = candidates.supported[:, column] & ~repeated
    return new
