"""What the paper's protocol takes for granted and a user's maps do not have.

Its lines are infinite, directed alike in both maps, and err at their feet from the origin of their own frame. This is
the only place that tells :func:`plueckernet.register` so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from plueckernet.geometry.lines import LineSet
from plueckernet.registration import LineMatcher, RegistrationSettings, register
from plueckernet.result import RegistrationResult


@dataclass(frozen=True)
class ToldSettings:
    """Registration that is told the directions of the lines and where their noise acts."""

    registration: RegistrationSettings = field(default_factory=lambda: RegistrationSettings(directed=True))


def register_told(
    source: LineSet, target: LineSet, matcher: LineMatcher | str, told: ToldSettings, device: str = "cpu"
) -> RegistrationResult:
    """Register lines with the paper's noise: refined about the origins of both frames."""
    settings = replace(told.registration, noise_at_origin=True)
    return register(source, target, matcher=matcher, settings=settings, device=device)
