"""Whether a registration is to be believed.

Two maps of nothing in common can still be laid on each other so that many lines coincide; man-made places are full
of right angles. What gives a wrong pose away is that others explain the maps about as well.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from plueckernet.estimation.refinement import Refinement

# Of a logistic model of `features`, fitted by `python -m benchmarks.confidence`: where the matcher gives probabilities
# that mean something, as the networks do, and where it does not or there is none.
LEARNED = (1.827, 0.473, 11.834, -9.466, 3.308, 7.583, 5.801)
PLAIN = (-0.537, 0.594, 15.032, -7.581, 3.908, 11.276)
_BELIEVE = 0.8  # confidence from which a pose is called a success
_UNSEEN = 0.7  # relative score of a rival that was not looked for hard enough to be found
_RIVAL = 0.9  # relative score from which a rival is as good


@dataclass(frozen=True)
class Evidence:
    """What speaks for and against the best pose."""

    inliers: int  # pairs of lines that lie on each other
    share: float  # of the lines of the smaller map that the pose explains
    rival: float  # lines explained by the best other pose, relative to this one
    balance: float  # lines of the smaller map over those of the larger: a large map explains a small one by chance
    borne_out: float  # share explained of the lines that come to lie where the other map has lines
    agreement: float | None = None  # share of the matcher's probability that the pose bears out, where it has any

    @classmethod
    def gather(
        cls,
        refined: Sequence[tuple[float, Refinement]],
        counts: tuple[int, int],
        borne_out: float,
        agreement: float | None,
    ) -> Evidence:
        """From the refined candidates and the number of lines they explain, best first."""
        balance = min(counts) / max(counts)
        if not refined:
            return Evidence(0, 0.0, 1.0, balance, borne_out, agreement)
        score, best = refined[0]
        # A search that found one pose only says nothing about rivals: one of middling strength is assumed.
        rival = refined[1][0] / max(score, 1e-9) if len(refined) > 1 else _UNSEEN
        return Evidence(len(best.matches), min(1.0, score / min(counts)), rival, balance, borne_out, agreement)


class Status(enum.StrEnum):
    """Whether the pose is to be used."""

    SUCCESS = "success"
    AMBIGUOUS = "ambiguous"  # another pose explains the maps about as well
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """A status with its reason in words."""

    status: Status
    confidence: float
    reason: str


def features(evidence: Evidence) -> tuple[float, ...]:
    """What the logistic model sees: a constant, then the evidence in its order; agreement last, if there is any."""
    known = () if evidence.agreement is None else (evidence.agreement,)
    inliers, balance = math.log1p(evidence.inliers), math.log(evidence.balance)
    return 1.0, inliers, evidence.share, evidence.rival, balance, evidence.borne_out, *known


def confidence(evidence: Evidence) -> float:
    """The share of results with such evidence that are right."""
    if evidence.inliers == 0:
        return 0.0
    weights = PLAIN if evidence.agreement is None else LEARNED
    logit = sum(w * x for w, x in zip(weights, features(evidence), strict=True))
    return 1 / (1 + math.exp(-logit))


def judge(evidence: Evidence) -> Verdict:
    """Success, ambiguity or failure, and why."""
    if evidence.inliers == 0:
        return Verdict(Status.FAILED, 0.0, "no pose explains three lines or more of both maps")
    sure = confidence(evidence)
    basis = f"{evidence.inliers} lines coincide and {evidence.share:.0%} of the smaller map is explained"
    rival = f"another pose explains {evidence.rival:.0%} as much"
    if evidence.rival == _UNSEEN:
        rival = "no other pose was found to compare with"
    if sure >= _BELIEVE and evidence.rival < _RIVAL:
        return Verdict(Status.SUCCESS, sure, f"{basis}; {rival}")
    if sure >= _BELIEVE:  # a symmetric place: one of several equally good poses
        return Verdict(Status.AMBIGUOUS, min(sure, 0.5), f"{basis}, but {rival}")
    return Verdict(Status.FAILED, sure, f"only {basis}, and {rival}")
