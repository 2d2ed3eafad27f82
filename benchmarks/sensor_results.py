"""Registration of real scans and odometry, as documents that the pages are made from. Needs nothing but Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from plueckernet.evaluation.outcomes import Outcome, OutcomeSummary, summarise_outcomes
from plueckernet.evaluation.rates import Rate


@dataclass(frozen=True)
class ScanOutcome:
    """One registration of two scans."""

    group: str
    outcome: Outcome
    lines: tuple[int, int] | None = None  # of source and target; None for methods that use points
    right_candidate: bool = False  # whether any of the poses that were considered to the end is right
    confidence: float | None = None
    voxel: float | None = None  # m, of methods that use points
    seconds: float | None = None


@dataclass(frozen=True)
class ScanGroup:
    """All pairs of one place."""

    group: str
    summary: OutcomeSummary
    right_candidate: Rate | None = None
    lines_median: float | None = None
    voxel: float | None = None


@dataclass(frozen=True)
class ScanValues:
    """Registrations by one method."""

    method: str
    groups: tuple[ScanGroup, ...]
    outcomes: tuple[ScanOutcome, ...]

    def of(self, group: str) -> list[ScanGroup]:
        """One, or one for each voxel size."""
        return [entry for entry in self.groups if entry.group == group]


@dataclass(frozen=True)
class Drift:
    """Relative errors from frame to frame."""

    rotation_median: float  # degrees
    rotation_rmse: float
    translation_median: float  # m
    translation_rmse: float
    close: Rate  # frames within 1° and 2 cm
    absolute_rmse: float | None = None  # m
    failed: int | None = None


@dataclass(frozen=True)
class SequenceDrift:
    """One sequence by all methods that ran on it."""

    frames: int
    methods: Mapping[str, Drift]
    lines_median: float | None = None
    tracking: Mapping[str, int] | None = None  # frames by how they were tracked


@dataclass(frozen=True)
class OdometryValues:
    """By sequence."""

    sequences: Mapping[str, SequenceDrift]


def scan_values(method: str, outcomes: Sequence[ScanOutcome]) -> ScanValues:
    """Groups in the order of their first pair; of methods with a voxel size one group for each."""
    keys = dict.fromkeys((entry.group, entry.voxel) for entry in outcomes)
    groups = []
    for group, voxel in keys:
        chosen = [entry for entry in outcomes if (entry.group, entry.voxel) == (group, voxel)]
        counts = [count for entry in chosen for count in entry.lines or ()]
        groups.append(
            ScanGroup(
                group,
                summarise_outcomes([entry.outcome for entry in chosen]),
                Rate.of([entry.right_candidate for entry in chosen]) if counts else None,
                float(median(counts)) if counts else None,
                voxel,
            )
        )
    return ScanValues(method, tuple(groups), tuple(outcomes))
