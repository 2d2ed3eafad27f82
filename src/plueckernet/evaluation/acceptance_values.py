"""What is counted of accepted poses: right and called a success, wrong and called a success, by group of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plueckernet.estimation.judgement import Calibration, Status
from plueckernet.evaluation.metrics import family_error
from plueckernet.evaluation.outcomes import RIGHT, is_right
from plueckernet.evaluation.predictions import Prediction, read_pose
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.rejudgement import kept_evidence, rejudge
from plueckernet.evaluation.reliability import Reliability


@dataclass(frozen=True)
class Judged:
    """One registration and its verdict."""

    prediction: Prediction
    status: Status
    confidence: float
    limits: tuple[float, float] = RIGHT  # degrees and metres below which a pose is right
    best: int = 0  # row of the most probable candidate

    @property
    def called(self) -> bool:
        """Whether the pose is called a success."""
        return self.status is Status.SUCCESS

    @property
    def right(self) -> bool:
        """Whether the best pose is right, accepted or not."""
        return is_right(self.error, self.limits)

    @property
    def error(self) -> tuple[float, float]:
        """Degrees and metres of the best pose; infinite without one."""
        errors = self.prediction.candidate_errors
        return errors[self.best] if errors else (math.inf, math.inf)

    @property
    def inliers(self) -> int:
        """Of the best pose."""
        candidates = self.prediction.candidates
        return int(candidates[self.best].evidence["inliers"]) if candidates else 0

    @property
    def listed(self) -> bool:
        """Whether a right pose is the best or among the alternatives."""
        return is_right(self.prediction.listed_error, self.limits)


@dataclass(frozen=True)
class Offender:
    """A pose that was called a success and should not have been."""

    pairs: str  # name of the dataset
    index: int
    places: tuple[str, ...]
    band: str
    error: tuple[float, float] | None  # degrees and metres; None for maps of different places
    confidence: float
    inliers: int
    lines: tuple[int, int]
    candidate: int = 0  # row of the pose among those of the prediction


@dataclass(frozen=True)
class Missed:
    """A best pose that is wrong, accepted or not, though the maps show one place."""

    pairs: str  # name of the dataset
    index: int
    places: tuple[str, ...]
    band: str
    listed: bool  # whether the right pose is among the alternatives
    preferred: bool  # whether the right pose is the best one of a search that is given it as a candidate


@dataclass(frozen=True)
class GroupCount:
    """The registrations of one group."""

    name: str
    right: Rate
    right_and_called: Rate
    listed: Rate  # right pose best or among the alternatives
    called: int
    wrong_and_called: int
    ambiguous: int


@dataclass(frozen=True)
class UnrelatedCount:
    """Maps of different places."""

    called: Rate
    min_inliers: int | None  # of those called


@dataclass(frozen=True)
class ShapeCount:
    """Maps that repeat themselves."""

    name: str
    success: Rate
    ambiguous: int
    in_family: Rate  # best pose, accepted or not
    listed: Rate  # members of the families that are the best pose or among the alternatives


@dataclass(frozen=True)
class LeftOutCrops:
    """All crops again, each judged by a calibration that was fitted without its map."""

    bands: tuple[GroupCount, ...]  # without the parallel map
    reliability: Reliability  # of all maps


@dataclass(frozen=True)
class AcceptanceValues:
    """All of it, for one matcher and one calibration."""

    matcher: str
    fitted_on: str  # the calibration
    crops: tuple[GroupCount, ...]  # by band, without the parallel map
    parallel_crops: tuple[GroupCount, ...]  # by band, of the map whose lines are nearly parallel
    crop_reliability: Reliability  # of all crops, with the calibration as it is
    crop_seconds: float | None  # median CPU time of a registration
    maps: tuple[GroupCount, ...]  # sparse in dense, by group
    unrelated: UnrelatedCount
    shapes: tuple[ShapeCount, ...]
    offenders: tuple[Offender, ...]
    own_crops: tuple[GroupCount, ...] = ()  # by band, of a file that `plueckernet evaluate crops` wrote
    left_out: LeftOutCrops | None = None
    missed: tuple[Missed, ...] = ()  # of all crops


def judged(prediction: Prediction, calibration: Calibration | None, limits: tuple[float, float] = RIGHT) -> Judged:
    """The verdict on kept evidence, so that another calibration needs no registration."""
    groups = [candidate.group for candidate in prediction.candidates]
    verdict = rejudge(
        kept_evidence(prediction.candidates), groups, calibration, prediction.exchangeable, prediction.unobservable
    )
    return Judged(prediction, verdict.status, verdict.confidence, limits, verdict.best)


def count_group(name: str, rows: Sequence[Judged]) -> GroupCount:
    """Counts of one group."""
    return GroupCount(
        name=name,
        right=Rate.of([row.right for row in rows]),
        right_and_called=Rate.of([row.right and row.called for row in rows]),
        listed=Rate.of([row.listed for row in rows]),
        called=sum(row.called for row in rows),
        wrong_and_called=sum(row.called and not row.right for row in rows),
        ambiguous=sum(row.status is Status.AMBIGUOUS for row in rows),
    )


def count_unrelated(rows: Sequence[Judged]) -> UnrelatedCount:
    """How many were called, and on how little."""
    inliers = [row.inliers for row in rows if row.called]
    return UnrelatedCount(Rate.of([row.called for row in rows]), min(inliers, default=None))


def count_shape(name: str, rows: Sequence[Judged]) -> ShapeCount:
    """How a symmetric shape was judged, and how much of its family was listed."""
    members = [is_listed for row in rows for is_listed in _family_listed(row.prediction)]
    return ShapeCount(
        name=name,
        success=Rate.of([row.called for row in rows]),
        ambiguous=sum(row.status is Status.AMBIGUOUS for row in rows),
        in_family=Rate.of([row.right for row in rows]),
        listed=Rate.of(members),
    )


def offenders(pairs: str, rows: Sequence[Judged]) -> list[Offender]:
    """Every wrong pose that was called a success, and every success where several poses are equally right."""
    wrong = [row for row in rows if row.called and (not row.right or row.prediction.family)]
    return [
        Offender(
            pairs=pairs,
            index=row.prediction.pair,
            places=row.prediction.places,
            band=row.prediction.band,
            error=None if row.prediction.truth is None else row.error,
            confidence=round(row.confidence, 4),
            inliers=row.inliers,
            lines=row.prediction.lines,
            candidate=row.best,
        )
        for row in wrong
    ]


def _family_listed(prediction: Prediction) -> list[bool]:
    poses = [read_pose(candidate.pose) for candidate in prediction.candidates]
    free = prediction.free_axis()
    truths = prediction.truths()
    return [any(is_right(family_error(pose, [truth], free)) for pose in poses) for truth in truths]
