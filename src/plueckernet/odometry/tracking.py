"""Where a sensor went, from the lines of its frames.

Each frame is registered to the one before with no initial guess. Motion as in the step before, a constant velocity,
decides only between poses that explain the lines about equally well, and stands in, marked as lost, where there is
none. With a local map the frame is then laid on all lines seen lately, which keeps small errors from adding up.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.io.trajectories import Trajectory, stack_poses
from plueckernet.odometry.line_map import LineMap
from plueckernet.registration import (
    LineMatcher,
    RegistrationSettings,
    coincident_lines,
    refine,
    register,
)
from plueckernet.result import RegistrationResult

_FEWEST = 3  # lines that a frame needs to be registered


@dataclass(frozen=True)
class OdometrySettings:
    """None of these needs to be set."""

    local_map: bool = True  # lay frames on the lines seen lately, not only on the frame before
    window: int = 20  # frames that a line stays in the local map after it was last seen
    tie: float = 0.85  # of the best score; poses above it are as good, and the velocity decides
    furthest: float = 0.3  # how far the map may move a frame, in map units
    turned: float = 5.0  # and turn it, in degrees
    fewest: int = 8  # lines that have to coincide with the map before it is believed
    registration: RegistrationSettings = field(default_factory=RegistrationSettings)


class Tracking(enum.StrEnum):
    """How the pose of a frame was found."""

    FIRST = "first"
    REGISTERED = "registered"
    TIED = "tied"  # several poses were as good; the one nearest to constant velocity was taken
    UNSURE = "unsure"  # the best pose, though registration does not believe it
    LOST = "lost"  # no pose; constant velocity was assumed


@dataclass(frozen=True, eq=False)
class Step:
    """One frame of the trajectory."""

    name: str
    time: float
    world_T_sensor: Pose
    previous_T_sensor: Pose  # the motion since the frame before, as registration alone found it
    tracking: Tracking
    lines: int
    inliers: int  # lines that coincide with the frame before
    on_map: bool  # whether the local map had a say
    confidence: float


@dataclass(frozen=True, eq=False)
class OdometryResult:
    """The trajectory, in the frame of the first frame, and the map made of all frames."""

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
    matcher: LineMatcher | str = "invariant",
    on_step: Callable[[Step], None] | None = None,
) -> OdometryResult:
    """Follow a sensor through frames given as name, time and lines (segments in the frame of the sensor)."""
    steps: list[Step] = []
    line_map, velocity, before = LineMap.empty(), Pose.identity(), None
    for name, time, lines in frames:
        motion = _Motion(Pose.identity(), Tracking.FIRST)
        world_T_previous = steps[-1].world_T_sensor if steps else Pose.identity()
        if steps:
            motion = _frame_to_frame(lines, before, velocity, settings, matcher)
        world_T_sensor, on_map = world_T_previous @ motion.pose, False
        if settings.local_map and steps:
            world_T_sensor, on_map = _on_local_map(lines, world_T_sensor, line_map, len(steps), settings, matcher)
        line_map = _extended(line_map, lines, world_T_sensor, len(steps), settings)
        velocity = world_T_previous.inverse() @ world_T_sensor
        found = motion.pose, motion.tracking, len(lines), motion.inliers, on_map, motion.confidence
        steps.append(Step(name, time, world_T_sensor, *found))
        before = lines
        if on_step is not None:
            on_step(steps[-1])
    if not steps:
        raise InputError("odometry needs at least one frame")
    return OdometryResult(steps, line_map)


def _frame_to_frame(
    lines: LineSet,
    before: LineSet | None,
    velocity: Pose,
    settings: OdometrySettings,
    matcher: LineMatcher | str,
) -> _Motion:
    """The motion since the frame before, searched for without a guess."""
    if before is None or min(len(lines), len(before)) < _FEWEST:
        return _Motion(velocity, Tracking.LOST)
    result = register(lines, before, matcher=matcher, settings=settings.registration)
    tied = _as_good(result, settings.tie)
    if not tied:
        return _Motion(velocity, Tracking.LOST)
    chosen = min(tied, key=lambda pose: _apart(pose, velocity, lines))
    alone = Tracking.REGISTERED if result.ok else Tracking.UNSURE
    return _Motion(chosen, Tracking.TIED if len(tied) > 1 else alone, len(result.inliers), result.confidence)


def _as_good(result: RegistrationResult, tie: float) -> list[Pose]:
    """The best pose and those that explain nearly as many lines, whether registration believes in them or not."""
    poses = [] if result.target_T_source is None else [result.target_T_source]
    others = [one.target_T_source for one in result.alternatives if one.score >= tie * result.score]
    return [*poses, *others]


def _apart(pose: Pose, other: Pose, lines: LineSet) -> float:
    """Mean distance between where two poses put the lines of a frame."""
    points = lines.anchors()
    return float((pose.act(points) - other.act(points)).norm(dim=-1).mean())


def _on_local_map(
    lines: LineSet,
    world_T_sensor: Pose,
    line_map: LineMap,
    frame: int,
    settings: OdometrySettings,
    matcher: LineMatcher | str,
) -> tuple[Pose, bool]:
    """The pose improved on the lines seen lately, if enough of them coincide and it stays near."""
    local = line_map.recent(frame - settings.window)
    if int(local.sum()) < _FEWEST or len(lines) < _FEWEST:
        return world_T_sensor, False
    result = refine(lines, line_map.lines(local), world_T_sensor, matcher=matcher, settings=settings.registration)
    # Whether it is the only such pose is not asked here: frame-to-frame has answered that.
    (improved, *_) = *_as_good(result, 1.0), world_T_sensor
    if len(result.inliers) < settings.fewest:
        return world_T_sensor, False
    turned = float(improved.angle_to(world_T_sensor).rad2deg())
    near = _apart(improved, world_T_sensor, lines) <= settings.furthest and turned <= settings.turned
    return (improved, True) if near else (world_T_sensor, False)


def _extended(
    line_map: LineMap, lines: LineSet, world_T_sensor: Pose, frame: int, settings: OdometrySettings
) -> LineMap:
    """The map with the lines of a frame: those that coincide with lines seen lately are fused with them."""
    if len(lines) == 0:
        return line_map
    world_lines = world_T_sensor @ lines
    matches = torch.zeros(0, 2, dtype=torch.long)
    local = line_map.recent(frame - settings.window).nonzero()[:, 0]
    if min(len(local), len(lines)) >= _FEWEST:
        rows, _ = coincident_lines(
            world_lines, line_map.lines()[local], Pose.identity(), settings=settings.registration
        )
        matches = torch.stack([rows[:, 0], local[rows[:, 1]]], -1)
    return line_map.with_frame(world_lines, matches, frame)
