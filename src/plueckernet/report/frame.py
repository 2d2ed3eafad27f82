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

from plueckernet.geometry import Pose, Similarity
from plueckernet.geometry.pose import quaternion_from_rotation, rotation_from_quaternion
from plueckernet.report.picture import Endpoints, level_axes, shift_into_view

MAX_DRAWN_LINES = 20_000  # per map; the longest lines are drawn
_RIGID = 1e-9  # a scale that differs less from 1 is rounding
Coordinates = Float64[np.ndarray, "..."]  # the last axis has x, y, z
Vector = Float64[np.ndarray, "3"]


@dataclass(frozen=True)
class Motion:
    """The motion from the source, relative to its median, to the drawing frame; it may change the scale."""

    rotation: Float64[np.ndarray, "3 3"]
    translation: Vector
    scale: float = 1.0

    @classmethod
    def from_quaternion(cls, wxyz: Float64[np.ndarray, "4"], translation: Vector) -> Motion:
        """Make a motion from a unit quaternion, real part first."""
        return Motion(rotation_from_quaternion(torch.from_numpy(wxyz)).numpy(), translation)

    @property
    def quaternion(self) -> Float64[np.ndarray, "4"]:
        """The rotation as a unit quaternion, real part first."""
        return np.asarray(quaternion_from_rotation(torch.from_numpy(self.rotation)).numpy())

    def moved(self, points: Coordinates) -> Coordinates:
        """Points of the source in the drawing frame."""
        return self.scale * points @ self.rotation.T + self.translation


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

    def motion(self, pose: Pose | Similarity) -> Motion:
        """The motion of the source under ``target_T_source``."""
        matrix = pose.matrix().double().cpu().numpy()
        scale = float(np.cbrt(np.linalg.det(matrix[:3, :3])))
        scale = 1.0 if abs(scale - 1) < _RIGID else scale
        median_in_target = matrix[:3, :3] @ self.source_median + matrix[:3, 3]
        return Motion(self.axes @ matrix[:3, :3] / scale, self.target(median_in_target), scale)

    def pose(self, motion: Motion) -> Pose:
        """The rigid ``target_T_source`` of a motion."""
        rotation = self.axes.T @ motion.rotation
        median_in_target = motion.translation @ self.axes + self.target_median
        return Pose(torch.from_numpy(rotation), torch.from_numpy(median_in_target - rotation @ self.source_median))


def longest_first(segments: Endpoints) -> Int64[np.ndarray, " d"]:
    """The rows of the lines to draw, by falling length."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=-1)
    return np.argsort(-length, kind="stable")[:MAX_DRAWN_LINES]


def bounding_ball(*sides: Endpoints) -> tuple[Vector, float]:
    """Centre and radius of the ball that a camera should show, without 1 % of the points of each map at each end."""
    bounds = [np.quantile(side.reshape(-1, 3), [0.01, 0.99], axis=0) for side in sides if len(side)]
    low, high = np.min([low for low, _ in bounds], axis=0), np.max([high for _, high in bounds], axis=0)
    return (low + high) / 2, float(np.linalg.norm(high - low) / 2) or 1.0
