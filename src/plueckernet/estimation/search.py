"""The search for the pose, round after round, until a candidate is clear."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.assessment import AssessedCandidate, Assessment, assess, same_answer
from plueckernet.estimation.candidates import Candidates, CandidateSettings, select_candidates
from plueckernet.estimation.evidence import gather_evidence
from plueckernet.estimation.hypotheses import HypothesisSettings, match_free_hypotheses, propose_poses
from plueckernet.estimation.judgement import Calibration
from plueckernet.estimation.map_parts import MIN_PART_LINES, longest_matches, matches_of_rows, part_matches
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.noise import KnownNoise
from plueckernet.estimation.places import PLACE_LINES, RANKING_LINES, has_places, probable_places
from plueckernet.estimation.pose_family import pose_family
from plueckernet.estimation.ransac import Hypotheses
from plueckernet.estimation.refinement import RefinedCandidate, complete_refinement, refine_candidates
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.upright import propose_upright_poses
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, stacked
from plueckernet.geometry.upright import nearest_turn, tilt_cosine
from plueckernet.stages import StageClock

_OVERLAPS = 4  # of the best candidates, whose lines are matched by themselves if none is accepted
_DOUBTFUL_SCORE_RATIO = 0.2  # of the score of an accepted pose, of poses that may cast doubt on it: they overlap less
_FEWEST_MATCHES = 12  # that the best pose contradicts, from which on they may show another
_NEARLY_ALL = 0.9  # of the lines of the smaller map, explained by a pose that may be of a family though it is doubtful


@dataclass(frozen=True, eq=False)
class RegisteredMaps:
    """What a search found, and the maps in which it searched."""

    maps: MapPair
    matches: Matches
    assessment: Assessment
    scale: float | None = None  # by which the source was multiplied; None: it was not searched for
    covariance: Float[Tensor, "7 7"] | None = None  # of a similarity, in the frame and unit of the target
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Matching:
    """How lines are matched, and what the evidence for a pose is then worth."""

    match: Callable[[MapPair], Matches]
    calibration: Calibration
    matches_parts: bool = True  # whether parts of the maps can be matched, too
    match_longest: Callable[[MapPair], Matches] | None = None  # of the longest lines, faster; None: as all others
    few_lines: int | None = None  # up to which maps are matched at once; None: as many as the longest lines are


def search_pose(
    lines: tuple[LineSet, LineSet], matching: Matching, settings: RegistrationSettings, stage: StageClock, seed: int
) -> RegisteredMaps:
    """The rigid pose of two maps that have the same unit.

    Noisy maps have few inliers within a threshold that suits most maps. Where no pose is accepted, one with a wider
    threshold may be; of lines without ends, it may also tell which of several poses is right. The calibrations are
    fitted to the better of both.
    """
    with stage("prepare"):
        maps = settings.normalize(*lines)
        search = PoseSearch(maps, matching, settings, stage)
    registered = search.registered(search.run(seed))
    if registered.assessment.is_decided(settings.judgement.min_confidence, maps.are_infinite):
        return registered
    coarser = settings.coarser_than(maps)
    if coarser is None or not matching.matches_parts:  # a matcher that matches no parts may not be asked again
        return registered
    with stage("prepare"):
        search = PoseSearch(coarser.normalize(*lines), matching, coarser, stage)
    wider = search.registered(search.run_first(seed))
    return max(registered, wider, key=lambda result: result.assessment.weighing.confidence)


def pose_around(
    lines: tuple[LineSet, LineSet], matching: Matching, settings: RegistrationSettings, stage: StageClock, pose: Pose
) -> RegisteredMaps:
    """A given rigid pose, refined, among the candidates of one round."""
    with stage("prepare"):
        maps = settings.normalize(*lines)
        search = PoseSearch(maps, matching, settings, stage)
    return search.registered(search.around(maps.normalized_pose(pose)))


class PoseSearch:
    """Proposes, verifies, refines and weighs poses of two maps; every round adds to those before."""

    def __init__(
        self,
        maps: MapPair,
        matching: Matching,
        settings: RegistrationSettings = RegistrationSettings(),
        stage: StageClock | None = None,
    ) -> None:
        self._maps, self._matching, self._match = maps, matching, matching.match
        self._calibration = matching.calibration.where(settings.up is not None, maps.are_infinite)
        self._matches_parts = matching.matches_parts
        self._settings, self._stage = settings, stage or StageClock()
        self.matches = Matches.none()  # of the longest lines, if these suffice, or else of all
        self._all_matched = False
        self._scored_matches: list[tuple[RowScorer, Matches]] = []  # of the maps and of parts of them
        self._map_scorer = MapScorer(
            maps.source, maps.target, maps.threshold, settings.verification, (maps.all_source, maps.all_target)
        )
        self._noise = settings.known_noise(maps)
        self._presence = 0.0  # probability that a candidate of the rounds so far is right
        self._crowd = 0.0  # mean verification score of other hypotheses

    def registered(self, assessment: Assessment) -> RegisteredMaps:
        """The candidates with the maps and the matches."""
        return RegisteredMaps(self._maps, self.matches, assessment)

    def run(self, seed: int = 0, given: Sequence[Pose] = ()) -> Assessment:
        """The candidates after as many rounds as it takes; given normalized poses compete with them."""
        refined = self._refined(given) if given else ()
        searched = self._with_second_opinion(self._searched(seed, refined), seed)
        return self._completed(self._with_family(searched))

    def run_first(self, seed: int = 0) -> Assessment:
        """The candidates of the first rounds alone, and their family."""
        return self._completed(self._with_family(self.first(seed)))

    def _searched(self, seed: int, given: Sequence[RefinedCandidate] = ()) -> Assessment:
        judgement, look = self._settings.judgement, Assessment.nothing()
        for look in self._first_look(seed, given):
            if look.is_clear(judgement.longest_clear):
                return look
        rounds = self._timed(self._all_lines(seed))
        first = list(itertools.islice(rounds, 1))
        known = look.refined or given
        for look in self._rounds(iter(first), known):
            if look.is_clear(judgement.clear):
                return look
        assessment, closer = look, self._settings.closer_look
        for count, assessment in enumerate(self._rounds(itertools.chain(first, rounds), look.refined, closer)):
            # In the first round a repeated place may hide another.
            sure = assessment.weighing.confidence >= judgement.min_confidence
            if sure if count else assessment.is_clear(judgement.clear):
                return assessment
        return self._with_matched_overlaps(assessment)

    def _with_matched_overlaps(self, assessment: Assessment) -> Assessment:
        """The same candidates, after the lines that overlap under each of the best were matched by themselves.

        The lines outside of the overlap hide right matches from the matcher, which then disagrees with a right pose.
        """
        best: dict[int, Pose] = {}
        for entry in assessment.candidates:
            best.setdefault(entry.group, entry.refinement.pose)
        if not self._matches_parts or not best:
            return assessment
        with self._stage("match"):
            for pose in list(best.values())[:_OVERLAPS]:
                self._match_overlap(pose)
        with self._stage("judge"):
            return self._assessed(assessment.refined)

    def _match_overlap(self, pose: Pose) -> None:
        rows = self._map_scorer.overlap(pose)
        if min(map(len, rows)) < MIN_PART_LINES:
            return
        matches = matches_of_rows(self._maps, rows, self._match)
        if matches is not None:
            self._scored_matches.append((self._maps.match_scorer(matches.source, matches.target), matches))

    def first(self, seed: int = 0) -> Assessment:
        """The candidates of the first round, to compare searches with each other."""
        first, judgement = Assessment.nothing(), self._settings.judgement
        for first in self._first_look(seed):
            if first.is_clear(judgement.longest_clear):
                return first
        return next(self._rounds(self._all_lines(seed), first.refined))

    def around(self, pose: Pose, seed: int = 0) -> Assessment:
        """A normalized pose, refined and put first; the candidates of one round compete with it."""
        with self._stage("refine"):
            given = self._refined([pose])
        if not given:
            return Assessment.nothing()
        assessment = next(self._rounds(self._all_lines(seed), given))
        return self._completed(assessment.preferring(given[0].refinement))

    def weighed(self, poses: Sequence[Pose]) -> Assessment:
        """Given normalized poses alone, refined and compared with each other."""
        self._match_all_lines()
        return self._assessed(self._refined(poses))

    def _with_second_opinion(self, assessment: Assessment, seed: int) -> Assessment:
        """With other poses, where the accepted one explains little; as it was, if none of them makes it doubtful.

        In a place that repeats itself, a wrong pose under which the maps overlap more takes most of the matches, and
        the search ends. About poses that many lines hold, and about those that would make it doubtful if the matcher
        agreed with them as much, the matcher is asked again: the lines that overlap under either pose are matched by
        themselves.
        """
        settings = self._settings
        if not self._matches_parts or not assessment.may_hide_another(settings.judgement, self._maps.are_infinite):
            return assessment
        best, refined = assessment.candidates[0].refinement, assessment.refined
        selection = replace(settings.candidates, min_candidate_score_ratio=_DOUBTFUL_SCORE_RATIO)
        for hypotheses in self._timed(self._without_best(best.pose, seed)):
            with self._stage("verify"):
                candidates = self._candidates(hypotheses, settings.constrained(selection))
            with self._stage("refine"):
                refined = tuple(self._refined(candidates.poses, refined))
        with self._stage("judge"):
            doubts = self._assessed(refined).doubts(best, settings.judgement, self._calibration, settings.family)
        if not doubts:
            return assessment
        with self._stage("match"):
            for pose in (best.pose, *doubts[:_OVERLAPS]):
                self._match_overlap(pose)
        with self._stage("judge"):
            return self._assessed(refined)

    def _without_best(self, best: Pose, seed: int) -> Iterator[Hypotheses]:
        """Poses of the matches that the best pose contradicts, and poses without matches."""
        contradicted = self.matches.of_rows((self._match_scorer.fit(stacked([best]))[0] <= 0).nonzero()[:, 0])
        if len(contradicted) >= _FEWEST_MATCHES:
            yield next(self._proposed(seed, self._settings.hypotheses, contradicted))
        yield match_free_hypotheses(self._maps, self._settings.vertical(self._maps))

    def _with_family(self, assessment: Assessment) -> Assessment:
        """With all poses that a symmetry of either map makes exchangeable with the best one.

        In a field of poles a wrong pose explains nearly as much as a right one. That casts doubt on both, unless both
        are of one family. A member that the lines make improbable is not exchangeable, unless many of them hold it.
        """
        enough = self._settings.judgement.min_confidence
        doubtful = assessment.weighing.presence < enough
        if doubtful and assessment.evidence.smaller_explained < _NEARLY_ALL:
            return assessment
        poses = stacked([candidate.refinement.pose for candidate in assessment.candidates])
        with self._stage("judge"):
            firm = assessment.runner_ups(self._settings.judgement)
            members = self._allowed(self._family(poses, firm))
            others = [member for member in members if not same_answer(member, poses[0])]
            if not others:
                return assessment
            if doubtful:
                self._crowd = 0.0
            weighed = self._assessed(self._refined_family(members, assessment.refined))
            repeated = [pose for pose in others if any(same_answer(pose, entry.refinement.pose) for entry in firm)]
            alike = [pose for pose in weighed.comparable(others, self._calibration) if pose not in repeated]
            shared = weighed.exchangeable(1 + len(repeated) + len(alike))
            return assessment if shared.weighing.presence < enough else shared

    def _family(self, poses: Pose, firm: Sequence[AssessedCandidate]) -> list[Pose]:
        """The other members of the family of the first pose; ``firm`` are candidates that many lines hold."""
        repetitions = [entry for entry in firm if self._settings.judgement.is_repetition(entry.evidence)]
        batches = (
            stacked([entry.refinement.pose for entry in entries]) if entries else None
            for entries in (firm, repetitions)
        )
        family = pose_family(poses[0], poses[1:], self._maps, self._map_scorer, self._settings.family, *batches)
        return [family.poses[row] for row in range(1, len(family))]

    def _allowed(self, poses: list[Pose]) -> list[Pose]:
        """Without those that tilt the vertical, where that is known; turns about it may be inaccurate by a little."""
        up = self._settings.vertical(self._maps)
        if up is None:
            return poses
        limit = math.cos(self._maps.threshold.angle)
        upright = [pose for pose in poses if float(tilt_cosine(pose.rotation, up)) > limit]
        return [Pose(nearest_turn(pose.rotation, up), pose.translation) for pose in upright]

    def _rounds(
        self,
        rounds: Iterator[Hypotheses],
        earlier: Sequence[RefinedCandidate] = (),
        settings: CandidateSettings | None = None,
    ) -> Iterator[Assessment]:
        refined, settings = list(earlier), self._settings.constrained(settings or self._settings.candidates)
        for hypotheses in self._timed(rounds):
            with self._stage("verify"):
                candidates = self._candidates(hypotheses, settings)
            with self._stage("refine"):
                refined = self._refined(candidates.poses, refined)
            with self._stage("judge"):
                self._crowd = max(self._crowd, candidates.crowd)
                assessment = self._assessed(refined)
            yield assessment

    def _first_look(self, seed: int, earlier: Sequence[RefinedCandidate] = ()) -> Iterator[Assessment]:
        return self._rounds(self._longest_lines(seed), earlier, self._settings.first_round.candidates)

    def _longest_lines(self, seed: int) -> Iterator[Hypotheses]:
        """One round with the matches of the longest lines; none for small maps, or if all lines have been matched."""
        settings = self._settings
        if not self._matches_parts or self._all_matched:
            return iter(())
        with self._stage("match"):
            match = self._matching.match_longest or self._match
            matches = longest_matches(self._maps, settings.first_lines, match, self._matching.few_lines)
        if matches is None:
            return iter(())
        self._use(matches)
        return itertools.islice(self._proposed(seed, settings.first_round.hypotheses), 1)

    def _all_lines(self, seed: int) -> Iterator[Hypotheses]:
        """All rounds with the matches of all lines."""
        self._match_all_lines()
        return itertools.chain(self._proposed(seed, self._settings.hypotheses), self._from_places(seed))

    def _match_all_lines(self) -> None:
        if not self._all_matched:
            with self._stage("match"):
                self._use(self._match(self._maps))
            self._all_matched = True

    def _use(self, matches: Matches) -> None:
        """Propose poses from these matches, which also tell how far a pose agrees with the matcher."""
        self.matches = matches
        self._match_scorer = self._maps.match_scorer(matches.source, matches.target)
        self._scored_matches.append((self._match_scorer, matches))

    def _proposed(self, seed: int, settings: HypothesisSettings, some: Matches | None = None) -> Iterator[Hypotheses]:
        """Poses from all matches, or from some of them."""
        scorer = self._match_scorer if some is None else self._maps.match_scorer(some.source, some.target)
        probability, up = (self.matches if some is None else some).probability, self._settings.vertical(self._maps)
        if up is not None:
            return propose_upright_poses(self._maps, scorer, probability, up, settings, seed)
        return propose_poses(self._maps, scorer, probability, settings, seed, self._matched_parts())

    def _matched_parts(self) -> Iterator[tuple[RowScorer, Matches]]:
        """The matches of parts of the maps, which later tell how far a pose agrees with the matcher."""
        if not self._matches_parts or has_places(self._maps):  # parts of a large map are still much too large
            return
        for matches in part_matches(self._maps, self._match):
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
        if not self._matches_parts or self._presence >= self._settings.judgement.min_confidence:
            return
        ranking, settings = (
            replace(self._settings, max_lines=min(count, self._settings.max_lines))
            for count in (RANKING_LINES, PLACE_LINES)
        )
        poses: list[tuple[float, Pose]] = []
        for source, target in probable_places(self._maps, ranking.normalize, self._match):
            maps = settings.normalize(source, target)
            search = PoseSearch(maps, self._matching, settings)
            assessment = next(search._rounds(search._all_lines(seed)))
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

    def _candidates(self, hypotheses: Hypotheses, settings: CandidateSettings) -> Candidates:
        return select_candidates(
            hypotheses,
            self._match_scorer,
            self._map_scorer,
            settings,
            self._settings.constrained_refinement,
        )

    def _refined(
        self, poses: Sequence[Pose], earlier: Sequence[RefinedCandidate] = (), noise: KnownNoise | None = None
    ) -> list[RefinedCandidate]:
        settings = self._settings
        return refine_candidates(
            poses,
            self._maps,
            self._map_scorer,
            noise or self._noise,
            settings.constrained_refinement,
            settings.candidates.distinctness,
            earlier,
        )

    def _refined_family(self, members: Sequence[Pose], earlier: Sequence[RefinedCandidate]) -> list[RefinedCandidate]:
        """Members of a family beside earlier candidates.

        The noise of a few exact lines may look too small to keep three of them. Members that are lost in this way
        are refined with the noise that a refinement begins with.
        """
        noise = self._settings.refinement.noise.initial(self._maps.threshold)
        refined = self._refined(members, earlier)
        return self._refined(members, refined, KnownNoise(noise.position, noise.direction))

    def _completed(self, assessment: Assessment) -> Assessment:
        """With the best candidate refined to convergence, on all lines."""
        if not assessment.candidates:
            return assessment
        with self._stage("refine"):
            best = assessment.candidates[0].refinement
            return assessment.completed(
                complete_refinement(best, self._maps, self._noise, self._settings.constrained_refinement)
            )  # fmt: skip
