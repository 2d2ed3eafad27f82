"""The state of the viewer without its controls: two maps, the result, and the pose that is shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float64, Int64

from plueckernet.coincidence import coincident_lines, suggested_inlier_distance
from plueckernet.errors import InputError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import ReadReport, read_lines_report
from plueckernet.matchers import MatcherSource
from plueckernet.registration import refine, register
from plueckernet.report import About, report_html
from plueckernet.report.frame import DrawingFrame
from plueckernet.report.picture import as_segments
from plueckernet.report.words import pose_names
from plueckernet.result import RegistrationResult

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
BY_HAND = "by hand"
MAX_THRESHOLD_FACTOR = 2.0  # the slider goes up to this multiple of the inlier threshold


@dataclass(frozen=True, eq=False)
class PoseView:
    """The pose that is shown, and the pairs of lines that are close to each other under it."""

    name: str
    pose: Pose
    inlier_distance: float  # the inlier threshold of the registration, in map units
    pairs: Int64[np.ndarray, "k 2"]  # up to `MAX_THRESHOLD_FACTOR` inlier thresholds apart
    residuals: Float64[np.ndarray, "k 2"]  # distance in map units, angle in degrees

    def inliers(self, factor: float) -> Bool[np.ndarray, " k"]:
        """Which of the pairs are at most ``factor`` inlier thresholds apart."""
        return self.residuals[:, 0] <= factor * self.inlier_distance


class Session:
    """The state of one viewer. ``view`` is replaced as a whole, so that it can be drawn at any time."""

    def __init__(self) -> None:
        self.maps: dict[Side, ReadReport] = {}
        self.result: RegistrationResult | None = None
        self.choices: dict[str, Pose] = {}  # the poses that can be shown, by name
        self.view: PoseView | None = None
        self.use("invariant", RegistrationSettings())

    def use(self, matcher: MatcherSource, settings: RegistrationSettings) -> None:
        """Register and refine with this matcher and these settings."""
        self._matcher, self._settings = matcher, settings

    @property
    def ready(self) -> bool:
        """Whether both maps are loaded."""
        return len(self.maps) == 2

    def load(self, side: Side, path: Path, format: str | None = None) -> ReadReport:
        """Read a map and drop the result, which belongs to other maps."""
        report = read_lines_report(path, format=format)
        self.maps[side] = report
        self.result, self.choices, self.view = None, {}, None
        return report

    def frame(self) -> DrawingFrame:
        """The drawing frame; with only one map, that of the map alone."""
        sides = [as_segments(self.maps[side].lines) for side in SIDES if side in self.maps]
        return DrawingFrame.of(sides[0], sides[-1])

    def register(self, on_stage: Callable[[str], None] | None = None) -> RegistrationResult:
        """Register the maps and show the pose or, after a failure, the best candidate."""
        result = register(*self._lines(), matcher=self._matcher, settings=self._settings, on_stage=on_stage)
        poses = [] if result.rigid_pose is None else [result.rigid_pose]
        poses += [alternative.rigid_pose for alternative in result.alternatives]
        choices = dict(zip(pose_names(result), poses, strict=True))
        self.result, self.choices, self.view = result, choices, None
        if choices:
            self.choose(next(iter(choices)))
        return result

    def choose(self, name: str) -> None:
        """Show one of the poses."""
        inlier_distance = self._inlier_distance()
        settings = replace(self._settings, inlier_distance=MAX_THRESHOLD_FACTOR * inlier_distance)
        pose = self.choices[name]
        pairs, residuals = coincident_lines(*self._lines(), pose, settings=settings)
        self.view = PoseView(name, pose, inlier_distance, pairs.numpy(), residuals.numpy())

    def move_by_hand(self, pose: Pose) -> None:
        """Show a pose that was set by hand."""
        self.choices[BY_HAND] = pose
        self.choose(BY_HAND)

    def refine(self) -> RegistrationResult:
        """Refine the pose that is shown; if it is accepted, it becomes the result."""
        if self.view is None:
            raise InputError("there is no pose to refine: register the maps or move the source by hand")
        result = refine(*self._lines(), self.view.pose, matcher=self._matcher, settings=self._settings)
        if result.rigid_pose is None:
            raise InputError(f"no pose near this one was accepted: {result.reason}")
        self.result = result
        self.choices["refined"] = result.rigid_pose
        self.choose("refined")
        return result

    def report(self) -> str:
        """The result as an HTML page."""
        if self.result is None:
            raise InputError("there is nothing to report: register the maps first")
        names = [self.maps[side].path.name for side in SIDES]
        command = f"plueckernet view {names[0]} {names[1]}"
        return report_html(self.result, *self._lines(), About(names[0], names[1], command))

    def aligned(self) -> LineSet:
        """The source under the pose that is shown."""
        if self.view is None:
            raise InputError("there is no pose: register the maps first")
        return self.view.pose @ self._lines()[0]

    def _lines(self) -> tuple[LineSet, LineSet]:
        if not self.ready:
            raise InputError("two maps are needed: a source and a target")
        return self.maps["source"].lines, self.maps["target"].lines

    def _inlier_distance(self) -> float:
        """The inlier threshold of the registration or, without one, the threshold derived from the maps."""
        if self.result is None:
            return suggested_inlier_distance(*self._lines())
        return float(self.result.settings["inlier_distance"])
