"""What a dataset is made of while it is prepared: units, and the scenes and pairs that each gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from plueckernet.data.datasets import SensorFrame
from plueckernet.data.prepared import PairEntry
from plueckernet.geometry import LineSet, Pose

UNDECIDED = "undecided"  # split of a scene before all scenes are known

LinesOf = Callable[[SensorFrame], LineSet]


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene to be written."""

    name: str
    lines: LineSet
    split: str = UNDECIDED
    world_T_scene: Pose | None = None


@dataclass(frozen=True, eq=False)
class UnitResult:
    """The scenes and pairs of one unit."""

    scenes: list[Scene] = field(default_factory=list)
    pairs: list[PairEntry] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A part of a dataset that is prepared in one step, perhaps in another process: ``make`` can be pickled."""

    name: str
    make: Callable[[], UnitResult]


@dataclass(frozen=True)
class Dataset:
    """Preparation of one dataset."""

    description: str
    units: Callable[[Path, LinesOf], list[Unit]]
    consecutive: bool = False  # whether neighbouring scenes form pairs
    census: Callable[[Path], str] | None = None  # how much of what is published is there
