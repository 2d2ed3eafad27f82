"""What the viewer is about, apart from how it looks: two maps, what was found, and the pose that is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import ReadReport, read_lines_report
from plueckernet.registration import RegistrationSettings, coincident_lines, refine, register, suggested_tolerance
from plueckernet.report import About, report_html
from plueckernet.report.frame import Frame
from plueckernet.report.picture import as_segments
from plueckernet.result import RegistrationResult

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
BY_HAND = "by hand"
WIDEST = 2.0  # tolerances within which pairs are looked for


@dataclass(frozen=True, eq=False)
class View:
    """One pose, and the pairs of lines that come close to each other under it."""

    name: str
    pose: Pose
    tolerance: float  # from where on two lines differ
    pairs: Int64[np.ndarray, "k 2"]  # up to `WIDEST` tolerances apart
    residuals: Float64[np.ndarray, "k 2"]  # distance in map units, angle in degrees

    def inliers(self, threshold: float) -> Bool[np.ndarray, " k"]:
        """Which of the pairs are at most so many tolerances apart."""
        return self.residuals[:, 0] <= threshold * self.tolerance


class Session:
    """The state of one viewer; what is looked at changes in one step, so that it can be drawn at any time."""

    def __init__(self) -> None:
        self.maps: dict[Side, ReadReport] = {}
        self.result: RegistrationResult | None = None
        self.choices: dict[str, Pose] = {}  # poses to look at, by name
        self.view: View | None = None

    @property
    def ready(self) -> bool:
        """Whether both maps are there."""
        return len(self.maps) == 2

    def load(self, side: Side, path: Path) -> ReadReport:
        """Read a map; what was found before belongs to other maps and is forgotten."""
        report = read_lines_report(path)
        self.maps[side] = report
        self.result, self.choices, self.view = None, {}, None
        return report

    def frame(self) -> Frame:
        """Where things are drawn; a map that is alone is drawn by itself."""
        sides = [as_segments(self.maps[side].lines) for side in SIDES if side in self.maps]
        return Frame.of(sides[0], sides[-1])

    def register(self, on_stage: Callable[[str], None] | None = None) -> RegistrationResult:
        """Find the pose, or what comes closest."""
        result = register(*self._lines(), on_stage=on_stage)
        failed = result.target_T_source is None
        found = [] if result.target_T_source is None else [("registered", result.target_T_source)]
        for place, other in enumerate(result.alternatives, start=1):
            found.append((f"candidate {place}" if failed else f"alternative {place}", other.target_T_source))
        self.result, self.choices, self.view = result, dict(found), None
        if found:
            self.choose(found[0][0])
        return result

    def choose(self, name: str) -> None:
        """Look at one of the poses."""
        tolerance = self._tolerance()
        settings = RegistrationSettings(position_tolerance=WIDEST * tolerance)
        pose = self.choices[name].to("cpu")
        pairs, residuals = coincident_lines(*self._lines(), pose, settings=settings)
        self.view = View(name, pose, tolerance, pairs.numpy(), residuals.numpy())

    def move_by_hand(self, pose: Pose) -> None:
        """Look at a pose that somebody made."""
        self.choices[BY_HAND] = pose
        self.choose(BY_HAND)

    def refine(self) -> RegistrationResult:
        """Improve the pose that is looked at; if that succeeds it is the result."""
        if self.view is None:
            raise InputError("there is no pose to refine: register the maps or move the source by hand")
        result = refine(*self._lines(), self.view.pose)
        if result.target_T_source is None:
            raise InputError(f"no pose near this one deserves belief: {result.reason}")
        self.result = result
        self.choices["refined"] = result.target_T_source
        self.choose("refined")
        return result

    def report(self) -> str:
        """The result as a page."""
        if self.result is None:
            raise InputError("there is nothing to report: register the maps first")
        names = [self.maps[side].path.name for side in SIDES]
        command = f"plueckernet view {names[0]} {names[1]}"
        return report_html(self.result, *self._lines(), About(names[0], names[1], command))

    def aligned(self) -> LineSet:
        """The source under the pose that is looked at."""
        if self.view is None:
            raise InputError("there is no pose: register the maps first")
        return self.view.pose @ self._lines()[0]

    def _lines(self) -> tuple[LineSet, LineSet]:
        if not self.ready:
            raise InputError("two maps are needed: a source and a target")
        return self.maps["source"].lines, self.maps["target"].lines

    def _tolerance(self) -> float:
        """That of the registration; where there was none, that which the maps suggest."""
        if self.result is None:
            return suggested_tolerance(*self._lines())
        return float(self.result.settings["position_tolerance"])
