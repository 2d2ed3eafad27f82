"""Confidence and status of a registration.

Unrelated maps can be aligned so that many lines coincide, because buildings are full of right angles. A logistic model
of the evidence, fitted for each matcher, tells right poses from wrong ones.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from plueckernet.errors import InputError
from plueckernet.estimation.evidence import Evidence
from plueckernet.settings import check_fraction, check_positive

_MIN_RATIO = 1e-3  # ratios below it are equally bad
_ASSUMED_RUNNER_UP = 0.7  # score ratio where no other pose was found: the search may have missed one


def _log_ratio(value: float) -> float:
    return math.log(max(value, _MIN_RATIO))


FEATURES: dict[str, Callable[[Evidence], float]] = {
    "constant": lambda _: 1.0,
    "lateral_support": lambda evidence: math.log1p(evidence.lateral_support),
    "runner_up_ratio": lambda evidence: (
        _ASSUMED_RUNNER_UP if evidence.runner_up_ratio is None else evidence.runner_up_ratio
    ),
    "normalized_score": lambda evidence: _log_ratio(evidence.normalized_score),
    "size_ratio": lambda evidence: _log_ratio(evidence.size_ratio),
    "explained_fraction": lambda evidence: _log_ratio(evidence.explained_fraction),
    "matcher_agreement": lambda evidence: evidence.matcher_agreement,
}


@dataclass(frozen=True)
class Calibration:
    """A logistic model of the evidence: one weight for each feature that it uses."""

    weights: Mapping[str, float]  # by the names of :data:`FEATURES`
    fitted_on: str = ""  # the pairs it was fitted to

    def __post_init__(self) -> None:
        unknown = sorted(set(self.weights) - set(FEATURES))
        if unknown:
            raise InputError(f"unknown feature {unknown[0]!r} of a calibration; there are {', '.join(FEATURES)}")

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Calibration:
        """Read what a card holds; unknown entries raise :class:`InputError`."""
        if set(document) != {"weights", "fitted_on"} or not isinstance(document["weights"], Mapping):
            raise InputError("a calibration has exactly the entries weights and fitted_on")
        for name, weight in document["weights"].items():
            if type(weight) not in (int, float) or not math.isfinite(weight):
                raise InputError(f"weight of {name!r} in a calibration: expected a number, got {weight!r}")
        return Calibration(dict(document["weights"]), str(document["fitted_on"]))

    def confidence(self, evidence: Evidence) -> float:
        """The fraction of results with such evidence that are right."""
        if evidence.inliers == 0:
            return 0.0
        logit = sum(weight * FEATURES[name](evidence) for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


#: Of matches without meaningful probabilities; also used, and reported as uncalibrated, where a matcher has none.
DESCRIPTOR_CALIBRATION = Calibration(
    {
        "constant": 15.198,
        "lateral_support": 0.635,
        "runner_up_ratio": -8.551,
        "normalized_score": 1.149,
        "size_ratio": 4.817,
        "explained_fraction": 4.244,
    },
    fitted_on="synthetic scenes: random parts, surveys and unrelated maps; 1004 pairs",
)


class Status(enum.StrEnum):
    """Whether the pose is to be used."""

    SUCCESS = "success"
    AMBIGUOUS = "ambiguous"  # another pose explains the maps about as well, or a motion is unobservable
    FAILED = "failed"


@dataclass(frozen=True)
class JudgementSettings:
    """When a pose is accepted."""

    min_confidence: float = 0.9
    max_runner_up_ratio: float = 0.9  # above it another pose is as good, and the result is ambiguous
    min_lateral_support: float = 1.5  # lines; below it the shift along parallel lines is unobservable

    def __post_init__(self) -> None:
        check_fraction(self, "min_confidence", "max_runner_up_ratio")
        check_positive(self, "min_lateral_support")


@dataclass(frozen=True)
class Verdict:
    """A status with its confidence and its reason."""

    status: Status
    confidence: float
    reason: str
    calibrated: bool = True  # whether the confidence was fitted to this matcher


def judge(
    evidence: Evidence, calibration: Calibration | None, settings: JudgementSettings = JudgementSettings()
) -> Verdict:
    """Success, ambiguity or failure, with the reason.

    Without a calibration the model of the descriptors is used, and the verdict says that it is not calibrated.
    """
    calibrated = calibration is not None
    if evidence.inliers == 0:
        return Verdict(Status.FAILED, 0.0, "no pose explains three or more lines of both maps", calibrated)
    confidence = (calibration or DESCRIPTOR_CALIBRATION).confidence(evidence)
    basis = f"{evidence.inliers} lines coincide, explained fraction {evidence.explained_fraction:.0%}"
    runner_up = "no other pose was found"
    if evidence.runner_up_ratio is not None:
        runner_up = f"the runner-up scores {evidence.runner_up_ratio:.0%} of the best"
    if confidence < settings.min_confidence:
        reason = f"confidence below {settings.min_confidence:g}: {basis}; {runner_up}"
        return Verdict(Status.FAILED, confidence, reason, calibrated)
    if evidence.lateral_support < settings.min_lateral_support:
        reason = f"{basis}, but they are nearly parallel: the shift along them is unobservable"
        return Verdict(Status.AMBIGUOUS, min(confidence, 0.5), reason, calibrated)
    if evidence.runner_up_ratio is not None and evidence.runner_up_ratio >= settings.max_runner_up_ratio:
        return Verdict(Status.AMBIGUOUS, min(confidence, 0.5), f"{basis}, but {runner_up}", calibrated)
    return Verdict(Status.SUCCESS, confidence, f"{basis}; {runner_up}", calibrated)
