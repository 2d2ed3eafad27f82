"""The maps, the poses and the pairs of a registration as what a page draws."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from plueckernet.geometry import LineSet, Pose
from plueckernet.registration import RegistrationSettings, coincident_lines
from plueckernet.report.frame import Array, Frame, Motion, fitted_ball, joined, longest_first
from plueckernet.report.picture import Segments, as_segments
from plueckernet.result import RegistrationResult

SIGMAS = 3.0  # of the ellipsoid


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
    frame = Frame.of(*sides)
    drawn = [longest_first(side) for side in sides]
    local = frame.source(sides[0]), frame.target(sides[1])
    before = frame.before()
    return {
        "source": {"segments": _packed(local[0][drawn[0]], "<f4"), "all": len(source)},
        "target": {"segments": _packed(local[1][drawn[1]], "<f4"), "all": len(target)},
        "before": _motion(before) | {"fit": _fit(before.moved(local[0]), local[1])},
        "nearer": bool(frame.nearer.any()),
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


def _settings(result: RegistrationResult) -> RegistrationSettings:
    """Those that decide what coincides."""
    names = "directed", "position_tolerance", "angle_tolerance"
    return RegistrationSettings(**{name: result.settings[name] for name in names})


def _name(place: int, failed: bool) -> str:
    if failed:
        return "closest pose" if place == 0 else f"next pose {place}"
    return "registered" if place == 0 else f"alternative {place}"


def _look(
    look: Look, frame: Frame, drawn: list[Int64[np.ndarray, " _"]], local: tuple[Segments, Segments]
) -> dict[str, Any]:
    """One pose; of its pairs those of which both lines are drawn, by their places among these."""
    motion = frame.motion(look.pose)
    places = [_places(drawn[i], len(local[i]))[look.pairs[:, i]] for i in range(2)]
    seen = (places[0] >= 0) & (places[1] >= 0)
    pairs = look.pairs[seen]
    joins = joined(local[0][pairs[:, 0]], local[1][pairs[:, 1]], motion)
    return _motion(motion) | {
        "name": look.name,
        "pairs": _packed(np.stack([places[0][seen], places[1][seen]], -1), "<u4"),
        "residuals": _packed(look.residuals[seen, 0], "<f4"),
        "joins": _packed(joins, "<f4"),
        "fit": _fit(motion.moved(local[0]), local[1]),
    }


def _ellipsoid(result: RegistrationResult, frame: Frame, target: Segments) -> dict[str, Any] | None:
    """Drawn larger by a round factor, so that it can be seen."""
    axes = ellipsoid_axes(result)
    if axes is None or result.centre is None:
        return None
    longest = float(np.linalg.norm(axes[0]))
    visible = 0.12 * fitted_ball(target)[1]
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
    centre, radius = fitted_ball(*sides)
    return {"centre": _numbers(centre), "radius": float(f"{radius:.6g}")}


def _motion(motion: Motion) -> dict[str, Any]:
    return {"quaternion": _numbers(motion.quaternion), "translation": _numbers(motion.translation)}


def _places(order: Int64[np.ndarray, " d"], count: int) -> Int64[np.ndarray, " n"]:
    """Where each line stands in the order; -1 if it does not."""
    places = np.full(count, -1)
    places[order] = np.arange(len(order))
    return places


def _packed(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def _numbers(values: Array) -> list[float]:
    return [float(f"{value:.9g}") for value in values]
