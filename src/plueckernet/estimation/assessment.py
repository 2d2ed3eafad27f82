"""Refined candidates with their evidence and probabilities, the most probable first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Bool
from torch import Tensor

from plueckernet.estimation.ends import held_by_ends
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import Calibration, JudgementSettings, Weighing, weigh
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.observability import (
    ObservabilitySettings,
    UnobservableMotion,
    are_all_firm,
    unobservable_motions,
)
from plueckernet.estimation.pose_family import FamilySettings
from plueckernet.estimation.refinement import RefinedCandidate, Refinement
from plueckernet.geometry.pose import Pose, stacked

# Poses that differ less give the same answer, whichever of them is meant; the calibration counts them as right.
_SAME_ANGLE = math.radians(5.0)
_SAME_DISTANCE = 0.12  # radii of the map
_DOUBT = 0.02  # probability of a candidate that casts doubt on the best
_COMPARABLE = 0.15  # probability of a pose over that of the best, from which on the lines do not tell them apart


@dataclass(frozen=True, eq=False)
class AssessedCandidate:
    """A candidate with the evidence for it and the probability that it is the right one."""

    candidate: RefinedCandidate
    evidence: Evidence
    probability: float
    group: int  # candidates of one group give the same answer

    @property
    def refinement(self) -> Refinement:
        """Of the candidate."""
        return self.candidate.refinement


@dataclass(frozen=True, eq=False)
class Assessment:
    """All candidates, the most probable first."""

    candidates: tuple[AssessedCandidate, ...]
    weighing: Weighing
    members: int = 1  # poses of the family that a symmetry of the maps makes exchangeable with the best

    @classmethod
    def nothing(cls) -> Assessment:
        """Without any candidate."""
        return Assessment((), Weighing.nothing())

    @property
    def refined(self) -> tuple[RefinedCandidate, ...]:
        """The candidates themselves."""
        return tuple(entry.candidate for entry in self.candidates)

    @property
    def evidence(self) -> Evidence:
        """That of the best candidate."""
        return self.candidates[0].evidence if self.candidates else Evidence.nothing()

    def unobservable_motions(
        self,
        maps: MapPair,
        settings: ObservabilitySettings = ObservabilitySettings(),
        up: tuple[float, float, float] | None = None,
    ) -> tuple[UnobservableMotion, ...]:
        """Motions of the best candidate that its inliers leave undetermined, in the frame and unit of the target.

        A motion that the ends of the inliers determine is not one of them. Where the vertical is known, one that tilts
        it is not, either.
        """
        if not self.candidates:
            return ()
        best = self.candidates[0].refinement
        if are_all_firm(maps.all_target, best.matches[:, 1], settings):
            return ()
        inliers = maps.original_target(best.matches[:, 1])
        distance = maps.unit * maps.threshold.distance
        motions = unobservable_motions(inliers, maps.original_covariance(best.covariance), distance, settings)
        motions = tuple(motion for motion in motions if not held_by_ends(motion, best, maps, settings))
        return motions if up is None else tuple(motion for motion in motions if not motion.tilts(up))

    def is_clear(self, enough: tuple[float, float]) -> bool:
        """Whether the best candidate is so probable, and explains so much, that no other has to be searched for."""
        confidence, fraction = enough
        return self.weighing.confidence >= confidence and self.evidence.explained_fraction >= fraction

    def is_decided(self, confidence: float, infinite: bool) -> bool:
        """Whether a search with a wider threshold would say no more.

        Where a place repeats itself, it would not. Of noisy lines without ends, it may tell which pose is right.
        """
        several = self.members > 1 or not infinite
        return (self.weighing.presence if several else self.weighing.confidence) >= confidence

    def runner_ups(self, settings: JudgementSettings) -> list[AssessedCandidate]:
        """Other candidates that many lines hold, though they cannot be right if the best is."""
        group = self.candidates[0].group if self.candidates else 0
        others = [entry for entry in self.candidates[1:] if entry.group != group]
        return [entry for entry in others if settings.is_firm_runner_up(entry.evidence, self.evidence)]

    def comparable(self, poses: Sequence[Pose], calibration: Calibration) -> list[Pose]:
        """Those of some poses that the lines do not tell from the best; nor do they if a refinement has lost a pose.

        The matcher is not asked: of exchangeable poses it chooses one. A pose that a candidate of the best group is
        close to is no other pose.
        """
        best = self.candidates[0]
        shares: dict[int, float] = defaultdict(float)  # by group
        for entry, share in self._if_agreed(best, calibration):
            shares[entry.group] += share
        refined = stacked([entry.refinement.pose for entry in self.candidates])

        def is_comparable(pose: Pose) -> bool:
            rows = same_answers(refined, pose).nonzero()[:, 0].tolist()
            groups = {self.candidates[row].group for row in rows}
            others = sum(shares[group] for group in groups if group != best.group)
            return not groups or others >= _COMPARABLE * shares[best.group]

        return [pose for pose in poses if is_comparable(pose)]

    def _if_agreed(self, best: AssessedCandidate, calibration: Calibration) -> list[tuple[AssessedCandidate, float]]:
        """The candidates with their probabilities if the matcher agreed with each at least as much as with the best."""
        agreement = best.evidence.matcher_agreement
        evidence = [entry.evidence for entry in self.candidates]
        agreed = [replace(facts, matcher_agreement=max(facts.matcher_agreement, agreement)) for facts in evidence]
        weighing = weigh(agreed, [entry.group for entry in self.candidates], calibration)
        return list(zip(self.candidates, weighing.probabilities, strict=True))

    def doubts(
        self, accepted: Refinement, settings: JudgementSettings, calibration: Calibration, family: FamilySettings
    ) -> list[Pose]:
        """Candidates that may cast doubt on an accepted one, gravest first, if the matcher agrees as much with them.

        Those may that many lines hold and that lack few; others if the accepted one would then not be sure enough.
        """

        def lacks_few(evidence: Evidence) -> bool:
            # Asking costs little, and the family has the last word: here the deficit is that of the smaller map alone.
            limit = family.max_deficit if settings.is_repetition(evidence) else family.max_runner_up_deficit
            return settings.is_firm(evidence) and evidence.deficit <= limit

        own = next(entry for entry in self.candidates if entry.refinement is accepted)
        pairs = self._if_agreed(own, calibration)
        sure = sum(share for entry, share in pairs if entry.group == own.group) >= settings.min_confidence
        others = sorted((pair for pair in pairs if pair[0].group != own.group), key=lambda pair: -pair[1])
        return [
            entry.refinement.pose
            for entry, share in others
            if lacks_few(entry.evidence) or (share >= _DOUBT and not sure)
        ]

    def may_hide_another(self, settings: JudgementSettings, infinite: bool) -> bool:
        """Whether the best candidate would be accepted, but explains so little that another may do as well.

        Of infinite lines little is explained anyway.
        """
        sure = self.weighing.confidence >= settings.min_confidence and not infinite
        return sure and self.evidence.explained_fraction < settings.hiding_fraction

    def exchangeable(self, members: int) -> Assessment:
        """With the best candidate no more probable than any member of a family of poses that a symmetry relates.

        No other candidate is more probable than the best.
        """
        weighing = self.weighing.shared(members)
        candidates = tuple(
            replace(entry, probability=min(entry.probability, weighing.confidence)) for entry in self.candidates
        )
        return replace(self, candidates=candidates, weighing=weighing, members=members)

    def preferring(self, refinement: Refinement) -> Assessment:
        """With a given candidate put first, however probable it is."""
        first = next(entry for entry in self.candidates if entry.refinement is refinement)
        same = sum(entry.probability for entry in self.candidates if entry.group == first.group)
        others = tuple(entry for entry in self.candidates if entry is not first)
        # That another pose may be right does not make the given one one of several right poses.
        return Assessment((first, *others), replace(self.weighing, confidence=same, presence=same))

    def completed(self, refinement: Refinement) -> Assessment:
        """With the final refinement of the best candidate."""
        best = self.candidates[0]
        evidence = replace(best.evidence, inliers=len(refinement.matches))
        best = replace(best, candidate=replace(best.candidate, refinement=refinement), evidence=evidence)
        return replace(self, candidates=(best, *self.candidates[1:]))


def counted_motions(
    motions: Sequence[UnobservableMotion], up: tuple[float, float, float] | None
) -> tuple[UnobservableMotion, ...]:
    """The motions that make a registration ambiguous: where the vertical is known, a change of height does not."""
    return tuple(motion for motion in motions if up is None or not motion.is_along(up))


def height_warning(motions: Sequence[UnobservableMotion], up: tuple[float, float, float] | None) -> tuple[str, ...]:
    """One sentence if the vertical is known and the height is not determined."""
    if up is None or not any(motion.is_along(up) for motion in motions):
        return ()
    return ("The lines do not determine the height: the pose is that in the horizontal plane.",)


def assess(refined: Sequence[RefinedCandidate], evidence: Sequence[Evidence], calibration: Calibration) -> Assessment:
    """The candidates with their probabilities, the most probable first."""
    groups = _groups([candidate.refinement.pose for candidate in refined])
    weighing = weigh(evidence, groups, calibration)
    rows = sorted(range(len(refined)), key=lambda row: -weighing.probabilities[row])
    candidates = [
        AssessedCandidate(refined[row], evidence[row], weighing.probabilities[row], groups[row]) for row in rows
    ]
    return Assessment(tuple(candidates), weighing)


def _groups(poses: Sequence[Pose]) -> list[int]:
    """For each pose, the first of all that gives the same answer."""
    first: list[int] = []
    for row, pose in enumerate(poses):
        representatives = (other for other in first if first[other] == other and same_answer(pose, poses[other]))
        first.append(next(representatives, row))
    return first


def same_answer(pose: Pose, other: Pose) -> bool:
    """Whether two normalized poses differ by no more than an error that counts as right, whichever of them is meant."""
    return bool(same_answers(pose, other))


def same_answers(poses: Pose, other: Pose) -> Bool[Tensor, " *h"]:
    """The same for each of a batch of poses and another."""
    cosine = ((poses.rotation * other.rotation).sum((-2, -1)) - 1) / 2
    distance = (poses.translation - other.translation).norm(dim=-1)
    return (cosine > math.cos(_SAME_ANGLE)) & (distance < _SAME_DISTANCE)
