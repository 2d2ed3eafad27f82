"""The trajectory of a sensor from the lines of its frames.

Each frame is registered to the previous one without an initial guess. The constant-velocity prediction is used in two
cases only: to choose between poses with nearly equal scores, and, marked as lost, when there is no pose. With a local
map the frame is then refined on all recent lines, which limits the drift.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from plueckernet.coincidence import coincident_lines
from plueckernet.errors import InputError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.io.trajectories import Trajectory, stack_poses
from plueckernet.matchers import MatcherSource
from plueckernet.odometry.line_map import LineMap
from plueckernet.registration import refine, register
from plueckernet.result import RegistrationResult

_MIN_FRAME_LINES = 3  # below it a frame cannot be registered


@dataclass(frozen=True)
class OdometrySettings:
    """Settings of :func:`track`; the defaults need not be changed."""

    local_map: bool = True  # refine frames on the recent lines, not only on the previous frame
    window: int = 20  # frames for which a line stays in the local map after it was last seen
    tie_score_ratio: float = 0.85  # of the best score; between poses above it the predicted motion decides
    max_map_shift: float = 0.3  # largest mean displacement of a frame by the local map, in map units
    max_map_rotation: float = 5.0  # largest rotation of a frame by the local map, in degrees
    min_map_inliers: int = 8  # lines that have to coincide with the local map
    registration: RegistrationSettings = field(default_factory=RegistrationSettings)


class Tracking(enum.StrEnum):
    """How the pose of a frame was found."""

    FIRST = "first"
    REGISTERED = "registered"
    TIED = "tied"  # several poses with nearly equal scores; the one closest to constant velocity was taken
    UNSURE = "unsure"  # the best candidate, which registration did not accept
    LOST = "lost"  # no pose; constant velocity was assumed


@dataclass(frozen=True, eq=False)
class Step:
    """One frame of the trajectory."""

    name: str
    time: float
    world_T_sensor: Pose
    previous_T_sensor: Pose  # the motion since the previous frame, from registration alone
    tracking: Tracking
    lines: int
    inliers: int  # lines that coincide with the previous frame
    on_map: bool  # whether the pose was refined on the local map
    confidence: float


@dataclass(frozen=True, eq=False)
class OdometryResult:
    """The trajectory, relative to the first frame, and the map of all frames."""

    steps: list[Step]
    line_map: LineMap

    def trajectory(self) -> Trajectory:
        """The poses and times of all frames."""
        times = torch.tensor([step.time for step in self.steps], dtype=torch.float64)
        return Trajectory(times, stack_poses([step.world_T_sensor for step in self.steps]))


@dataclass(frozen=True, eq=False)
class _Motion:
    """``previous_T_current`` and how it was found."""

    pose: Pose
    tracking: Tracking
    inliers: int = 0
    confidence: float = 0.0


def track(
    frames: Iterable[tuple[str, float, LineSet]],
    *,
    settings: OdometrySettings = OdometrySettings(),
    matcher: MatcherSource = "invariant",
    on_step: Callable[[Step], None] | None = None,
) -> OdometryResult:
    """Track a sensor through frames, each given as name, time and lines (segments in the sensor frame)."""
    steps: list[Step] = []
    line_map, velocity, previous = LineMap.empty(), Pose.identity(), None
    for name, time, lines in frames:
        motion = _Motion(Pose.identity(), Tracking.FIRST)
        world_T_previous = steps[-1].world_T_sensor if steps else Pose.identity()
        if steps:
            motion = _frame_to_frame(lines, previous, velocity, settings, matcher)
        world_T_sensor, on_map = world_T_previous @ motion.pose, False
        if settings.local_map and steps:
            world_T_sensor, on_map = _on_local_map(lines, world_T_sensor, line_map, len(steps), settings, matcher)
        line_map = _extended(line_map, lines, world_T_sensor, len(steps), settings)
        velocity = world_T_previous.inverse() @ world_T_sensor
        facts = motion.pose, motion.tracking, len(lines), motion.inliers, on_map, motion.confidence
        steps.append(Step(name, time, world_T_sensor, *facts))
        previous = lines
        if on_step is not None:
            on_step(steps[-1])
    if not steps:
        raise InputError("odometry needs at least one frame")
    return OdometryResult(steps, line_map)


def _frame_to_frame(
    lines: LineSet,
    previous: LineSet | None,
    velocity: Pose,
    settings: OdometrySettings,
    matcher: MatcherSource,
) -> _Motion:
    """The motion since the previous frame, registered without an initial guess."""
    if previous is None or min(len(lines), len(previous)) < _MIN_FRAME_LINES:
        return _Motion(velocity, Tracking.LOST)
    result = register(lines, previous, matcher=matcher, settings=settings.registration)
    tied = _tied_poses(result, settings.tie_score_ratio)
    if not tied:
        return _Motion(velocity, Tracking.LOST)
    chosen = min(tied, key=lambda pose: _mean_displacement(pose, velocity, lines))
    untied = Tracking.REGISTERED if result.ok else Tracking.UNSURE
    return _Motion(chosen, Tracking.TIED if len(tied) > 1 else untied, len(result.inliers), result.confidence)


def _tied_poses(result: RegistrationResult, min_score_ratio: float) -> list[Pose]:
    """The best pose and those with nearly the same score, accepted or not."""
    poses = [] if result.rigid_pose is None else [result.rigid_pose]
    min_score = min_score_ratio * result.score
    return [*poses, *(other.rigid_pose for other in result.alternatives if other.score >= min_score)]


def _mean_displacement(pose: Pose, other: Pose, lines: LineSet) -> float:
    """Mean distance between the anchors of a frame's lines under two poses."""
    points = lines.anchors()
    return float((pose.act(points) - other.act(points)).norm(dim=-1).mean())


def _on_local_map(
    lines: LineSet,
    world_T_sensor: Pose,
    line_map: LineMap,
    frame: int,
    settings: OdometrySettings,
    matcher: MatcherSource,
) -> tuple[Pose, bool]:
    """The pose refined on the recent lines, if enough of them coincide and the correction is small."""
    local = line_map.recent(frame - settings.window)
    if int(local.sum()) < _MIN_FRAME_LINES or len(lines) < _MIN_FRAME_LINES:
        return world_T_sensor, False
    result = refine(lines, line_map.lines(local), world_T_sensor, matcher=matcher, settings=settings.registration)
    # The status is ignored: the frame-to-frame registration has already judged whether the pose is unique.
    (refined, *_) = *_tied_poses(result, 1.0), world_T_sensor
    if len(result.inliers) < settings.min_map_inliers:
        return world_T_sensor, False
    rotation = float(refined.angle_to(world_T_sensor).rad2deg())
    shift = _mean_displacement(refined, world_T_sensor, lines)
    small = shift <= settings.max_map_shift and rotation <= settings.max_map_rotation
    return (refined, True) if small else (world_T_sensor, False)


def _extended(
    line_map: LineMap, lines: LineSet, world_T_sensor: Pose, frame: int, settings: OdometrySettings
) -> LineMap:
    """The map with the lines of a frame added; lines that coincide with recent lines are fused with them."""
    if len(lines) == 0:
        return line_map
    world_lines = world_T_sensor @ lines
    matches = torch.zeros(0, 2, dtype=torch.long)
    local = line_map.recent(frame - settings.window).nonzero()[:, 0]
    if min(len(local), len(lines)) >= _MIN_FRAME_LINES:
        rows, _ = coincident_lines(
            world_lines, line_map.lines()[local], Pose.identity(), settings=settings.registration
        )
        matches = torch.stack([rows[:, 0], local[rows[:, 1]]], -1)
    return line_map.with_frame(world_lines, matches, frame)
