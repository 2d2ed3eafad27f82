"""Find a part in a large map: places by an index, registration there, and all places against each other.

The part is registered to the lines around each place, so that unit, inlier threshold and evidence are those of two maps
of like size, for which the confidence is calibrated. The candidates of all places are then weighed together: a place
that exists twice makes the result ambiguous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int
from torch import Tensor

from plueckernet.estimation.assessment import AssessedCandidate, Assessment
from plueckernet.estimation.evidence import compared
from plueckernet.estimation.judgement import DESCRIPTOR_CALIBRATION, Calibration, Status, Weighing, judge, weigh
from plueckernet.estimation.maps import MIN_LINES
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.places import has_places, smaller_is_source
from plueckernet.estimation.search import PoseSearch
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.strays import KeptLines
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.matchers import LineMatcher, MatcherSource, load_matcher
from plueckernet.result import Alternative, RegistrationResult, RunRecord, assemble_result
from plueckernet.retrieval.line_index import LineIndex
from plueckernet.retrieval.votes import VotedPlace
from plueckernet.stages import StageClock

_PLACES = 8  # that the part is compared with
_MIN_SCORE_RATIO = 0.2  # of the votes of the best place, from which on another may be as good
_SEARCHED = 3  # of them, at most, that are searched for other poses than that of the votes
_PLACE_LINES = 400  # longest lines of the part and of a place that are matched and verified
_MARGIN = 1.1  # radius of a place over that of the part
_SAME_ANGLE, _SAME_DISTANCE = math.radians(5.0), 0.12  # rad, radii of the part: poses that give the same answer


def locate(
    submap: LinesLike,
    whole: LinesLike | LineIndex,
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    device: str = "cpu",
    on_stage: Callable[[str], None] | None = None,
) -> RegistrationResult:
    """Find ``whole_T_part``, the ``target_T_source`` of the result, for a submap of a few hundred lines of a large map.

    ``whole`` is a :class:`~plueckernet.LineIndex`, built once for many parts, or a map, which is indexed first.
    The other arguments and the result are those of :func:`~plueckernet.register`. Both maps must be segments.
    """
    stage = StageClock(on_stage)
    with stage("prepare"):
        line_matcher = load_matcher(matcher, device)
        index = whole if isinstance(whole, LineIndex) else LineIndex.build(whole)
    return located(as_lines(submap), index, line_matcher, RunOptions(settings, seed, device, stage))


@dataclass(frozen=True)
class RunOptions:
    """How a part is looked for."""

    settings: RegistrationSettings = field(default_factory=RegistrationSettings)
    seed: int = 0
    device: str = "cpu"
    stage: StageClock | None = None
    part_is_source: bool = True
    warnings: tuple[str, ...] = ()  # for the result


def located(submap: LineSet, index: LineIndex, matcher: LineMatcher, options: RunOptions) -> RegistrationResult:
    """The result of :func:`locate`, or, if the part is the target, that of the whole against the part."""
    stage = options.stage or StageClock()
    kept = KeptLines.of(submap)
    counts = (len(submap), len(index)) if options.part_is_source else (len(index), len(submap))
    with stage("match"):
        places = index.places(kept.lines, _PLACES)
    with torch.inference_mode():
        weighed = _best_places(kept.lines, index, places, matcher, options)
        record = RunRecord(matcher.name, options.settings, options.seed, stage.seconds, options.warnings)
        if weighed is None:
            return RegistrationResult.without_pose("no place of the large map resembles the small one", counts, record)
        result = _result(weighed, matcher, record)
    return _of_whole(result, weighed.entries[0].search, kept, counts)


def smaller_in_larger(
    source: LineSet, target: LineSet, matcher: LineMatcher, options: RunOptions
) -> RegistrationResult | None:
    """The result if the map of much smaller extent is found in the other; None if neither is, or if it is not found."""
    segments = source.endpoints is not None and target.endpoints is not None
    if max(len(source), len(target)) <= options.settings.max_lines or not segments or not matcher.matches_parts:
        return None
    maps = options.settings.normalize(source, target)
    if not has_places(maps):
        return None
    part_is_source = smaller_is_source(maps)
    submap, whole = (source, target) if part_is_source else (target, source)
    result = located(submap, LineIndex.build(whole), matcher, replace(options, part_is_source=part_is_source))
    return None if result.status is Status.FAILED else result


class _PlaceSearch:
    """The search for the part in the lines around a place."""

    def __init__(
        self, submap: LineSet, index: LineIndex, place: VotedPlace, matcher: LineMatcher, options: RunOptions
    ) -> None:
        midpoint = submap.midpoints()
        radius = float((midpoint - midpoint.median(0).values).norm(dim=-1).max())
        self.rows = index.rows_around(place.centre, _MARGIN * radius)
        self.part_is_source, self._seed, self._stage = (
            options.part_is_source,
            options.seed,
            options.stage or StageClock(),
        )
        self.searched, self.assessment = False, Assessment.nothing()
        if len(self.rows) < MIN_LINES:
            return
        sides = submap.to(options.device), index.lines[self.rows].to(options.device)
        whole_T_part = place.whole_T_part.to(options.device)
        self._pose = whole_T_part if options.part_is_source else whole_T_part.inverse()
        self.maps = options.settings.normalize(*(sides if options.part_is_source else sides[::-1]))
        self._search = PoseSearch(self.maps, matcher.matching(options.settings), options.settings, self._stage)
        self.assessment = self._search.weighed([self.maps.normalized_pose(self._pose)])

    @property
    def matches(self) -> Matches:
        """Of the part and the place."""
        return self._search.matches

    def run(self) -> None:
        """Let other poses compete with that of the votes."""
        self.assessment = self._search.run(self._seed, [self.maps.normalized_pose(self._pose)])
        self.searched = True

    def follow(self, other: _PlaceSearch) -> None:
        """Add the pose that differs from that of the votes as the best of another place does from that of its votes.

        The same pairs of lines vote for a place that exists twice, so that both poses of votes have the same error.
        """
        best = other.maps.original_pose(other.assessment.candidates[0].refinement.pose)
        if self.part_is_source:
            pose = self._pose @ (other._pose.inverse() @ best)
        else:
            pose = (best @ other._pose.inverse()) @ self._pose
        poses = [self.maps.normalized_pose(pose), self.maps.normalized_pose(self._pose)]
        self.assessment = self._search.weighed(poses)


@dataclass(frozen=True, eq=False)
class _Entry:
    """A candidate of a place, with its pose between the maps as they were given."""

    search: _PlaceSearch
    assessed: AssessedCandidate
    pose: Pose


@dataclass(frozen=True, eq=False)
class _Weighed:
    """The candidates of all places, the most probable first."""

    entries: list[_Entry]
    weighing: Weighing


def _best_places(
    submap: LineSet, index: LineIndex, places: Sequence[VotedPlace], matcher: LineMatcher, options: RunOptions
) -> _Weighed | None:
    """The candidates of the places with as many votes as the best; of the others, too, if none of these is sure."""
    calibration, judgement = matcher.calibration or DESCRIPTOR_CALIBRATION, options.settings.judgement
    settings = replace(options.settings, max_lines=min(_PLACE_LINES, options.settings.max_lines))
    compared_places = sum(place.score >= _MIN_SCORE_RATIO * places[0].score for place in places)
    searches: list[_PlaceSearch] = []
    weighed = None
    for batch in (places[:compared_places], places[compared_places:]):
        for place in batch:
            search = _PlaceSearch(submap, index, place, matcher, replace(options, settings=settings))
            if search.assessment.candidates:
                searches.append(search)
                distance = search.maps.threshold.distance * search.maps.unit
                settings = replace(settings, inlier_distance=settings.inlier_distance or distance)  # the same for all
        weighed = _searched(searches, calibration, options.settings) if searches else None
        if weighed is not None and weighed.weighing.presence >= judgement.min_confidence:
            break
    return weighed


def _searched(searches: Sequence[_PlaceSearch], calibration: Calibration, settings: RegistrationSettings) -> _Weighed:
    """The candidates after the place of the best, and others as long as nothing is sure, have been searched."""
    weighed = _weighed_together(searches, calibration)
    while True:
        best = weighed.entries[0].search
        if best.searched and weighed.weighing.presence >= settings.judgement.min_confidence:
            return weighed
        pending = [entry.search for entry in weighed.entries if not entry.search.searched]
        if not pending or sum(search.searched for search in searches) >= _SEARCHED:
            return weighed
        pending[0].run()
        for other in searches:
            if not other.searched:
                other.follow(pending[0])
        weighed = _weighed_together(searches, calibration)


def _weighed_together(searches: Sequence[_PlaceSearch], calibration: Calibration) -> _Weighed:
    """All candidates with the probabilities that they have in the presence of those of other places."""
    entries = _distinct_entries(searches)
    own = [entry.assessed.evidence for entry in entries]
    evidence = compared(own, max((entry.crowd_ratio * max(entry.score, 1e-9) for entry in own), default=0.0))
    groups = _groups(entries)
    weighing = weigh(evidence, groups, calibration)
    order = sorted(range(len(entries)), key=lambda row: -weighing.probabilities[row])
    changed = [
        replace(
            entries[row],
            assessed=replace(
                entries[row].assessed,
                evidence=evidence[row],
                probability=weighing.probabilities[row],
                group=groups[row],
            ),
        )
        for row in order
    ]
    return _Weighed(changed, weighing.shared(changed[0].search.assessment.members))


def _distinct_entries(searches: Sequence[_PlaceSearch]) -> list[_Entry]:
    """The candidates of all places; of overlapping places, those that differ from the candidates of another one."""
    entries: list[_Entry] = []
    for search in sorted(searches, key=lambda search: (not search.searched, -search.assessment.evidence.score)):
        own = [
            _Entry(search, assessed, search.maps.original_pose(assessed.refinement.pose))
            for assessed in search.assessment.candidates
        ]
        others = list(entries)
        entries += [entry for entry in own if not any(_same_answer(entry, other) for other in others)]
    return entries


def _groups(entries: Sequence[_Entry]) -> list[int]:
    """For each candidate, the first of all that gives the same answer."""
    first: list[int] = []
    for row, entry in enumerate(entries):
        same = (other for other in range(row) if first[other] == other and _same_answer(entry, entries[other]))
        first.append(next(same, row))
    return first


def _same_answer(entry: _Entry, other: _Entry) -> bool:
    """Whether two poses differ by no more than an error that counts as right."""
    cosine = (float((entry.pose.rotation * other.pose.rotation).sum()) - 1) / 2
    centre = entry.search.maps.source_offset
    apart = (entry.pose.act(centre[None]) - other.pose.act(centre[None])).norm()
    return cosine > math.cos(_SAME_ANGLE) and float(apart) < _SAME_DISTANCE * entry.search.maps.unit


def _result(weighed: _Weighed, matcher: LineMatcher, record: RunRecord) -> RegistrationResult:
    """The result for the place of the best candidate; those of other places are alternatives, too."""
    search = weighed.entries[0].search
    own = tuple(entry.assessed for entry in weighed.entries if entry.search is search)
    assessment = Assessment(own, weighed.weighing, search.assessment.members)
    motions = assessment.unobservable_motions(search.maps, record.settings.observability)
    judgement = record.settings.judgement.where(search.maps.are_infinite)
    verdict = judge(assessment.evidence, weighed.weighing, motions, judgement, matcher.is_calibrated)
    result = assemble_result(verdict, assessment, motions, search.matches, search.maps, record)
    elsewhere = [
        Alternative(_owned(entry.pose), entry.assessed.probability, entry.assessed.evidence, entry.assessed.group)
        for entry in weighed.entries
        if entry.search is not search
    ]
    alternatives = sorted([*result.alternatives, *elsewhere], key=lambda other: -other.confidence)
    return replace(result, alternatives=tuple(alternatives))


def _owned(pose: Pose) -> Pose:
    """A copy on the CPU that is no inference tensor."""
    return Pose(pose.rotation.cpu().clone(), pose.translation.cpu().clone())


def _of_whole(
    result: RegistrationResult, search: _PlaceSearch, kept: KeptLines, counts: tuple[int, int]
) -> RegistrationResult:
    """The result in rows of the maps as they were given."""
    part_column = 0 if search.part_is_source else 1

    def whole(rows: Int[Tensor, "k 2"]) -> Int[Tensor, "k 2"]:
        columns = [search.rows[rows[:, 1 - part_column]]] * 2
        columns[part_column] = kept.whole_rows(rows[:, part_column])
        return torch.stack(columns, -1)

    name = "source" if search.part_is_source else "target"
    return replace(
        result,
        matches=whole(result.matches),
        inliers=whole(result.inliers),
        num_lines=counts,
        warnings=(*result.warnings, *kept.warning(name, counts[part_column])),
    )
