"""Lines from one colour image with depth.

Segments are found in the image. Along the image of a straight 3D line the inverse depth is a linear function of the
place, ``1 / z = a + b s``, so that the fit of the 3D line is a robust straight-line fit of the inverse depths beside
the segment. Where the depth jumps across the segment, the edge belongs to the nearer side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, UInt8

from plueckernet.errors import MissingDependencyError, ShapeError
from plueckernet.extraction.extracted import ExtractedLines, Segments

_HYPOTHESES = 60  # pairs of places tried for each segment
_SIDE = (1, 2, 3, 4)  # pixels from the segment at which either side is looked at
_CORRELATED = 5.0  # pixels over which errors of depth are alike: the fit counts every fifth


@dataclass(frozen=True)
class Intrinsics:
    """A pinhole camera, in pixels."""

    fx: float
    fy: float
    cx: float
    cy: float

    def matrix(self) -> Float64[np.ndarray, "3 3"]:
        """The camera matrix."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1.0]])

    def rays(self, pixels: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "n 3"]:
        """Points at depth one seen at the pixels."""
        x, y = (pixels[:, 0] - self.cx) / self.fx, (pixels[:, 1] - self.cy) / self.fy
        return np.stack([x, y, np.ones(len(pixels))], axis=1)


@dataclass(frozen=True)
class RgbdSettings:
    """How lines are found in an image with depth. Lengths in metres unless said otherwise.

    Attributes:
        detector: EDLines (OpenCV's EdgeDrawing) or LSD.
        min_pixels: Shortest segment in the image, in pixels.
        min_length: Shortest line.
        noise: ``(c0, c2)`` of the standard deviation of a depth z, ``c0 + c2 z**2``; the default is that of structured
            light cameras.
        max_depth: Depths beyond it are not used.
        jump: Smallest step of depth across a segment that makes it an edge of the nearer side, as a share of depth.
        min_inliers: Share of the segment's places whose depth has to agree with the line.
        max_sigma: Largest standard deviation of the depth of an end of a line, as a share of its depth.
        seed: Of the samples drawn.
    """

    detector: Literal["edlines", "lsd"] = "edlines"
    min_pixels: float = 25.0
    min_length: float = 0.08
    noise: tuple[float, float] = (0.0012, 0.0019)
    max_depth: float = 6.0
    jump: float = 0.03
    min_inliers: float = 0.6
    max_sigma: float = 0.02
    seed: int = 0


@dataclass(frozen=True, eq=False)
class _Fit:
    """A 3D line over part of a segment: inverse depths at its two ends, with their covariance."""

    places: Float64[np.ndarray, " 2"]  # along the segment, in pixels
    inverse: Float64[np.ndarray, " 2"]
    covariance: Float64[np.ndarray, "2 2"]
    inliers: Bool[np.ndarray, " n"]


def extract_rgbd(
    colour: UInt8[np.ndarray, "h w 3"] | UInt8[np.ndarray, "h w"],
    depth: Float[np.ndarray, "h w"],
    intrinsics: Intrinsics,
    settings: RgbdSettings = RgbdSettings(),
) -> ExtractedLines:
    """Segments in the camera's frame (x right, y down, z forward) from an image and its depths.

    Args:
        colour: The image, BGR or grey.
        depth: Depth of every pixel in metres; 0 or not finite where there is none.
        intrinsics: Of the camera in which both images are.
        settings: See :class:`RgbdSettings`.
    """
    if colour.shape[:2] != depth.shape:
        raise ShapeError("depth", colour.shape[:2], depth.shape)
    depth = np.where(np.isfinite(depth) & (depth < settings.max_depth), depth, 0.0).astype(np.float64)
    rng = np.random.default_rng(settings.seed)
    found, covariances = [], []
    for start, end in image_segments(colour, settings).reshape(-1, 2, 2):
        length = float(np.linalg.norm(end - start))
        place = np.arange(0.0, length, 1.0)
        pixels = start + np.outer(place / length, end - start)
        near = _edge_depth(depth, pixels, (end - start) / length, settings)
        fit = _fit(place, near, settings, rng)
        if fit is None:
            continue
        segment = _back_projected(fit, pixels, near, start + np.outer(fit.places / length, end - start), intrinsics)
        if segment.lengths()[0] >= settings.min_length:
            found.append(segment)
            covariances.append(_end_covariance(fit, segment.ends[0], intrinsics))
    return Segments.joined(found).extracted(np.array(covariances).reshape(-1, 6, 6))


def image_segments(colour: UInt8[np.ndarray, "h w *c"], settings: RgbdSettings) -> Float64[np.ndarray, "n 4"]:
    """Segments ``x1 y1 x2 y2`` of an image, in pixels."""
    cv2 = _opencv()
    grey = colour if colour.ndim == 2 else cv2.cvtColor(colour, cv2.COLOR_BGR2GRAY)
    if settings.detector == "lsd":
        lines = cv2.createLineSegmentDetector().detect(grey)[0]
    else:
        detector = cv2.ximgproc.createEdgeDrawing()
        parameters = cv2.ximgproc.EdgeDrawing.Params()
        parameters.MinLineLength = int(settings.min_pixels)
        parameters.EdgeDetectionOperator = cv2.ximgproc.EdgeDrawing_SOBEL
        parameters.GradientThresholdValue = 20
        parameters.AnchorThresholdValue = 4
        detector.setParams(parameters)
        detector.detectEdges(grey)
        lines = detector.detectLines()
    if lines is None:  # an image without edges
        return np.empty((0, 4))
    lines = np.asarray(lines, np.float64).reshape(-1, 4)
    return lines[np.hypot(lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1]) >= settings.min_pixels]


def _opencv() -> Any:
    try:
        import cv2
    except ImportError:
        raise MissingDependencyError("opencv-contrib-python-headless", "extract") from None
    return cv2


def _sigma(depth: Float64[np.ndarray, " n"], settings: RgbdSettings) -> Float64[np.ndarray, " n"]:
    """Standard deviation of depths."""
    return np.asarray(settings.noise[0] + settings.noise[1] * depth**2)


def _edge_depth(
    depth: Float64[np.ndarray, "h w"],
    pixels: Float64[np.ndarray, "n 2"],
    direction: Float64[np.ndarray, " 2"],
    settings: RgbdSettings,
) -> Float64[np.ndarray, " n"]:
    """Depth of the surface whose edge is seen at each pixel of a segment; 0 where there is none.

    Both sides are looked at. If they differ by more than noise and slope explain, the nearer one holds the edge; else
    the segment lies on one surface and the middle of both is taken.
    """
    across = np.array([-direction[1], direction[0]])
    sides = []
    for sign in (-1, 1):
        reach = pixels[:, None] + sign * np.outer(_SIDE, across)[None]
        sides.append(_median(_sampled(depth, reach.reshape(-1, 2)).reshape(len(pixels), -1)))
    left, right = sides
    nearer = np.where((left > 0) & ((left < right) | (right == 0)), left, right)
    apart = np.abs(left - right) > settings.jump * nearer + 3 * _sigma(nearer, settings)
    both = (left > 0) & (right > 0)
    return np.asarray(np.where(both & ~apart, (left + right) / 2, nearer))


def _sampled(depth: Float64[np.ndarray, "h w"], pixels: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, " n"]:
    column, row = np.rint(pixels).astype(np.int64).T
    inside = (column >= 0) & (row >= 0) & (column < depth.shape[1]) & (row < depth.shape[0])
    value = depth[np.clip(row, 0, depth.shape[0] - 1), np.clip(column, 0, depth.shape[1] - 1)]
    return np.asarray(np.where(inside, value, 0.0))


def _median(values: Float64[np.ndarray, "n k"]) -> Float64[np.ndarray, " n"]:
    """Lower median of the positive values of each row; 0 where there is none."""
    ordered = np.sort(np.where(values > 0, values, np.inf), axis=1)
    count = (values > 0).sum(axis=1)
    middle = ordered[np.arange(len(values)), np.maximum(count - 1, 0) // 2]
    return np.asarray(np.where(count > 0, middle, 0.0))


def _fit(
    place: Float64[np.ndarray, " n"], depth: Float64[np.ndarray, " n"], settings: RgbdSettings, rng: np.random.Generator
) -> _Fit | None:
    """Robust straight-line fit of inverse depths; nothing if the depths are no line."""
    known = np.flatnonzero(depth > 0)
    if len(known) < settings.min_inliers * len(place) or len(known) < 8:
        return None
    inverse = np.divide(1.0, depth, out=np.zeros_like(depth), where=depth > 0)
    sigma = np.divide(_sigma(depth, settings), depth**2, out=np.zeros_like(depth), where=depth > 0)
    first, second = rng.choice(known, (2, _HYPOTHESES))
    first, second = first[first != second], second[first != second]
    slope = (inverse[second] - inverse[first]) / (place[second] - place[first])
    off = np.abs(inverse[first, None] + slope[:, None] * (place - place[first, None]) - inverse)
    inliers = (off < 3 * sigma)[int((off < 3 * sigma).sum(axis=1).argmax())]
    for _ in range(2):
        if inliers.sum() < 8:
            return None
        line, covariance = _least_squares(place[inliers], inverse[inliers], sigma[inliers])
        inliers = np.abs(line[0] + line[1] * place - inverse) < 3 * sigma
    if inliers.sum() < max(8.0, settings.min_inliers * len(place)):
        return None
    return _checked(place, line, covariance, inliers, settings)


def _least_squares(
    place: Float64[np.ndarray, " n"], inverse: Float64[np.ndarray, " n"], sigma: Float64[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " 2"], Float64[np.ndarray, "2 2"]]:
    """Weighted line ``a + b s`` and its covariance, neighbouring errors taken as alike."""
    design = np.stack([np.ones(len(place)), place], axis=1) / sigma[:, None]
    covariance = np.linalg.inv(design.T @ design)
    return covariance @ design.T @ (inverse / sigma), covariance * _CORRELATED


def _checked(
    place: Float64[np.ndarray, " n"],
    line: Float64[np.ndarray, " 2"],
    covariance: Float64[np.ndarray, "2 2"],
    inliers: Bool[np.ndarray, " n"],
    settings: RgbdSettings,
) -> _Fit | None:
    """The fit between its outermost inliers, if its ends are in front of the camera and known well enough."""
    ends = place[np.flatnonzero(inliers)[[0, -1]]]
    design = np.stack([np.ones(2), ends], axis=1)
    inverse, spread = design @ line, design @ covariance @ design.T
    if (inverse * settings.max_depth < 1.0).any():
        return None
    if (np.sqrt(np.diag(spread)) / inverse > settings.max_sigma).any():
        return None
    return _Fit(ends, inverse, spread, inliers)


def _back_projected(
    fit: _Fit,
    pixels: Float64[np.ndarray, "n 2"],
    depth: Float64[np.ndarray, " n"],
    ends: Float64[np.ndarray, "2 2"],
    intrinsics: Intrinsics,
) -> Segments:
    """The segment in the camera's frame, with the distance of its inliers."""
    points = intrinsics.rays(pixels[fit.inliers]) * depth[fit.inliers, None]
    corners = intrinsics.rays(ends) / fit.inverse[:, None]
    direction = (corners[1] - corners[0]) / np.linalg.norm(corners[1] - corners[0])
    offset = points - corners[0]
    square = (offset**2).sum(axis=1) - (offset @ direction) ** 2
    support = np.array([fit.inliers.sum()], np.int64)
    return Segments(corners[None], support, np.sqrt(np.maximum(square, 0).mean(keepdims=True)))


def _end_covariance(fit: _Fit, ends: Float64[np.ndarray, "2 3"], intrinsics: Intrinsics) -> Float64[np.ndarray, "6 6"]:
    """Of the end points: half a pixel across the view, and the depths of the fit along it."""
    covariance = np.zeros((6, 6))
    along = np.zeros((6, 2))
    for end in range(2):
        part = slice(3 * end, 3 * end + 3)
        depth = ends[end, 2]
        covariance[part, part] = np.diag([0.5 * depth / intrinsics.fx, 0.5 * depth / intrinsics.fy, 0.0]) ** 2
        along[part, end] = -ends[end] * depth  # of x with respect to the inverse depth
    return covariance + along @ fit.covariance @ along.T
