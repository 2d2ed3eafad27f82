"""The maps, poses and matched pairs of a registration as data that the page draws."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from plueckernet.coincidence import CoincidenceFinder
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.report.frame import Coordinates, DrawingFrame, Motion, bounding_ball, longest_first, match_connectors
from plueckernet.report.picture import Endpoints, as_segments
from plueckernet.report.words import pose_names
from plueckernet.result import RegistrationResult

ELLIPSOID_SIGMAS = 3.0


@dataclass(frozen=True, eq=False)
class ShownPose:
    """A pose that the page can show, with the pairs of lines that coincide under it."""

    name: str
    pose: Pose
    score: float
    pairs: Int64[np.ndarray, "k 2"]
    residuals: Float64[np.ndarray, "k 2"]  # distance in map units, angle in degrees


def shown_poses(result: RegistrationResult, source: LineSet, target: LineSet) -> list[ShownPose]:
    """The pose, if there is one, and the alternatives; the pairs of the first pose are the result's inliers."""
    poses = [(alternative.rigid_pose, alternative.score) for alternative in result.alternatives]
    if result.rigid_pose is not None:
        poses.insert(0, (result.rigid_pose, result.score))
    finder = CoincidenceFinder(source, target, _threshold_settings(result)) if len(poses) > 1 else None
    shown: list[ShownPose] = []
    for name, (pose, score) in zip(pose_names(result), poses, strict=True):
        pairs, residuals = result.inliers, result.residuals
        if shown and finder is not None:
            pairs, residuals = finder.pairs(pose)
        shown.append(ShownPose(name, pose, score, pairs.numpy(), residuals.numpy()))
    return shown


def scene(result: RegistrationResult, source: LineSet, target: LineSet, shown: list[ShownPose]) -> dict[str, Any]:
    """The data for the page's script as JSON types; arrays are base64 of little-endian numbers."""
    sides = as_segments(source), as_segments(target)
    frame = DrawingFrame.of(*sides)
    drawn = [longest_first(side) for side in sides]
    local = frame.source(sides[0]), frame.target(sides[1])
    before = frame.before()
    return {
        "source": {"segments": _packed(local[0][drawn[0]], "<f4"), "all": len(source)},
        "target": {"segments": _packed(local[1][drawn[1]], "<f4"), "all": len(target)},
        "before": _motion(before) | {"fit": _fit(before.moved(local[0]), local[1])},
        "shifted": bool(frame.initial_shift.any()),
        "poses": [_pose_entry(pose, frame, drawn, local) for pose in shown],
        "range": colour_range(result),
        "ellipsoid": _ellipsoid(result, frame, local[1]),
        "floor": float(np.quantile(local[1][..., 2], 0.02)),
    }


def colour_range(result: RegistrationResult) -> float:
    """The distance of two lines at the end of the colour scale: the inlier threshold."""
    return float(result.settings["inlier_distance"])


def ellipsoid_axes(result: RegistrationResult) -> Float64[np.ndarray, "3 3"] | None:
    """Semi-axes of the error ellipsoid of the position at the centre of the inliers, as rows, longest first."""
    if result.covariance is None or result.centre is None:
        return None
    spread = result.covariance_at(result.centre)[3:, 3:].numpy()
    variance, directions = np.linalg.eigh(spread)
    return np.asarray((ELLIPSOID_SIGMAS * np.sqrt(variance.clip(0)) * directions).T[::-1])


def _threshold_settings(result: RegistrationResult) -> RegistrationSettings:
    """The settings that decide which lines coincide."""
    names = "directed", "inlier_distance", "inlier_angle"
    return RegistrationSettings(**{name: result.settings[name] for name in names})


def _pose_entry(
    shown: ShownPose, frame: DrawingFrame, drawn: list[Int64[np.ndarray, " _"]], local: tuple[Endpoints, Endpoints]
) -> dict[str, Any]:
    """A pose and those of its pairs whose lines are both drawn, as rows of the drawn lines."""
    motion = frame.motion(shown.pose)
    rows = [_rows_in(drawn[side], len(local[side]))[shown.pairs[:, side]] for side in range(2)]
    visible = (rows[0] >= 0) & (rows[1] >= 0)
    pairs = shown.pairs[visible]
    connectors = match_connectors(local[0][pairs[:, 0]], local[1][pairs[:, 1]], motion)
    return _motion(motion) | {
        "name": shown.name,
        "pairs": _packed(np.stack([rows[0][visible], rows[1][visible]], -1), "<u4"),
        "residuals": _packed(shown.residuals[visible, 0], "<f4"),
        "connectors": _packed(connectors, "<f4"),
        "fit": _fit(motion.moved(local[0]), local[1]),
    }


def _ellipsoid(result: RegistrationResult, frame: DrawingFrame, target: Endpoints) -> dict[str, Any] | None:
    """The error ellipsoid, enlarged by a round factor to a visible size."""
    axes = ellipsoid_axes(result)
    if axes is None or result.centre is None:
        return None
    longest = float(np.linalg.norm(axes[0]))
    visible = 0.12 * bounding_ball(target)[1]
    factor = 1.0 if longest >= visible else _round_factor(visible / max(longest, 1e-300))
    return {
        "centre": _numbers(frame.target(result.centre.numpy())),
        "axes": [_numbers(factor * (frame.axes @ axis)) for axis in axes],
        "factor": factor,
    }


def _round_factor(upper: float) -> float:
    """The largest of 1, 2, 5, 10, 20, … that does not exceed ``upper``."""
    decade = 10.0 ** math.floor(math.log10(upper))
    return max(step * decade for step in (1, 2, 5) if step * decade <= upper)


def _fit(*sides: Endpoints) -> dict[str, Any]:
    centre, radius = bounding_ball(*sides)
    return {"centre": _numbers(centre), "radius": float(f"{radius:.6g}")}


def _motion(motion: Motion) -> dict[str, Any]:
    return {"quaternion": _numbers(motion.quaternion), "translation": _numbers(motion.translation)}


def _rows_in(order: Int64[np.ndarray, " d"], count: int) -> Int64[np.ndarray, " n"]:
    """The row of each of ``count`` lines in ``order``, or -1 if it is not in it."""
    rows = np.full(count, -1)
    rows[order] = np.arange(len(order))
    return rows


def _packed(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _numbers(values: Coordinates) -> list[float]:
    return [float(f"{value:.9g}") for value in values]
