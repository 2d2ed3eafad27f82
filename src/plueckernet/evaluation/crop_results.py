"""Counts of registrations of neighbouring crops, by map and overlap, whatever method found the poses.

Needs nothing but Python, so that other methods can be counted in environments without torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plueckernet.evaluation.outcomes import Outcome, OutcomeSummary, summarise_outcomes

OVERLAPS = ((0.5, 0.8), (0.3, 0.5), (0.2, 0.3), (0.1, 0.2))  # fraction of lines in common, from and below


def band_name(low: float, high: float) -> str:
    """A row of :data:`OVERLAPS` in words."""
    return f"{low:g} to {high:g} in common"


@dataclass(frozen=True)
class CropOutcome:
    """One pair."""

    place: str  # name of the map
    overlap: int  # row of OVERLAPS
    outcome: Outcome


@dataclass(frozen=True)
class CropCell:
    """The pairs of one overlap, of one map or of all."""

    place: str | None  # None: all maps
    overlap: tuple[float, float]
    summary: OutcomeSummary


@dataclass(frozen=True)
class CropValues:
    """All pairs, by overlap, and by map and overlap."""

    method: str
    fingerprint: str  # of the pairs: results of other pairs cannot be compared
    totals: tuple[CropCell, ...]
    maps: tuple[CropCell, ...]
    settings: Mapping[str, object] = field(default_factory=dict)  # of a competitor, and how they were chosen

    def cells(self, place: str | None) -> tuple[CropCell, ...]:
        """Of one map, or of all, by overlap."""
        return self.totals if place is None else tuple(cell for cell in self.maps if cell.place == place)

    @property
    def places(self) -> list[str | None]:
        """All maps."""
        return list(dict.fromkeys(cell.place for cell in self.maps))


def crop_values(
    method: str, fingerprint: str, outcomes: Sequence[CropOutcome], settings: Mapping[str, object] | None = None
) -> CropValues:
    """Totals by overlap, and a cell for each map and overlap."""

    def cell(overlap: int, place: str | None) -> CropCell:
        chosen = [crop.outcome for crop in outcomes if crop.overlap == overlap and place in (None, crop.place)]
        return CropCell(place, OVERLAPS[overlap], summarise_outcomes(chosen))

    places, rows = sorted({crop.place for crop in outcomes}), range(len(OVERLAPS))
    return CropValues(
        method,
        fingerprint,
        totals=tuple(cell(overlap, None) for overlap in rows),
        maps=tuple(cell(overlap, place) for place in places for overlap in rows),
        settings=settings or {},
    )
