"""The verdict on kept evidence, so that another calibration needs no registration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import (
    DESCRIPTOR_CALIBRATION,
    Calibration,
    JudgementSettings,
    Status,
    judge,
    weigh,
)
from plueckernet.evaluation.predictions import PredictedCandidate


@dataclass(frozen=True)
class Rejudged:
    """What a calibration says about the candidates of a registration."""

    status: Status
    confidence: float
    best: int = 0  # row of the most probable candidate


def rejudge(
    evidence: Sequence[Evidence],
    groups: Sequence[int],
    calibration: Calibration | None,
    exchangeable: int = 1,
    unobservable: bool = False,
    settings: JudgementSettings = JudgementSettings(),
) -> Rejudged:
    """Weigh candidates against each other; without a calibration by that of descriptors, as :func:`register` does.

    ``exchangeable`` is the number of poses that a symmetry relates, and ``unobservable`` whether a motion is.
    """
    if not evidence:
        return Rejudged(Status.FAILED, 0.0)
    weighing = weigh(evidence, groups, calibration or DESCRIPTOR_CALIBRATION).shared(exchangeable)
    verdict = judge(evidence[weighing.best], weighing, (), settings, calibration is not None)
    undetermined = unobservable and verdict.status is Status.SUCCESS
    return Rejudged(Status.AMBIGUOUS if undetermined else verdict.status, verdict.confidence, weighing.best)


def kept_evidence(candidates: Sequence[PredictedCandidate]) -> tuple[Evidence, ...]:
    """Evidence as predictions keep it."""
    return tuple(_evidence(candidate.evidence) for candidate in candidates)


def _evidence(content: Mapping[str, object]) -> Evidence:
    return Evidence(**content)  # type: ignore[arg-type]
