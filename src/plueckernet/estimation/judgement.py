"""Whether a registration is to be believed.

Two maps of nothing in common can still be laid on each other so that many lines coincide; man-made places are full
of right angles. What gives a wrong pose away is that others explain the maps about as well.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.refinement import Refinement

# Of a logistic model of `features`, fitted by `python -m benchmarks.confidence`: where the matcher gives probabilities
# that mean something, as the networks do, and where it does not or there is none.
LEARNED = (10.874, 0.345, -5.396, 0.644, 5.032, 3.631, 4.832)
PLAIN = (15.198, 0.635, -8.551, 1.149, 4.817, 4.244)
_BELIEVE = 0.9  # confidence from which a pose is called a success
_UNSEEN = 0.7  # relative score of a rival that was not looked for hard enough to be found
_RIVAL = 0.9  # relative score from which a rival is as good
_LEAST = 1e-3  # ratios below are no worse
_HELD = 1.5  # lines across a direction below which nothing contradicts a shift along it: one can always be made to fit


@dataclass(frozen=True)
class Evidence:
    """What speaks for and against the best pose."""

    inliers: int  # pairs of lines that lie on each other
    share: float  # score of the pose for each line of the smaller map: lines explained, times the share borne out
    rival: float  # lines explained by the best other pose, relative to this one
    balance: float  # lines of the smaller map over those of the larger: a large map explains a small one by chance
    borne_out: float  # share explained of the lines that come to lie where the other map has lines
    held: float  # of the lines that lie on each other, how many lie across the direction that most are parallel to
    agreement: float | None = None  # share of the matcher's probability that the pose bears out, where it has any

    @classmethod
    def gather(
        cls,
        refined: Sequence[tuple[float, Refinement]],
        counts: tuple[int, int],
        borne_out: float,
        directions: Float[Tensor, "k 3"],
        agreement: float | None,
    ) -> Evidence:
        """From one or more refined candidates and the number of lines they explain, best first.

        ``directions`` are those of the lines that the best of them lays on each other.
        """
        score, best = refined[0]
        # A search that found one pose only says nothing about rivals: one of middling strength is assumed.
        rival = refined[1][0] / max(score, 1e-9) if len(refined) > 1 else _UNSEEN
        share, balance = min(1.0, score / min(counts)), min(counts) / max(counts)
        return Evidence(len(best.matches), share, rival, balance, borne_out, held(directions), agreement)

    @classmethod
    def nothing(cls, counts: tuple[int, int], agreement: float | None = None) -> Evidence:
        """Where no pose was found."""
        return Evidence(0, 0.0, 1.0, min(counts) / max(1, *counts), 0.0, 0.0, agreement)

    @property
    def unrivalled(self) -> bool:
        """No other pose was found; ``rival`` is what is assumed of one."""
        return self.rival == _UNSEEN


def held(directions: Float[Tensor, "k 3"]) -> float:
    """How many lines resist a shift in the direction in which it is easiest: they count by the square of the sine."""
    along = directions.mT @ directions
    return max(0.0, len(directions) - float(torch.linalg.eigvalsh(along)[-1]))


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
    """What the logistic model sees: a constant, then the evidence, ratios by their logarithm; agreement last."""
    ratios = (math.log(max(value, _LEAST)) for value in (evidence.share, evidence.balance, evidence.borne_out))
    known = () if evidence.agreement is None else (evidence.agreement,)
    return 1.0, math.log1p(evidence.held), evidence.rival, *ratios, *known


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
    basis = f"{evidence.inliers} lines coincide, {evidence.borne_out:.0%} of those that should"
    rival = f"another pose explains {evidence.rival:.0%} as much"
    if evidence.unrivalled:
        rival = "no other pose was found to compare with"
    if sure >= _BELIEVE and evidence.held < _HELD:
        nothing = "those lines are nearly parallel, and nothing fixes the shift along them"
        return Verdict(Status.AMBIGUOUS, min(sure, 0.5), f"{basis}, but {nothing}")
    if sure >= _BELIEVE and evidence.rival < _RIVAL:
        return Verdict(Status.SUCCESS, sure, f"{basis}; {rival}")
    if sure >= _BELIEVE:  # a symmetric place: one of several equally good poses
        return Verdict(Status.AMBIGUOUS, min(sure, 0.5), f"{basis}, but {rival}")
    return Verdict(Status.FAILED, sure, f"only {basis}, and {rival}")
