"""The maps, the poses and the pairs of a registration as what a page draws.

Everything is shown in the target's frame, moved so that the middle of the target is the origin and turned so that z is
up and walls run along x and y; the source keeps its own frame about its own middle and comes with one motion for each
pose. What leaves float64 here is small, wherever on earth the maps lie.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import quaternion_from_rotation
from plueckernet.registration import RegistrationSettings, coincident_lines
from plueckernet.report.picture import Segments, as_segments, into_sight, level_axes
from plueckernet.result import RegistrationResult

MOST_DRAWN = 20_000  # lines of a map; the longest
SIGMAS = 3.0  # of the ellipsoid
Array = Float64[np.ndarray, "..."]


@dataclass(frozen=True, eq=False)
class Look:
    """One pose to look at, with the pairs of lines that coincide under it."""

    name: str
    pose: Pose
    score: float
    pairs: Int64[np.ndarray, "k 2"]
    residuals: Float64[np.ndarray, "k 2"]  # distance in map units, angle in degrees


def looks(result: RegistrationResult, source: LineSet, target: LineSet) -> list[Look]:
    """The pose, if there is one, and the alternatives; the pairs of the first are the result's own inliers."""
    poses = [(one.target_T_source, one.score) for one in result.alternatives]
    if result.target_T_source is not None:
        poses.insert(0, (result.target_T_source, result.score))
    found = []
    for place, (pose, score) in enumerate(poses):
        if place == 0:
            pairs, residuals = result.inliers, result.residuals
        else:
            pairs, residuals = coincident_lines(source, target, pose.to("cpu"), settings=_settings(result))
        name = _name(place, failed=result.target_T_source is None)
        found.append(Look(name, pose.to("cpu"), score, pairs.cpu().numpy(), residuals.cpu().double().numpy()))
    return found


def scene(result: RegistrationResult, source: LineSet, target: LineSet, shown: list[Look]) -> dict[str, Any]:
    """What the page's script draws, as JSON can hold it; arrays are base64 of little-endian numbers."""
    sides = as_segments(source), as_segments(target)
    frame = _Frame(level_axes(sides[1]), _middle(sides[0]), _middle(sides[1]))
    drawn = [_longest_first(side) for side in sides]
    local = frame.source(sides[0]), frame.target(sides[1])
    near = into_sight(*sides)
    before = frame.motion(Pose(torch.eye(3, dtype=torch.float64), torch.from_numpy(near)))
    return {
        "source": {"segments": _packed(local[0][drawn[0]], "<f4"), "all": len(source)},
        "target": {"segments": _packed(local[1][drawn[1]], "<f4"), "all": len(target)},
        "before": before.as_dict() | {"fit": _fit(before.moved(local[0]), local[1])},
        "nearer": bool(near.any()),
        "poses": [_look(one, frame, drawn, local) for one in shown],
        "range": colour_range(result),
        "ellipsoid": _ellipsoid(result, frame, local[1]),
        "floor": float(np.quantile(local[1][..., 2], 0.02)),
    }


def colour_range(result: RegistrationResult) -> float:
    """Distance of two lines where the colours end: at the tolerance, beyond which they do not match."""
    return float(result.settings["position_tolerance"])


def ellipsoid_axes(result: RegistrationResult) -> Float64[np.ndarray, "3 3"] | None:
    """Half axes of the error ellipsoid of the position at the middle of the inliers, as rows, longest first."""
    if result.covariance is None or result.centre is None:
        return None
    spread = result.covariance_at(result.centre)[3:, 3:].cpu().double().numpy()
    variance, directions = np.linalg.eigh(spread)
    return np.asarray((SIGMAS * np.sqrt(variance.clip(0)) * directions).T[::-1])


@dataclass(frozen=True)
class _Motion:
    quaternion: Float64[np.ndarray, "4"]
    rotation: Float64[np.ndarray, "3 3"]
    translation: Float64[np.ndarray, "3"]

    def moved(self, points: Array) -> Array:
        return points @ self.rotation.T + self.translation

    def as_dict(self) -> dict[str, list[float]]:
        return {"quaternion": _numbers(self.quaternion), "translation": _numbers(self.translation)}


@dataclass(frozen=True)
class _Frame:
    """From the frames of the maps to the one that is drawn."""

    axes: Float64[np.ndarray, "3 3"]
    source_middle: Float64[np.ndarray, "3"]
    target_middle: Float64[np.ndarray, "3"]

    def source(self, points: Array) -> Array:
        return points - self.source_middle

    def target(self, points: Array) -> Array:
        return (points - self.target_middle) @ self.axes.T

    def motion(self, pose: Pose) -> _Motion:
        """Of the source's points about its middle."""
        turn = self.axes @ pose.rotation.double().numpy()
        place = pose.rotation.double().numpy() @ self.source_middle + pose.translation.double().numpy()
        return _Motion(quaternion_from_rotation(torch.from_numpy(turn)).numpy(), turn, self.target(place))


def _settings(result: RegistrationResult) -> RegistrationSettings:
    """Those that decide what coincides."""
    names = "directed", "position_tolerance", "angle_tolerance"
    return RegistrationSettings(**{name: result.settings[name] for name in names})


def _name(place: int, failed: bool) -> str:
    if failed:
        return "closest pose" if place == 0 else f"next pose {place}"
    return "registered" if place == 0 else f"alternative {place}"


def _look(
    look: Look, frame: _Frame, drawn: list[Int64[np.ndarray, " _"]], local: tuple[Segments, Segments]
) -> dict[str, Any]:
    """One pose; of its pairs those of which both lines are drawn, by their places among these."""
    motion = frame.motion(look.pose)
    places = [_places(drawn[i], len(local[i]))[look.pairs[:, i]] for i in range(2)]
    seen = (places[0] >= 0) & (places[1] >= 0)
    pairs = look.pairs[seen]
    joins = _joins(local[0][pairs[:, 0]], local[1][pairs[:, 1]], motion)
    return motion.as_dict() | {
        "name": look.name,
        "pairs": _packed(np.stack([places[0][seen], places[1][seen]], -1), "<u4"),
        "residuals": _packed(look.residuals[seen, 0], "<f4"),
        "joins": _packed(joins, "<f4"),
        "fit": _fit(motion.moved(local[0]), local[1]),
    }


def _joins(source: Segments, target: Segments, motion: _Motion) -> Segments:
    """A point on each source line and one on its partner that lie next to each other once registered."""
    moved = motion.moved(source)
    on_target = _nearest(target, moved.mean(1))
    on_source = _nearest(moved, on_target)
    share = np.linalg.norm(on_source - moved[:, 0], axis=-1) / np.linalg.norm(moved[:, 1] - moved[:, 0], axis=-1)
    return np.stack([source[:, 0] + share[:, None] * (source[:, 1] - source[:, 0]), on_target], 1)


def _nearest(segments: Segments, points: Float64[np.ndarray, "k 3"]) -> Float64[np.ndarray, "k 3"]:
    """The point of each segment nearest to a point."""
    arrow = segments[:, 1] - segments[:, 0]
    share = ((points - segments[:, 0]) * arrow).sum(-1) / np.square(arrow).sum(-1)
    return np.asarray(segments[:, 0] + share.clip(0, 1)[:, None] * arrow)


def _ellipsoid(result: RegistrationResult, frame: _Frame, target: Segments) -> dict[str, Any] | None:
    """Drawn larger by a round factor, so that it can be seen."""
    axes = ellipsoid_axes(result)
    if axes is None or result.centre is None:
        return None
    longest = float(np.linalg.norm(axes[0]))
    visible = 0.12 * _fit(target)["radius"]
    factor = 1.0 if longest >= visible else _round_factor(visible / max(longest, 1e-300))
    return {
        "centre": _numbers(frame.target(result.centre.cpu().double().numpy())),
        "axes": [_numbers(factor * (frame.axes @ axis)) for axis in axes],
        "factor": factor,
    }


def _round_factor(most: float) -> float:
    """The largest of 1, 2, 5, 10, 20, … that is not above."""
    ten = 10.0 ** math.floor(math.log10(most))
    return max(step * ten for step in (1, 2, 5) if step * ten <= most)


def _fit(*sides: Segments) -> dict[str, Any]:
    """The ball that a camera should see: all but strays."""
    points = np.concatenate([side.reshape(-1, 3) for side in sides])
    low, high = np.quantile(points, [0.01, 0.99], axis=0)
    return {"centre": _numbers((low + high) / 2), "radius": float(f"{np.linalg.norm(high - low) / 2:.6g}") or 1.0}


def _middle(segments: Segments) -> Float64[np.ndarray, "3"]:
    return np.asarray(np.median(segments.reshape(-1, 3), axis=0))


def _longest_first(segments: Segments) -> Int64[np.ndarray, " d"]:
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=-1)
    return np.argsort(-length, kind="stable")[:MOST_DRAWN]


def _places(order: Int64[np.ndarray, " d"], count: int) -> Int64[np.ndarray, " n"]:
    """Where each line stands in the order; -1 if it does not."""
    places = np.full(count, -1)
    places[order] = np.arange(len(order))
    return places


def _packed(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _numbers(values: Iterator[float] | Array) -> list[float]:
    return [float(f"{value:.9g}") for value in values]
