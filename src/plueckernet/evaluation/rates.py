"""Counts of successes, printed so that no rounding flatters them. Needs nothing but Python."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """``count`` of ``total``; prints as ``274 of 275 (99.6 %)``."""

    count: int
    total: int

    def __post_init__(self) -> None:
        if not 0 <= self.count <= self.total:
            raise ValueError(f"expected 0 <= count <= total, got {self.count} of {self.total}")

    @classmethod
    def of(cls, flags: list[bool]) -> Rate:
        """How many of the flags are set."""
        return cls(sum(flags), len(flags))

    @property
    def fraction(self) -> float:
        """Between 0 and 1; 0 where there is nothing to count."""
        return self.count / max(1, self.total)

    @property
    def percent(self) -> str:
        """The fraction alone; a dash where there is nothing to count."""
        return percent(self.fraction) if self.total else "–"

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.count + other.count, self.total + other.total)

    def __str__(self) -> str:
        return f"{self.count:,} of {self.total:,} ({self.percent})" if self.total else "0 of 0"


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction in percent. Only 1 prints as 100 % and only 0 as 0 %; a missing value prints as a dash."""
    if fraction is None:
        return "–"
    if fraction in (0.0, 1.0):
        return f"{100 * fraction:.0f} %"
    step = 10.0**-digits
    return f"{min(100 - step, max(step, 100 * fraction)):.{digits}f} %"
