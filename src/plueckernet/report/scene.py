"""The maps, poses and matched pairs of a registration as data that the page draws."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from plueckernet.coincidence import CoincidenceFinder
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.report.frame import Coordinates, DrawingFrame, Motion, bounding_ball, longest_first
from plueckernet.report.picture import Endpoints, as_segments
from plueckernet.report.words import pose_names
from plueckernet.result import RegistrationResult

ELLIPSOID_SIGMAS = 3.0


@dataclass(frozen=True, eq=False)
class ShownPose:
    """A pose that the page can show, with the pairs of lines that coincide under it.

    The pairs of the pose of a result, or of the best candidate of a failure, are the inliers of the result. Those of
    other poses are the pairs within the inlier threshold.
    """

    name: str
    pose: Pose
    pairs: Int64[np.ndarray, "k 2"]
    residuals: Float64[np.ndarray, "k 2"]  # distance in map units, angle in degrees
    evidence: Evidence | None = None  # None if the pose was never judged, as one that was set by hand
    confidence: float | None = None
    has_inliers: bool = False  # whether the pairs are the inliers of the result


def shown_poses(result: RegistrationResult, source: LineSet, target: LineSet) -> list[ShownPose]:
    """The pose, if there is one, and the alternatives; the pairs of the first pose are the result's inliers."""
    poses = [(rigid(other.target_T_source), other.evidence, other.confidence) for other in result.alternatives]
    if result.target_T_source is not None:
        poses.insert(0, (rigid(result.target_T_source), result.evidence, result.confidence))
    finder = CoincidenceFinder(source, target, threshold_settings(result)) if len(poses) > 1 else None
    shown: list[ShownPose] = []
    for name, (pose, evidence, confidence) in zip(pose_names(result), poses, strict=True):
        pairs, residuals = result.inliers, result.residuals
        if shown and finder is not None:
            pairs, residuals = finder.pairs(pose)
        first = not shown
        sure = result.confidence if first else confidence  # that of the result has those of almost equal poses in it
        shown.append(ShownPose(name, pose, pairs.numpy(), residuals.numpy(), evidence, sure, first))
    return shown


def rigid(motion: Pose | Similarity) -> Pose:
    """The motion of a source that has been multiplied by the scale already, see :func:`as_large_as_target`."""
    return Pose(motion.rotation, motion.translation)


def as_large_as_target(result: RegistrationResult, source: LineSet) -> LineSet:
    """The source, multiplied by the scale that was found; pages show it as large as it is in the target."""
    return source if result.scale == 1 else Similarity.from_pose(Pose.identity(), result.scale) @ source


def scene(result: RegistrationResult, source: LineSet, target: LineSet, shown: Sequence[ShownPose]) -> dict[str, Any]:
    """The data for the page's script as JSON types, see :func:`drawing`, with the error ellipsoid of the pose."""
    frame = DrawingFrame.of(as_segments(source), as_segments(target))
    return drawing(source, target, shown, colour_range(result)) | {
        "ellipsoid": _ellipsoid(result, frame, frame.target(as_segments(target)))
    }


def drawing(
    source: LineSet | None, target: LineSet | None, shown: Sequence[ShownPose] = (), distance_range: float = 1.0
) -> dict[str, Any]:
    """Maps, of which one may be missing, and poses as JSON types; arrays are base64 of little-endian numbers."""
    sides = [np.zeros((0, 2, 3)) if lines is None else as_segments(lines) for lines in (source, target)]
    frame = drawing_frame(source, target)
    drawn = [longest_first(side) for side in sides]
    local = frame.source(sides[0]), frame.target(sides[1])
    before = frame.before()
    packed = [
        {
            "segments": _packed(ends[rows], "<f4"),
            "rows": _packed(rows, "<u4"),
            "ids": None if lines is None or lines.ids is None else lines.ids.tolist(),
        }
        for ends, rows, lines in zip(local, drawn, (source, target), strict=True)
    ]
    return {
        "source": packed[0],
        "target": packed[1],
        "axes": [_numbers(axis) for axis in frame.axes],
        "before": _motion(before) | {"fit": _fit(before.moved(local[0]), local[1])},
        "shifted": bool(frame.initial_shift.any()),
        "poses": [_pose_entry(pose, frame, drawn, local) for pose in shown],
        "range": distance_range,
        "ellipsoid": None,
    }


def drawing_frame(source: LineSet | None, target: LineSet | None) -> DrawingFrame:
    """The drawing frame of two maps; with only one map, that of this map."""
    sides = [as_segments(lines) for lines in (source, target) if lines is not None]
    return DrawingFrame.of(sides[0], sides[-1])


def colour_range(result: RegistrationResult) -> float:
    """The distance of two lines at the end of the colour scale: the inlier threshold."""
    return float(result.settings["inlier_distance"])


def ellipsoid_axes(result: RegistrationResult) -> Float64[np.ndarray, "3 3"] | None:
    """Semi-axes of the error ellipsoid of the position at the centre of the inliers, as rows, longest first."""
    if result.covariance is None or result.centre is None:
        return None
    spread = result.covariance_at(result.centre)[3:6, 3:6].numpy()
    variance, directions = np.linalg.eigh(spread)
    return np.asarray((ELLIPSOID_SIGMAS * np.sqrt(variance.clip(0)) * directions).T[::-1])


def threshold_settings(result: RegistrationResult) -> RegistrationSettings:
    """The settings that decide which lines coincide."""
    names = "directed", "inlier_distance", "inlier_angle"
    return RegistrationSettings(**{name: result.settings[name] for name in names})


def _pose_entry(
    shown: ShownPose, frame: DrawingFrame, drawn: list[Int64[np.ndarray, " _"]], local: tuple[Endpoints, Endpoints]
) -> dict[str, Any]:
    """A pose, those of its pairs whose lines are both drawn as rows of the drawn lines, and the residuals of all.

    The residuals begin with those of the pairs that are drawn.
    """
    motion = frame.motion(shown.pose)
    rows = np.stack([_rows_in(drawn[side], len(local[side]))[shown.pairs[:, side]] for side in range(2)], -1)
    visible = (rows >= 0).all(-1)
    return _motion(motion) | {
        "name": shown.name,
        "pairs": _packed(rows[visible], "<u4"),
        "residuals": _packed(np.concatenate([shown.residuals[visible], shown.residuals[~visible]]), "<f4"),
        "inliers": shown.has_inliers,
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
    numbers = {"quaternion": _numbers(motion.quaternion), "translation": _numbers(motion.translation)}
    return numbers if motion.scale == 1 else numbers | {"scale": motion.scale}


def _rows_in(order: Int64[np.ndarray, " d"], count: int) -> Int64[np.ndarray, " n"]:
    """The row of each of ``count`` lines in ``order``, or -1 if it is not in it."""
    rows = np.full(count, -1)
    rows[order] = np.arange(len(order))
    return rows


def _packed(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _numbers(values: Coordinates) -> list[float]:
    return [float(f"{value:.9g}") for value in values]
