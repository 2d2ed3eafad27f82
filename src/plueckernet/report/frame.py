"""Where things are drawn.

Everything is shown in the target's frame, moved so that the middle of the target is the origin and turned so that z is
up and walls run along x and y; the source keeps its own frame about its own middle and comes with one motion for each
pose. What leaves float64 here is small, wherever on earth the maps lie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64

from plueckernet.geometry import Pose
from plueckernet.geometry.pose import quaternion_from_rotation, rotation_exp, rotation_from_quaternion, rotation_log
from plueckernet.report.picture import Segments, into_sight, level_axes

MOST_DRAWN = 20_000  # lines of a map; the longest
Array = Float64[np.ndarray, "..."]
Vector = Float64[np.ndarray, "3"]


@dataclass(frozen=True)
class Motion:
    """Of the source's points about its middle to where they are drawn."""

    rotation: Float64[np.ndarray, "3 3"]
    translation: Vector

    @classmethod
    def from_quaternion(cls, wxyz: Float64[np.ndarray, "4"], translation: Vector) -> Motion:
        """Of a unit quaternion, real part first."""
        return Motion(rotation_from_quaternion(torch.from_numpy(wxyz)).numpy(), translation)

    @property
    def quaternion(self) -> Float64[np.ndarray, "4"]:
        """Of the rotation, real part first."""
        return np.asarray(quaternion_from_rotation(torch.from_numpy(self.rotation)).numpy())

    def towards(self, other: Motion, share: float) -> Motion:
        """Part of the way to another motion, turning at an even pace."""
        turn = rotation_log(torch.from_numpy(other.rotation @ self.rotation.T))
        rotation = rotation_exp(share * turn).numpy() @ self.rotation
        return Motion(rotation, self.translation + share * (other.translation - self.translation))

    def moved(self, points: Array) -> Array:
        """Points where they are drawn."""
        return points @ self.rotation.T + self.translation


@dataclass(frozen=True)
class Frame:
    """From the frames of the maps to the one that is drawn."""

    axes: Float64[np.ndarray, "3 3"]
    source_middle: Vector
    target_middle: Vector
    nearer: Vector  # by which the source is drawn nearer before it is registered; zero if it is near

    @classmethod
    def of(cls, source: Segments, target: Segments) -> Frame:
        """That of two maps."""
        middles = [np.asarray(np.median(side.reshape(-1, 3), axis=0)) for side in (source, target)]
        return Frame(level_axes(target), middles[0], middles[1], into_sight(source, target))

    def source(self, points: Array) -> Array:
        """The source's points about its middle."""
        return points - self.source_middle

    def target(self, points: Array) -> Array:
        """The target's points where they are drawn."""
        return (points - self.target_middle) @ self.axes.T

    def before(self) -> Motion:
        """Of the source as it came."""
        return self.motion(Pose(torch.eye(3, dtype=torch.float64), torch.from_numpy(self.nearer)))

    def motion(self, pose: Pose) -> Motion:
        """Of the source under ``target_T_source``."""
        rotation = pose.rotation.double().cpu().numpy()
        place = rotation @ self.source_middle + pose.translation.double().cpu().numpy()
        return Motion(self.axes @ rotation, self.target(place))

    def pose(self, motion: Motion) -> Pose:
        """The ``target_T_source`` of a motion."""
        rotation = self.axes.T @ motion.rotation
        place = motion.translation @ self.axes + self.target_middle
        return Pose(torch.from_numpy(rotation), torch.from_numpy(place - rotation @ self.source_middle))


def longest_first(segments: Segments) -> Int64[np.ndarray, " d"]:
    """The lines that are drawn, by their places."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=-1)
    return np.argsort(-length, kind="stable")[:MOST_DRAWN]


def joined(source: Segments, target: Segments, motion: Motion) -> Segments:
    """A point on each source line and one on its partner that lie next to each other under the motion."""
    moved = motion.moved(source)
    on_target = _nearest(target, moved.mean(1))
    on_source = _nearest(moved, on_target)
    share = np.linalg.norm(on_source - moved[:, 0], axis=-1) / np.linalg.norm(moved[:, 1] - moved[:, 0], axis=-1)
    return np.stack([source[:, 0] + share[:, None] * (source[:, 1] - source[:, 0]), on_target], 1)


def fitted_ball(*sides: Segments) -> tuple[Vector, float]:
    """Centre and radius of what a camera should see: all but strays."""
    points = np.concatenate([side.reshape(-1, 3) for side in sides])
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    return (low + high) / 2, float(np.linalg.norm(high - low) / 2) or 1.0


def _nearest(segments: Segments, points: Float64[np.ndarray, "k 3"]) -> Float64[np.ndarray, "k 3"]:
    """The point of each segment nearest to a point."""
    arrow = segments[:, 1] - segments[:, 0]
    share = ((points - segments[:, 0]) * arrow).sum(-1) / np.square(arrow).sum(-1)
    return np.asarray(segments[:, 0] + share.clip(0, 1)[:, None] * arrow)
