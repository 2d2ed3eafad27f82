"""Registrations compared with the truth, one by one and in sum.

A pose is *right* if its error is below 5° and 0.5 m. The best pose of a registration counts, whether it was accepted or
not; a *false success* is a wrong pose with the status success. This module needs nothing but Python, so that other
methods can be counted in environments without torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from plueckernet.evaluation.rates import Rate

RIGHT = (5.0, 0.5)  # degrees and metres below which a pose is right
STRICT = (1.0, 0.1)
RIGHT_MEANS = "the error of the best pose, accepted or not, is below 5° and 0.5 m"
FALSE_SUCCESS = "wrong and called a success"  # how rows that count them end
MIN_COMMON = 10  # lines in common below which a pair may have no answer


@dataclass(frozen=True)
class Outcome:
    """One registration."""

    error: tuple[float, float] | None  # of the best pose, accepted or not: degrees, metres; None without a pose
    accepted: bool  # whether the status was success
    common: int  # lines in common, of the side that has fewer
    right_matches: int = 0  # among the putative matches

    @property
    def right(self) -> bool:
        """Whether the best pose is right."""
        return is_right(self.error)


@dataclass(frozen=True)
class OutcomeSummary:
    """The outcomes of a group of pairs."""

    registered: int  # pairs, whatever they have in common
    right: Rate  # of the pairs that count: the best pose is right, accepted or not
    right_and_accepted: Rate
    false_successes: int  # of all registered pairs
    accepted: int | None  # of all registered pairs; None where it was not recorded
    strict: Rate | None = None  # below 1° and 0.1 m
    rotation_median: float | None = None  # degrees, of the right poses
    translation_median: float | None = None  # m
    right_matches_median: float | None = None

    @property
    def pairs(self) -> int:
        """Pairs that count."""
        return self.right.total

    @property
    def false_success_text(self) -> str:
        """``2 of 130 called a success``, or of all pairs where the former was not recorded."""
        if self.accepted is None:
            return f"{self.false_successes:,} of {self.registered:,} pairs"
        return f"{self.false_successes:,} of {self.accepted:,} called a success"


def is_right(error: tuple[float, float] | None, limits: tuple[float, float] = RIGHT) -> bool:
    """Whether an error in degrees and metres is below the limits."""
    return error is not None and error[0] < limits[0] and error[1] < limits[1]


def summarise_outcomes(outcomes: Sequence[Outcome], min_common: int = 0) -> OutcomeSummary:
    """Rates over the pairs with at least ``min_common`` lines in common; false successes over all."""
    counted = [outcome for outcome in outcomes if outcome.common >= min_common]
    errors = [outcome.error for outcome in counted if outcome.error is not None and outcome.right]
    return OutcomeSummary(
        registered=len(outcomes),
        right=Rate.of([outcome.right for outcome in counted]),
        right_and_accepted=Rate.of([outcome.right and outcome.accepted for outcome in counted]),
        false_successes=sum(outcome.accepted and not outcome.right for outcome in outcomes),
        accepted=sum(outcome.accepted for outcome in outcomes),
        strict=Rate.of([is_right(outcome.error, STRICT) for outcome in counted]),
        rotation_median=median(error[0] for error in errors) if errors else None,
        translation_median=median(error[1] for error in errors) if errors else None,
        right_matches_median=float(median(outcome.right_matches for outcome in counted)) if counted else None,
    )
