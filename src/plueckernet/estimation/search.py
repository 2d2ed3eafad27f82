"""The search for the pose, round after round, until a candidate is clear."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch

from plueckernet.estimation.assessment import Assessment, assess
from plueckernet.estimation.candidates import Candidates, select_candidates
from plueckernet.estimation.evidence import gather_evidence
from plueckernet.estimation.hypotheses import propose_poses
from plueckernet.estimation.judgement import Calibration
from plueckernet.estimation.map_parts import part_matches
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.places import PLACE_LINES, RANKING_LINES, has_places, probable_places
from plueckernet.estimation.pose_family import pose_family
from plueckernet.estimation.ransac import Hypotheses
from plueckernet.estimation.refinement import RefinedCandidate, complete_refinement, refine_candidates
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.pose import Pose, stacked
from plueckernet.stages import StageClock


class PoseSearch:
    """Proposes, verifies, refines and weighs poses of two maps; every round adds to those before."""

    def __init__(
        self,
        maps: MapPair,
        matches: Matches,
        calibration: Calibration,
        settings: RegistrationSettings = RegistrationSettings(),
        stage: StageClock | None = None,
        match: Callable[[MapPair], Matches] | None = None,
    ) -> None:
        """``match`` gives the matches of other maps, to look for a small map in places of a large one."""
        self._maps, self._matches, self._calibration = maps, matches, calibration
        self._settings, self._stage, self._match = settings, stage or StageClock(), match
        self._match_scorer = maps.match_scorer(matches.source, matches.target)
        self._scored_matches = [(self._match_scorer, matches)]  # of the maps, later of their parts, too
        self._map_scorer = MapScorer(
            maps.source, maps.target, maps.threshold, settings.verification, (maps.all_source, maps.all_target)
        )
        self._noise = settings.known_noise(maps)
        self._presence = 0.0  # probability that a candidate of the rounds so far is right
        self._crowd = 0.0  # mean verification score of other hypotheses

    def run(self, seed: int = 0, given: Sequence[Pose] = ()) -> Assessment:
        """The candidates after as many rounds as it takes; given normalized poses compete with them."""
        assessment, judgement = Assessment.nothing(), self._settings.judgement
        enough = max(judgement.clear_confidence, judgement.min_confidence)
        for assessment in self._rounds(seed, self._refined(given) if given else ()):
            if assessment.weighing.confidence >= enough:
                break
            enough = judgement.min_confidence  # after the first round, in which a repeated place may hide another
        return self._completed(self._with_family(assessment))

    def around(self, pose: Pose, seed: int = 0) -> Assessment:
        """A normalized pose, refined and put first; the candidates of one round compete with it."""
        with self._stage("refine"):
            given = self._refined([pose])
        if not given:
            return Assessment.nothing()
        assessment = next(self._rounds(seed, given))
        return self._completed(assessment.preferring(given[0].refinement))

    def weighed(self, poses: Sequence[Pose]) -> Assessment:
        """Given normalized poses alone, refined and compared with each other."""
        return self._assessed(self._refined(poses))

    def _with_family(self, assessment: Assessment) -> Assessment:
        """With all poses that a symmetry of either map makes exchangeable with the best one."""
        if assessment.weighing.presence < self._settings.judgement.min_confidence:
            return assessment
        poses = stacked([candidate.refinement.pose for candidate in assessment.candidates])
        with self._stage("judge"):
            family = pose_family(poses[0], poses[1:], self._maps, self._map_scorer, self._settings.family)
            if len(family) == 1:
                return assessment
            members = [family.poses[row] for row in range(1, len(family))]
            return self._assessed(self._refined(members, assessment.refined)).exchangeable(len(family))

    def _rounds(self, seed: int, earlier: Sequence[RefinedCandidate] = ()) -> Iterator[Assessment]:
        refined = list(earlier)
        rounds = propose_poses(
            self._maps,
            self._match_scorer,
            self._matches.probability,
            self._settings.hypotheses,
            seed,
            self._matched_parts(),
        )
        for hypotheses in self._timed(itertools.chain(rounds, self._from_places(seed))):
            with self._stage("verify"):
                candidates = self._candidates(hypotheses)
            with self._stage("refine"):
                refined = self._refined(candidates.poses, refined)
            with self._stage("judge"):
                self._crowd = max(self._crowd, candidates.crowd)
                assessment = self._assessed(refined)
            yield assessment

    def _matched_parts(self) -> Iterator[tuple[RowScorer, Matches]]:
        """The matches of parts of the maps, which later tell how far a pose agrees with the matcher."""
        if self._match is None or has_places(self._maps):  # parts of a large map are still much too large
            return
        for matches in part_matches(self._maps, self._settings.normalize, self._match):
            self._scored_matches.append((self._maps.match_scorer(matches.source, matches.target), matches))
            yield self._scored_matches[-1]

    def _timed(self, rounds: Iterator[Hypotheses]) -> Iterator[Hypotheses]:
        while True:
            with self._stage("estimate"):
                hypotheses = next(rounds, None)
            if hypotheses is None:
                return
            yield hypotheses

    def _from_places(self, seed: int) -> Iterator[Hypotheses]:
        """Poses of a small map in places of a large one, the most probable first; nothing of maps of like extents."""
        if self._match is None or self._presence >= self._settings.judgement.min_confidence:
            return
        ranking, settings = (
            replace(self._settings, max_lines=min(count, self._settings.max_lines))
            for count in (RANKING_LINES, PLACE_LINES)
        )
        poses: list[tuple[float, Pose]] = []
        for source, target in probable_places(self._maps, ranking.normalize, self._match):
            maps = settings.normalize(source, target)
            search = PoseSearch(maps, self._match(maps), self._calibration, settings)
            assessment = next(search._rounds(seed))
            for entry in assessment.candidates:
                pose = self._maps.normalized_pose(maps.original_pose(entry.refinement.pose))
                poses.append((entry.probability, pose))
            if assessment.weighing.confidence >= settings.judgement.clear_confidence:
                break
        if poses:
            poses.sort(key=lambda entry: -entry[0])
            batch = stacked([pose for _, pose in poses])
            yield Hypotheses(batch, torch.arange(len(poses), 0, -1).to(batch.rotation), len(poses), len(poses))

    def _assessed(self, refined: Sequence[RefinedCandidate]) -> Assessment:
        evidence = gather_evidence(refined, self._crowd, self._maps, self._scored_matches, self._map_scorer)
        assessment = assess(refined, evidence, self._calibration)
        self._presence = assessment.weighing.presence
        return assessment

    def _candidates(self, hypotheses: Hypotheses) -> Candidates:
        return select_candidates(
            hypotheses,
            self._match_scorer,
            self._map_scorer,
            self._settings.candidates,
            self._settings.refinement.noise,
        )

    def _refined(self, poses: Sequence[Pose], earlier: Sequence[RefinedCandidate] = ()) -> list[RefinedCandidate]:
        settings = self._settings
        return refine_candidates(
            poses,
            self._maps,
            self._map_scorer,
            self._noise,
            settings.refinement,
            settings.candidates.distinctness,
            earlier,
        )

    def _completed(self, assessment: Assessment) -> Assessment:
        """With the best candidate refined to convergence, on all lines."""
        if not assessment.candidates:
            return assessment
        with self._stage("refine"):
            best = assessment.candidates[0].refinement
            return assessment.completed(
                complete_refinement(best, self._maps, self._noise, self._settings.refinement)
            )  # fmt: skip
