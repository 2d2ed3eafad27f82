"""The state of the viewer without its page: two maps, the result, and the poses that can be shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from plueckernet.coincidence import CoincidenceFinder
from plueckernet.errors import InputError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import ReadReport, read_lines_report
from plueckernet.matchers import MatcherSource
from plueckernet.registration import refine, register
from plueckernet.report import About, report_html
from plueckernet.report.cards import cards_html
from plueckernet.report.frame import DrawingFrame
from plueckernet.report.scene import ShownPose, drawing, drawing_frame, scene, shown_poses, threshold_settings
from plueckernet.report.words import IN_VIEWER
from plueckernet.result import RegistrationResult

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
BY_HAND, REFINED = "by hand", "refined"


class Session:
    """The state of one viewer."""

    def __init__(self) -> None:
        self.maps: dict[Side, ReadReport] = {}
        self.result: RegistrationResult | None = None
        self.shown: list[ShownPose] = []
        self.focus = 0  # the place of the pose that the last action gave
        self.use("invariant", RegistrationSettings())

    def use(self, matcher: MatcherSource, settings: RegistrationSettings) -> None:
        """Register and refine with this matcher and these settings."""
        self._matcher, self._settings = matcher, settings

    @property
    def ready(self) -> bool:
        """Whether both maps are loaded."""
        return len(self.maps) == 2

    def load(self, side: Side, path: Path) -> None:
        """Read a map and use it."""
        self.put(side, read_lines_report(path))

    def put(self, side: Side, report: ReadReport) -> None:
        """Use a map, and drop the result, which belongs to other maps."""
        self.maps[side] = report
        self.result, self.shown, self.focus = None, [], 0

    def register(self, on_stage: Callable[[str], None] | None = None) -> RegistrationResult:
        """Register the maps; the first pose to show is the pose or, after a failure, the best candidate."""
        result = register(*self._lines(), matcher=self._matcher, settings=self._settings, on_stage=on_stage)
        self.take(result)
        return result

    def take(self, result: RegistrationResult) -> None:
        """Show a result of these maps."""
        self.shown = shown_poses(result, *self._lines())
        self.result, self.focus = result, 0

    def move_by_hand(self, pose: Pose) -> None:
        """Add a pose that was set by hand, in place of the last such pose."""
        pairs, residuals = self._finder().pairs(pose)
        others = [other for other in self.shown if other.name != BY_HAND]
        self.shown = [*others, ShownPose(BY_HAND, pose, pairs.numpy(), residuals.numpy())]
        self.focus = len(others)

    def refine(self, index: int) -> RegistrationResult:
        """Refine one of the poses; an accepted pose becomes the result, and its alternatives replace the others."""
        result = refine(*self._lines(), self.pose(index), matcher=self._matcher, settings=self._settings)
        if result.target_T_source is None:
            raise InputError(f"no pose near this one was accepted: {result.reason}")
        self.take(result)
        self.shown[0] = replace(self.shown[0], name=REFINED)
        return result

    def pose(self, index: int) -> Pose:
        """One of the poses that can be shown."""
        if not 0 <= index < len(self.shown):
            raise InputError("there is no such pose: register the maps or move the source by hand")
        return self.shown[index].pose

    def frame(self) -> DrawingFrame:
        """The drawing frame of both maps."""
        return drawing_frame(*self._lines())

    def drawing(self) -> dict[str, Any] | None:
        """What the page draws; None without a map."""
        if not self.maps:
            return None
        sides = [self.maps[side].lines if side in self.maps else None for side in SIDES]
        if self.result is None:
            distance = self._finder().inlier_distance if self.shown else 1.0
            return drawing(sides[0], sides[1], self.shown, distance)
        return scene(self.result, *self._lines(), self.shown)

    def cards(self) -> str:
        """The cards of the report for the result."""
        return "" if self.result is None else cards_html(self.result, self.shown, self._about(), IN_VIEWER)

    def report(self) -> str:
        """The result as an HTML page."""
        if self.result is None:
            raise InputError("there is nothing to report: register the maps first")
        return report_html(self.result, *self._lines(), self._about())

    def aligned(self, index: int = 0) -> LineSet:
        """The source under one of the poses."""
        return self.pose(index) @ self._lines()[0]

    def _about(self) -> About:
        names = [self.maps[side].path.name for side in SIDES]
        return About(names[0], names[1], f"plueckernet view {names[0]} {names[1]}")

    def _lines(self) -> tuple[LineSet, LineSet]:
        if not self.ready:
            raise InputError("two maps are needed: a source and a target")
        return self.maps["source"].lines, self.maps["target"].lines

    def _finder(self) -> CoincidenceFinder:
        """Finds coincident lines by the inlier threshold of the result or, without one, that of the maps."""
        settings = self._settings if self.result is None else threshold_settings(self.result)
        return CoincidenceFinder(*self._lines(), settings)
