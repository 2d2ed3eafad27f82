"""The frame in which the maps are drawn.

The drawing frame is the target's frame with the median of the target's end points as origin, z up, and x and y along
the walls. The source keeps its own axes about its own median and gets one motion per pose. So the coordinates that are
rounded to float32 are small, also for maps in national grids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64

from plueckernet.geometry import Pose
from plueckernet.geometry.pose import quaternion_from_rotation, rotation_exp, rotation_from_quaternion, rotation_log
from plueckernet.report.picture import Endpoints, level_axes, shift_into_view

MAX_DRAWN_LINES = 20_000  # per map; the longest lines are drawn
Coordinates = Float64[np.ndarray, "..."]  # the last axis has x, y, z
Vector = Float64[np.ndarray, "3"]


@dataclass(frozen=True)
class Motion:
    """The rigid motion from the source, relative to its median, to the drawing frame."""

    rotation: Float64[np.ndarray, "3 3"]
    translation: Vector

    @classmethod
    def from_quaternion(cls, wxyz: Float64[np.ndarray, "4"], translation: Vector) -> Motion:
        """Make a motion from a unit quaternion, real part first."""
        return Motion(rotation_from_quaternion(torch.from_numpy(wxyz)).numpy(), translation)

    @property
    def quaternion(self) -> Float64[np.ndarray, "4"]:
        """The rotation as a unit quaternion, real part first."""
        return np.asarray(quaternion_from_rotation(torch.from_numpy(self.rotation)).numpy())

    def towards(self, other: Motion, fraction: float) -> Motion:
        """The motion at a fraction of the way to another one, at constant angular velocity."""
        rotation_vector = rotation_log(torch.from_numpy(other.rotation @ self.rotation.T))
        rotation = rotation_exp(fraction * rotation_vector).numpy() @ self.rotation
        return Motion(rotation, self.translation + fraction * (other.translation - self.translation))

    def moved(self, points: Coordinates) -> Coordinates:
        """Points of the source in the drawing frame."""
        return points @ self.rotation.T + self.translation


@dataclass(frozen=True)
class DrawingFrame:
    """Converts coordinates of both maps and poses to the drawing frame."""

    axes: Float64[np.ndarray, "3 3"]
    source_median: Vector
    target_median: Vector
    initial_shift: Vector  # moves a distant source into view before registration; zero if it is near

    @classmethod
    def of(cls, source: Endpoints, target: Endpoints) -> DrawingFrame:
        """The drawing frame of two maps."""
        medians = [np.asarray(np.median(side.reshape(-1, 3), axis=0)) for side in (source, target)]
        return DrawingFrame(level_axes(target), medians[0], medians[1], shift_into_view(source, target))

    def source(self, points: Coordinates) -> Coordinates:
        """Points of the source relative to its median."""
        return points - self.source_median

    def target(self, points: Coordinates) -> Coordinates:
        """Points of the target in the drawing frame."""
        return (points - self.target_median) @ self.axes.T

    def before(self) -> Motion:
        """The motion of the source before registration."""
        return self.motion(Pose(torch.eye(3, dtype=torch.float64), torch.from_numpy(self.initial_shift)))

    def motion(self, pose: Pose) -> Motion:
        """The motion of the source under ``target_T_source``."""
        rotation = pose.rotation.double().cpu().numpy()
        median_in_target = rotation @ self.source_median + pose.translation.double().cpu().numpy()
        return Motion(self.axes @ rotation, self.target(median_in_target))

    def pose(self, motion: Motion) -> Pose:
        """The ``target_T_source`` of a motion."""
        rotation = self.axes.T @ motion.rotation
        median_in_target = motion.translation @ self.axes + self.target_median
        return Pose(torch.from_numpy(rotation), torch.from_numpy(median_in_target - rotation @ self.source_median))


def longest_first(segments: Endpoints) -> Int64[np.ndarray, " d"]:
    """The rows of the lines to draw, by falling length."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=-1)
    return np.argsort(-length, kind="stable")[:MAX_DRAWN_LINES]


def match_connectors(source: Endpoints, target: Endpoints, motion: Motion) -> Endpoints:
    """For each matched pair, a point of the source line and the target point next to it under the motion."""
    moved = motion.moved(source)
    on_target = _nearest_points(target, moved.mean(1))
    on_source = _nearest_points(moved, on_target)
    lengths = np.linalg.norm(moved[:, 1] - moved[:, 0], axis=-1)
    fraction = np.linalg.norm(on_source - moved[:, 0], axis=-1) / lengths
    return np.stack([source[:, 0] + fraction[:, None] * (source[:, 1] - source[:, 0]), on_target], 1)


def bounding_ball(*sides: Endpoints) -> tuple[Vector, float]:
    """Centre and radius of the ball that a camera should show; 1 % of the points at each end are ignored."""
    points = np.concatenate([side.reshape(-1, 3) for side in sides])
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    return (low + high) / 2, float(np.linalg.norm(high - low) / 2) or 1.0


def _nearest_points(segments: Endpoints, points: Float64[np.ndarray, "k 3"]) -> Float64[np.ndarray, "k 3"]:
    """The point of each segment that is nearest to the given point."""
    arrow = segments[:, 1] - segments[:, 0]
    fraction = ((points - segments[:, 0]) * arrow).sum(-1) / np.square(arrow).sum(-1)
    return np.asarray(segments[:, 0] + fraction.clip(0, 1)[:, None] * arrow)
