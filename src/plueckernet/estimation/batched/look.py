"""One round of the search on many pairs of maps: matches, hypotheses, candidates, refinement and evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.candidates import BatchedCandidates, select_candidates
from plueckernet.estimation.batched.close_pairs import PosedMaps
from plueckernet.estimation.batched.distinct import close_poses, compacted
from plueckernet.estimation.batched.hypotheses import propose
from plueckernet.estimation.batched.lines import take_rows
from plueckernet.estimation.batched.matching import BatchedMatches, MatchBatch, match_longest
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.estimation.batched.refinement import BatchedRefinement, refine_poses
from plueckernet.estimation.batched.residuals import Thresholds
from plueckernet.estimation.batched.scoring import BatchedRowScorer
from plueckernet.estimation.batched.verification import BatchedMapScorer
from plueckernet.estimation.distinct import Distinctness
from plueckernet.estimation.settings import RegistrationSettings
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
    deficit: Float[Tensor, "b c"]
    agreement: Float[Tensor, "b c"]
    inliers: Int[Tensor, "b c"]
    directions: Float[Tensor, "b c 3 3"]  # sum of outer products over the inliers, for the lateral support
    crowd: Float[Tensor, " b"]
    regular: Bool[Tensor, " b"]  # False: a motion was not determined; to be registered by itself

    def of_columns(self, columns: Int[Tensor, " b"]) -> Pose:
        """The pose of one candidate of each pair of maps."""
        pair = torch.arange(len(columns), device=columns.device)
        return Pose(self.poses.rotation[pair, columns], self.poses.translation[pair, columns])

    def on_cpu(self) -> LookedAt:
        """The same, for Python."""
        return LookedAt(**{field.name: getattr(self, field.name).to("cpu") for field in fields(self)})


class BatchedSearch:
    """Proposes, verifies, refines and weighs poses of many pairs of maps."""

    def __init__(self, maps: BatchedMaps, settings: RegistrationSettings, stage: StageClock) -> None:
        self.maps, self._settings, self._stage = maps, settings, stage
        with self.timed("verify"):
            self.map_scorer = BatchedMapScorer(maps, settings.verification)

    def first(self, match: MatchBatch, lines: int, limit: int, seed: int) -> tuple[BatchedMatches, LookedAt]:
        """The first round: the ``limit`` best matches of the longest ``lines``, and the candidates that follow."""
        settings = self._settings
        with self.timed("match"):
            matches = match_longest(self.maps, match, lines, limit)
        with self.timed("estimate"):
            scorer = BatchedRowScorer(self.maps, matches)
            hypotheses = propose(scorer, settings.hypotheses, seed)
        with self.timed("verify"):
            candidates = select_candidates(
                hypotheses, scorer, self.map_scorer, settings.candidates, settings.refinement
            )  # fmt: skip
        with self.timed("refine"):
            refined, index = self._refined(candidates)
        with self.timed("judge"):
            return matches, self._evidence(candidates, refined, index, scorer)

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

    def _refined(self, candidates: BatchedCandidates) -> tuple[BatchedRefinement, Int[Tensor, "2 q"]]:
        """The candidates refined briefly; of each, the pair of maps and the column."""
        settings, index = self._settings.refinement, candidates.mask.nonzero().mT
        brief = replace(
            settings, iterations=settings.candidate_iterations, final_iterations=settings.candidate_final_iterations
        )
        pair, column = index
        poses = Pose(candidates.poses.rotation[pair, column], candidates.poses.translation[pair, column])
        maps = PosedMaps(self.maps.source.maps(pair), self.maps.target.maps(pair))
        return refine_poses(poses, maps, Thresholds.of(self.maps.distance[pair], self.maps.angle), brief), index

    def _evidence(
        self,
        candidates: BatchedCandidates,
        refined: BatchedRefinement,
        index: Int[Tensor, "2 q"],
        scorer: BatchedRowScorer,
    ) -> LookedAt:
        """The facts of :mod:`plueckernet.estimation.evidence` for each candidate."""
        pair, column = index
        poses = Pose(candidates.poses.rotation.clone(), candidates.poses.translation.clone())
        poses.rotation[pair, column], poses.translation[pair, column] = (
            refined.poses.rotation,
            refined.poses.translation,
        )
        supported, regular = torch.zeros_like(candidates.mask), torch.ones_like(candidates.mask)
        supported[pair, column], regular[pair, column] = refined.supported, refined.determined
        inliers, directions = _inlier_directions(refined, index, self.maps, candidates.mask.shape[1])
        mask = _new(candidates.poses, poses, supported, self.maps, self._settings.candidates.distinctness)
        poses, mask, order = compacted(poses, mask)
        explained = self.map_scorer.explained(poses)
        score = self.map_scorer.score(explained)
        stand_out, chance_lines = self.map_scorer.stand_out(poses, score)
        best = score.masked_fill(~mask, -torch.inf).argmax(1, keepdim=True)
        return LookedAt(
            poses,
            mask,
            score,
            stand_out,
            chance_lines,
            explained.fraction,
            explained.source / (explained.expected_source + 0.5),
            explained.target / (explained.expected_target + 0.5),
            explained.deficit(explained.fraction.gather(1, best)),
            scorer.agreement(poses),
            inliers.gather(1, order),
            take_rows(directions.flatten(2), order).unflatten(2, (3, 3)),
            candidates.crowd,
            regular.all(1),
        )


def _new(
    starts: Pose, poses: Pose, supported: Bool[Tensor, "b c"], maps: BatchedMaps, settings: Distinctness
) -> Bool[Tensor, "b c"]:
    """Which candidates neither started nor ended at the pose of one before."""
    known = close_poses(starts, poses, maps.distance, maps.angle, settings)
    known |= close_poses(poses, poses, maps.distance, maps.angle, settings)
    new = torch.zeros_like(supported)
    for column in range(supported.shape[1]):
        repeated = (known[:, column] & new).any(1)
        new[:, column] = supported[:, column] & ~repeated
    return new


def _inlier_directions(
    refined: BatchedRefinement, index: Int[Tensor, "2 q"], maps: BatchedMaps, columns: int
) -> tuple[Int[Tensor, "b c"], Float[Tensor, "b c 3 3"]]:
    """The number of inliers of each candidate, and the sum of the outer products of their directions."""
    pair, column = index
    direction = take_rows(maps.target.direction[pair], refined.rows[1]) * refined.inlier[..., None]
    inliers = torch.zeros(len(maps), columns, dtype=torch.long, device=pair.device)
    inliers[pair, column] = refined.inlier.sum(-1)
    products = direction.new_zeros(len(maps), columns, 3, 3)
    products[pair, column] = direction.mT @ direction
    return inliers, products
