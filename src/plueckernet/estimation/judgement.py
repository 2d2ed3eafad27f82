"""Probabilities of the candidates, and the status of a registration.

Unrelated maps can be aligned so that many lines coincide, because buildings are full of right angles; and a place that
repeats itself can be aligned with itself in several ways. Two questions are therefore kept apart, each answered by a
logistic model of the evidence that is fitted for each matcher: is one of the candidates right at all, and which of
them? The product is the probability of each candidate, and they exclude one another. A pose is accepted if its own
probability suffices. If only that of all candidates together does, the maps are ambiguous.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plueckernet.errors import InputError
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.observability import UnobservableMotion
from plueckernet.settings import check_at_least, check_fraction, check_positive

_MIN_RATIO = 1e-3  # ratios below it are equally bad
_MAX_CROWD_RATIO = 2.0  # larger ratios are equally bad
_MIN_STAND_OUT = 0.3  # smaller values are equally bad
_MAX_DEFICIT = 8.0  # larger ones are equally bad
_MAX_LEAD = 2.0  # logarithm of the ratio of scores; larger ones are equally bad
_MIN_AGREEMENT = 5e-3  # added, so that smaller values differ little
_VOLUME_VARIANCE = 4.0  # lines squared, added to the variance of the number of lines
_FEW_LINES = 10.0  # added, so that one line more or less changes little where there are few
_MIN_ROTATION_DEVIATION = 1e-4  # rad; smaller ones are equally good


def _log_ratio(value: float) -> float:
    return math.log(max(value, _MIN_RATIO))


def _lead(evidence: Evidence) -> float:
    """The logarithm of the best other score over that of a pose, if it is larger."""
    return min(math.log(max(evidence.runner_up_ratio or 1.0, 1.0)), _MAX_LEAD)


def _missing(evidence: Evidence, present: float) -> float:
    """How many lines are missing in the volume that both maps fill, in standard deviations."""
    return (evidence.volume_lines - present) / math.sqrt(evidence.volume_lines + _VOLUME_VARIANCE)


_SPECIAL = ("upright", "infinite")  # names of the calibrations that others may hold


FEATURES: dict[str, Callable[[Evidence], float]] = {
    "constant": lambda _: 1.0,
    "inliers": lambda evidence: math.log1p(evidence.inliers),
    "score": lambda evidence: math.log1p(evidence.score),
    "stand_out": lambda evidence: math.log(max(evidence.stand_out, _MIN_STAND_OUT)),
    "crowd_ratio": lambda evidence: min(evidence.crowd_ratio, _MAX_CROWD_RATIO),
    "explained_fraction": lambda evidence: _log_ratio(evidence.explained_fraction),
    "smaller_explained": lambda evidence: _log_ratio(evidence.smaller_explained),
    "volume_fraction": lambda evidence: math.log((evidence.volume_explained + 1) / (evidence.volume_lines + 2)),
    "volume_missing": lambda evidence: _missing(evidence, evidence.volume_explained),
    "volume_empty": lambda evidence: _missing(evidence, evidence.volume_covered),
    "volume_lines": lambda evidence: math.log(evidence.volume_lines + _FEW_LINES),
    "expected_lines": lambda evidence: math.log(evidence.smaller_expected + _FEW_LINES),
    "lead": _lead,
    "chance_lines": lambda evidence: math.log1p(evidence.chance_lines),
    "deficit": lambda evidence: min(max(evidence.deficit, -_MAX_DEFICIT), _MAX_DEFICIT),
    "lateral_support": lambda evidence: math.log1p(evidence.lateral_support),
    "whole_lines": lambda evidence: math.log1p(evidence.whole_lines),
    "many_whole_lines": lambda evidence: math.log(evidence.whole_lines + _FEW_LINES),
    "rotation_deviation": lambda evidence: math.log(max(evidence.rotation_deviation, _MIN_ROTATION_DEVIATION)),
    "matcher_agreement": lambda evidence: math.log(evidence.matcher_agreement + _MIN_AGREEMENT),
    "matched_lines": lambda evidence: math.log1p(evidence.matched_lines),
    "chance_matches": lambda evidence: math.log1p(evidence.chance_matches),
}


@dataclass(frozen=True)
class Calibration:
    """Two logistic models of the evidence: a weight for each feature that they use, by the names of ``FEATURES``."""

    presence: Mapping[str, float]  # one of the candidates is right, by the evidence of the best
    choice: Mapping[str, float]  # which of them is, by the evidence of each
    fitted_on: str = ""  # the pairs it was fitted to
    upright: Calibration | None = None  # where the vertical is known; None: this one serves there, too
    infinite: Calibration | None = None  # of lines without ends, likewise

    def __post_init__(self) -> None:
        unknown = sorted({*self.presence, *self.choice} - set(FEATURES))
        if unknown:
            raise InputError(f"unknown feature {unknown[0]!r} of a calibration; there are {', '.join(FEATURES)}")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Calibration:
        """Read what a card holds; unknown entries raise :class:`InputError`."""
        models = [document.get(name) for name in ("presence", "choice")]
        special = {name: document.get(name) for name in _SPECIAL}
        known = set(document) - set(_SPECIAL) == {"presence", "choice", "fitted_on"}
        if not known or not all(isinstance(m, Mapping) for m in (*models, *(m or {} for m in special.values()))):
            names = " and ".join(_SPECIAL)
            raise InputError(f"a calibration has the entries presence, choice and fitted_on, and may have {names}")
        for weights in models:
            for name, weight in (weights or {}).items():
                if type(weight) not in (int, float) or not math.isfinite(weight):
                    raise InputError(f"weight of {name!r} in a calibration: expected a number, got {weight!r}")
        return Calibration(
            dict(document["presence"]),
            dict(document["choice"]),
            str(document["fitted_on"]),
            **{name: None if own is None else Calibration.from_dict(own) for name, own in special.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        """What a card holds."""
        own = {"presence": dict(self.presence), "choice": dict(self.choice), "fitted_on": self.fitted_on}
        special = {name: getattr(self, name) for name in _SPECIAL}
        return own | {name: calibration.to_dict() for name, calibration in special.items() if calibration is not None}

    def where(self, vertical_known: bool, infinite: bool) -> Calibration:
        """The calibration of a search.

        Four unknowns have fewer wrong poses to choose from than six. Lines without ends are close to one another
        almost everywhere: more of them coincide by chance, and those that are missing are no evidence.
        """
        special = self.upright if vertical_known else self.infinite if infinite else None
        return special or self

    def preference(self, evidence: Evidence) -> float:
        """Larger for candidates that are more likely the right one."""
        return _weighted(self.choice, evidence)

    def probabilities(self, evidence: Sequence[Evidence]) -> list[float]:
        """The probability of each candidate; what they lack to one is the probability that none is right."""
        if not evidence:
            return []
        preferences = [self.preference(entry) for entry in evidence]
        best = max(preferences)
        if best == -math.inf:
            return [0.0] * len(evidence)
        odds = [math.exp(preference - best) for preference in preferences]
        presence = self.presence_probability(evidence[preferences.index(best)])
        return [presence * share / sum(odds) for share in odds]

    def presence_probability(self, best: Evidence) -> float:
        """The probability that one of the candidates is right, given the evidence of the preferred one."""
        if best.inliers == 0:
            return 0.0
        logit = _weighted(self.presence, best)
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


def _weighted(weights: Mapping[str, float], evidence: Evidence) -> float:
    """Minus infinity for evidence that is not a number."""
    total = sum(weight * FEATURES[name](evidence) for name, weight in weights.items())
    return total if math.isfinite(total) else -math.inf


#: Of matches without meaningful probabilities; also used, and reported as uncalibrated, where a matcher has none.
DESCRIPTOR_CALIBRATION = Calibration(
    presence={
        "constant": 3.873,
        "inliers": 2.157,
        "smaller_explained": -0.728,
        "crowd_ratio": -6.534,
        "lateral_support": -0.838,
        "rotation_deviation": -0.565,
        "volume_fraction": 2.638,
        "chance_lines": -1.398,
        "explained_fraction": 2.092,
        "matcher_agreement": 1.468,
    },
    choice={
        "stand_out": 0.985,
        "lead": -2.896,
        "deficit": -1.044,
        "whole_lines": 1.064,
        "volume_missing": -0.365,
        "volume_empty": -1.034,
        "rotation_deviation": -2.545,
    },
    fitted_on=(
        "real maps: neighbouring crops, sparse and dense, pieces, tiny, repeated and unrelated maps; synthetic"
        " scenes: random parts, surveys and unrelated maps, any motion; 4858 pairs"
    ),
    upright=Calibration(
        presence={
            "constant": 1.089,
            "inliers": 1.75,
            "smaller_explained": 0.068,
            "crowd_ratio": -3.697,
            "lateral_support": -0.311,
            "rotation_deviation": -0.765,
            "volume_fraction": 4.199,
            "chance_lines": -1.932,
            "explained_fraction": 0.062,
            "matcher_agreement": 1.084,
        },
        choice={
            "stand_out": 1.063,
            "lead": -2.163,
            "deficit": -0.454,
            "whole_lines": 1.156,
            "volume_missing": -0.357,
            "volume_empty": -1.03,
            "rotation_deviation": -1.729,
        },
        fitted_on=(
            "real maps, vertical known: neighbouring crops, sparse and dense, pieces, tiny and unrelated maps; 2634"
            " pairs"
        ),
    ),
    infinite=Calibration(
        presence={
            "constant": 17.843,
            "inliers": 0.948,
            "smaller_explained": 4.785,
            "crowd_ratio": -8.352,
            "lateral_support": 1.617,
            "rotation_deviation": -0.242,
            "stand_out": -1.388,
            "chance_lines": -2.365,
            "explained_fraction": -1.407,
            "matcher_agreement": 4.007,
        },
        choice={
            "stand_out": 0.583,
            "lead": -3.711,
            "deficit": -0.757,
            "chance_lines": 1.388,
            "lateral_support": 1.954,
            "rotation_deviation": -1.408,
        },
        fitted_on=(
            "lines without ends: random parts of synthetic scenes, from overlap 0.7 to 0.07 and up to 10° of noise,"
            " any motion; real sparse and dense maps and pieces; unrelated maps; 2654 pairs"
        ),
    ),
)


class Status(enum.StrEnum):
    """Whether the pose is to be used."""

    SUCCESS = "success"
    AMBIGUOUS = "ambiguous"  # one of several poses is right, or a motion is unobservable
    FAILED = "failed"


@dataclass(frozen=True)
class JudgementSettings:
    """When a pose is accepted, and when the search ends."""

    min_confidence: float = 0.9
    min_inliers: int = 6  # lines; fewer coincide by chance in a few of a thousand unrelated maps of a dozen lines
    min_infinite_inliers: int = 4  # the same of lines without ends, whose confidence suffices to tell chance
    clear_confidence: float = 0.99  # of the first round, from which on no other poses are searched for
    longest_clear_confidence: float = 0.99  # the same of the first look at the longest lines
    longest_clear_fraction: float = (
        0.25  # explained, below which that look does not suffice: all lines may show another
    )
    min_runner_up_lines: int = 20  # that hold another pose in every direction: it is no chance, and the place repeats
    min_runner_up_stand_out: float = 12.0  # standard deviations above chance, of the same
    min_runner_up_agreement: float = 0.6  # of the matcher, over that with the best pose, of the same
    min_repetition_lines: int = 50  # that hold it: a place that repeats itself, though the pose may explain less
    hiding_fraction: float = 0.4  # explained, below which an accepted pose may hide another from the matcher

    def __post_init__(self) -> None:
        check_fraction(self, "min_confidence", "clear_confidence", "longest_clear_confidence", "longest_clear_fraction")
        check_fraction(self, "min_runner_up_agreement", "hiding_fraction")
        check_at_least(self, 1, "min_inliers", "min_infinite_inliers", "min_runner_up_lines", "min_repetition_lines")
        check_positive(self, "min_runner_up_stand_out")

    def where(self, infinite: bool) -> JudgementSettings:
        """Those of lines with ends or without."""
        return replace(self, min_inliers=self.min_infinite_inliers) if infinite else self

    @property
    def clear(self) -> tuple[float, float]:
        """Confidence and explained fraction from which on the first round suffices."""
        return max(self.clear_confidence, self.min_confidence), 0.0

    @property
    def longest_clear(self) -> tuple[float, float]:
        """The same of the first look at the longest lines."""
        return max(self.longest_clear_confidence, self.min_confidence), self.longest_clear_fraction

    def is_firm_runner_up(self, evidence: Evidence, best: Evidence) -> bool:
        """Whether a pose beside the best is held so firmly that the place must repeat itself.

        Many lines of the smaller overlap of two poses may coincide, and the matcher may agree with both.
        """
        agreed = evidence.matcher_agreement >= self.min_runner_up_agreement * best.matcher_agreement
        return agreed and self.is_firm(evidence)

    def is_firm(self, evidence: Evidence) -> bool:
        """Whether so many lines hold a pose, in every direction, that it is no chance."""
        return (
            evidence.lateral_support >= self.min_runner_up_lines and evidence.stand_out >= self.min_runner_up_stand_out
        )

    def is_repetition(self, evidence: Evidence) -> bool:
        """Whether a pose is held so firmly that the maps show the same shape twice, as mirrored flats are."""
        return self.is_firm(evidence) and evidence.lateral_support >= self.min_repetition_lines


@dataclass(frozen=True)
class Weighing:
    """The candidates of a registration against each other."""

    probabilities: tuple[float, ...]  # of each, as they were given
    best: int  # the most probable one
    confidence: float  # probability that the best is right, or another that gives the same answer
    presence: float  # probability that any of them is right

    def shared(self, members: int) -> Weighing:
        """With the best candidate no more probable than any of so many exchangeable poses."""
        return replace(self, confidence=min(self.confidence, self.presence / members))

    def among(self, searches: int) -> Weighing:
        """With the odds that any candidate is right divided by the number of searches they are the best of."""
        if searches <= 1 or self.presence <= 0:
            return self
        factor = 1 / (self.presence + searches * (1 - self.presence))
        return replace(
            self,
            probabilities=tuple(factor * share for share in self.probabilities),
            confidence=factor * self.confidence,
            presence=factor * self.presence,
        )

    @classmethod
    def nothing(cls) -> Weighing:
        """Of no candidates."""
        return Weighing((), 0, 0.0, 0.0)


def weigh(evidence: Sequence[Evidence], groups: Sequence[int], calibration: Calibration) -> Weighing:
    """Probabilities of candidates; those of one group differ so little that they give the same answer."""
    probabilities = calibration.probabilities(evidence)
    if not probabilities:
        return Weighing.nothing()
    best = max(range(len(probabilities)), key=lambda row: probabilities[row])
    same = sum(share for share, group in zip(probabilities, groups, strict=True) if group == groups[best])
    return Weighing(tuple(probabilities), best, min(1.0, same), min(1.0, sum(probabilities)))


@dataclass(frozen=True)
class Verdict:
    """A status with its confidence and its reason."""

    status: Status
    confidence: float
    reason: str
    calibrated: bool = True  # whether the confidence was fitted to this matcher


def judge(
    evidence: Evidence,
    weighing: Weighing,
    unobservable: Sequence[UnobservableMotion] = (),
    settings: JudgementSettings = JudgementSettings(),
    calibrated: bool = True,
) -> Verdict:
    """Success, ambiguity or failure, with the reason; evidence and motions are those of the best candidate."""
    confidence, presence = weighing.confidence, weighing.presence
    if evidence.inliers == 0:
        return Verdict(Status.FAILED, 0.0, "no pose explains three or more lines of both maps", calibrated)
    basis = (
        f"{evidence.inliers} lines coincide, explained fraction {evidence.explained_fraction:.0%},"
        f" {evidence.stand_out:.1f} standard deviations above chance"
    )
    if presence < settings.min_confidence:
        reason = f"confidence below {settings.min_confidence:g}: {basis}"
        return Verdict(Status.FAILED, confidence, reason, calibrated)
    if evidence.inliers < settings.min_inliers:
        reason = f"{basis}, but fewer than {settings.min_inliers} lines may coincide by chance"
        return Verdict(Status.FAILED, confidence, reason, calibrated)
    if unobservable:
        motions = " and ".join(motion.describe() for motion in unobservable)
        reason = f"{basis}, but they do not determine the {motions}"
        return Verdict(Status.AMBIGUOUS, confidence, reason, calibrated)
    if confidence < settings.min_confidence:
        certain = f"the probability that one of them is right is {presence:.0%}"
        reason = f"{basis}; another pose explains the maps about as well, {certain}"
        return Verdict(Status.AMBIGUOUS, confidence, reason, calibrated)
    return Verdict(Status.SUCCESS, confidence, basis, calibrated)
