"""Lines from one colour image with depth.

Segments are found in the image. Along the image of a straight 3D line the inverse depth is a linear function of the
position, ``1 / z = a + b s``, so that the fit of the 3D line is a robust straight-line fit of the inverse depths beside
the segment. Where the depth jumps across the segment, the edge belongs to the nearer side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Float64, UInt8

from plueckernet.errors import InputError, MissingDependencyError, ShapeError
from plueckernet.extraction.extracted import ExtractedLines, SegmentArrays
from plueckernet.settings import check_at_least, check_fraction, check_positive

_MIN_PIXELS = 8  # fewest pixels with depth, and fewest inliers, to which a line is fitted


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
        """Points at depth 1 on the rays of the pixels."""
        x, y = (pixels[:, 0] - self.cx) / self.fx, (pixels[:, 1] - self.cy) / self.fy
        return np.stack([x, y, np.ones(len(pixels))], axis=1)


@dataclass(frozen=True)
class DepthFitSettings:
    """How a 3D line is fitted to the depths beside a segment of the image."""

    side_pixels: int = 4  # pixels on either side of the segment whose depths are used
    hypotheses: int = 60  # pairs of positions tried for each segment
    outlier_sigmas: float = 3.0  # distance of an outlier, in standard deviations of the depth
    correlation_length: float = 5.0  # pixels over which errors of depth are equal
    pixel_sigma: float = 0.5  # standard deviation of an end of the segment across the view, in pixels

    def __post_init__(self) -> None:
        check_at_least(self, 1, "side_pixels", "hypotheses", "correlation_length")
        check_positive(self, "outlier_sigmas", "pixel_sigma")


@dataclass(frozen=True)
class RgbdSettings:
    """How lines are found in an image with depth. Lengths in metres unless another unit is given.

    Attributes:
        detector: EDLines (OpenCV's EdgeDrawing) or LSD.
        min_pixels: Shortest segment in the image, in pixels.
        min_length: Shortest line.
        noise: ``(c0, c2)`` of the standard deviation of a depth z, ``c0 + c2 z**2``; the default is that of structured
            light cameras.
        max_depth: Larger depths are not used.
        jump: Smallest step of depth across a segment that makes it an edge of the nearer side, as a fraction of depth.
        min_inliers: Fraction of the segment's positions whose depth has to agree with the line.
        max_sigma: Largest standard deviation of the depth of an end of a line, as a fraction of its depth.
        gradient_threshold: Smallest gradient of an edge pixel of EDLines, in grey levels.
        fit: How a line is fitted to the depths.
        seed: Seed of the random samples.
    """

    detector: Literal["edlines", "lsd"] = "edlines"
    min_pixels: float = 25.0
    min_length: float = 0.08
    noise: tuple[float, float] = (0.0012, 0.0019)
    max_depth: float = 6.0
    jump: float = 0.03
    min_inliers: float = 0.6
    max_sigma: float = 0.02
    gradient_threshold: int = 20
    fit: DepthFitSettings = field(default_factory=DepthFitSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(self, "min_pixels", "min_length", "max_depth", "max_sigma")
        check_fraction(self, "jump", "min_inliers")
        check_at_least(self, 0, "gradient_threshold", "seed")
        if self.detector not in ("edlines", "lsd"):
            raise InputError(f"RgbdSettings.detector: expected 'edlines' or 'lsd', got {self.detector!r}")
        if np.shape(self.noise) != (2,) or not min(self.noise) >= 0 or not 0 < sum(self.noise) < np.inf:
            raise InputError(f"RgbdSettings.noise: expected two numbers of at least 0, not both 0, got {self.noise!r}")


@dataclass(frozen=True, eq=False)
class _Fit:
    """A 3D line over a piece of a segment: inverse depths at its two ends, with their covariance."""

    along: Float64[np.ndarray, " 2"]  # positions of the ends along the segment, in pixels
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
        depth: Depth of every pixel in metres; 0 or not finite where it is unknown.
        intrinsics: The camera of both images.
        settings: See :class:`RgbdSettings`.
    """
    if colour.shape[:2] != depth.shape:
        raise ShapeError("depth", colour.shape[:2], depth.shape)
    depth = np.where(np.isfinite(depth) & (depth < settings.max_depth), depth, 0.0).astype(np.float64)
    rng = np.random.default_rng(settings.seed)
    segments, covariances = [], []
    for start, end in image_segments(colour, settings).reshape(-1, 2, 2):
        length = float(np.linalg.norm(end - start))
        along = np.arange(0.0, length, 1.0)
        pixels = start + np.outer(along / length, end - start)
        edge_depth = _edge_depth(depth, pixels, (end - start) / length, settings)
        fit = _fit(along, edge_depth, settings, rng)
        if fit is None:
            continue
        ends = start + np.outer(fit.along / length, end - start)
        segment = _back_projected(fit, pixels, edge_depth, ends, intrinsics)
        if segment.lengths()[0] >= settings.min_length:
            segments.append(segment)
            covariances.append(_end_covariance(fit, segment.ends[0], intrinsics, settings.fit.pixel_sigma))
    return SegmentArrays.joined(segments).extracted(np.array(covariances).reshape(-1, 6, 6))


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
        parameters.GradientThresholdValue = settings.gradient_threshold
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
    """Depth of the surface whose edge is seen at each pixel of a segment; 0 where it is unknown.

    If the depths of the two sides differ by more than noise and slope explain, the edge belongs to the nearer side;
    otherwise the segment lies on one surface and the mean of the two is taken.
    """
    across = np.array([-direction[1], direction[0]])
    steps = np.outer(np.arange(1, settings.fit.side_pixels + 1), across)
    left, right = (
        _median(_sampled(depth, (pixels[:, None] + sign * steps[None]).reshape(-1, 2)).reshape(len(pixels), -1))
        for sign in (-1, 1)
    )
    nearer = np.where((left > 0) & ((left < right) | (right == 0)), left, right)
    max_step = settings.jump * nearer + settings.fit.outlier_sigmas * _sigma(nearer, settings)
    one_surface = (left > 0) & (right > 0) & ~(np.abs(left - right) > max_step)
    return np.asarray(np.where(one_surface, (left + right) / 2, nearer))


def _sampled(depth: Float64[np.ndarray, "h w"], pixels: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, " n"]:
    column, row = np.rint(pixels).astype(np.int64).T
    inside = (column >= 0) & (row >= 0) & (column < depth.shape[1]) & (row < depth.shape[0])
    value = depth[np.clip(row, 0, depth.shape[0] - 1), np.clip(column, 0, depth.shape[1] - 1)]
    return np.asarray(np.where(inside, value, 0.0))


def _median(values: Float64[np.ndarray, "n k"]) -> Float64[np.ndarray, " n"]:
    """Lower median of the positive values of each row; 0 in rows without one."""
    ordered = np.sort(np.where(values > 0, values, np.inf), axis=1)
    count = (values > 0).sum(axis=1)
    middle = ordered[np.arange(len(values)), np.maximum(count - 1, 0) // 2]
    return np.asarray(np.where(count > 0, middle, 0.0))


def _fit(
    along: Float64[np.ndarray, " n"], depth: Float64[np.ndarray, " n"], settings: RgbdSettings, rng: np.random.Generator
) -> _Fit | None:
    """Robust straight-line fit of inverse depths; None if the depths are not on a line."""
    how, known = settings.fit, np.flatnonzero(depth > 0)
    if len(known) < settings.min_inliers * len(along) or len(known) < _MIN_PIXELS:
        return None
    inverse = np.divide(1.0, depth, out=np.zeros_like(depth), where=depth > 0)
    sigma = np.divide(_sigma(depth, settings), depth**2, out=np.zeros_like(depth), where=depth > 0)
    max_error = how.outlier_sigmas * sigma
    first, second = rng.choice(known, (2, how.hypotheses))
    first, second = first[first != second], second[first != second]
    slope = (inverse[second] - inverse[first]) / (along[second] - along[first])
    error = np.abs(inverse[first, None] + slope[:, None] * (along - along[first, None]) - inverse)
    inliers = (error < max_error)[int((error < max_error).sum(axis=1).argmax())]
    for _ in range(2):
        if inliers.sum() < _MIN_PIXELS:
            return None
        line, covariance = _least_squares(along[inliers], inverse[inliers], sigma[inliers])
        inliers = np.abs(line[0] + line[1] * along - inverse) < max_error
    if inliers.sum() < max(_MIN_PIXELS, settings.min_inliers * len(along)):
        return None
    return _checked(along, line, covariance * how.correlation_length, inliers, settings)


def _least_squares(
    along: Float64[np.ndarray, " n"], inverse: Float64[np.ndarray, " n"], sigma: Float64[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " 2"], Float64[np.ndarray, "2 2"]]:
    """Weighted line ``a + b s`` and its covariance for independent errors."""
    design = np.stack([np.ones(len(along)), along], axis=1) / sigma[:, None]
    covariance = np.linalg.inv(design.T @ design)
    return covariance @ design.T @ (inverse / sigma), covariance


def _checked(
    along: Float64[np.ndarray, " n"],
    line: Float64[np.ndarray, " 2"],
    covariance: Float64[np.ndarray, "2 2"],
    inliers: Bool[np.ndarray, " n"],
    settings: RgbdSettings,
) -> _Fit | None:
    """The fit between its outermost inliers, if its ends are in front of the camera and accurate enough."""
    ends = along[np.flatnonzero(inliers)[[0, -1]]]
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
) -> SegmentArrays:
    """The segment in the camera's frame, with the residual of its inliers."""
    points = intrinsics.rays(pixels[fit.inliers]) * depth[fit.inliers, None]
    corners = intrinsics.rays(ends) / fit.inverse[:, None]
    direction = (corners[1] - corners[0]) / np.linalg.norm(corners[1] - corners[0])
    offset = points - corners[0]
    square = (offset**2).sum(axis=1) - (offset @ direction) ** 2
    support = np.array([fit.inliers.sum()], np.int64)
    return SegmentArrays(corners[None], support, np.sqrt(np.maximum(square, 0).mean(keepdims=True)))


def _end_covariance(
    fit: _Fit, ends: Float64[np.ndarray, "2 3"], intrinsics: Intrinsics, pixel_sigma: float
) -> Float64[np.ndarray, "6 6"]:
    """Covariance of the end points: an error in pixels across the view, and that of the fitted depths along it."""
    covariance = np.zeros((6, 6))
    jacobian = np.zeros((6, 2))  # of the end points with respect to the inverse depths
    for end in range(2):
        rows = slice(3 * end, 3 * end + 3)
        depth = ends[end, 2]
        sigma = [pixel_sigma * depth / intrinsics.fx, pixel_sigma * depth / intrinsics.fy, 0.0]
        covariance[rows, rows] = np.diag(sigma) ** 2
        jacobian[rows, end] = -ends[end] * depth
    return covariance + jacobian @ fit.covariance @ jacobian.T
