"""The result of every extraction: `ExtractedLines`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64

from plueckernet.geometry.lines import LineSet


@dataclass(frozen=True, eq=False)
class ExtractedLines:
    """Segments found in sensor data and how well the data support each.

    Attributes:
        lines: The segments, in the frame of the data, with their noise where that of the sensor is modelled.
        support: Number of input points (pixels with depth, for images) that support each segment.
        residual: Root mean square distance of the supporting points from the segment, in metres.
        covariance: Covariance of both end points ``(x1, y1, z1, x2, y2, z2)``, where the sensor's noise is modelled.
    """

    lines: LineSet
    support: Int64[np.ndarray, " n"]
    residual: Float64[np.ndarray, " n"]
    covariance: Float64[np.ndarray, "n 6 6"] | None = None

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def endpoints(self) -> Float64[np.ndarray, "n 2 3"]:
        """End points as an array."""
        endpoints = self.lines.endpoints
        return np.empty((0, 2, 3)) if endpoints is None else endpoints.numpy()


@dataclass(frozen=True, eq=False)
class SegmentArrays:
    """Segments during extraction: end points, number of supporting points and residual as arrays."""

    ends: Float64[np.ndarray, "n 2 3"]
    support: Int64[np.ndarray, " n"]
    residual: Float64[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.ends)

    @classmethod
    def empty(cls) -> SegmentArrays:
        """No segments."""
        return SegmentArrays(np.empty((0, 2, 3)), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def joined(cls, sets: Sequence[SegmentArrays]) -> SegmentArrays:
        """All segments of several sets, in their order."""
        sets = [SegmentArrays.empty(), *sets]
        return SegmentArrays(
            np.concatenate([segments.ends for segments in sets]),
            np.concatenate([segments.support for segments in sets]),
            np.concatenate([segments.residual for segments in sets]),
        )

    def lengths(self) -> Float64[np.ndarray, " n"]:
        """Lengths of the segments."""
        return np.asarray(np.linalg.norm(self.ends[:, 1] - self.ends[:, 0], axis=1))

    def take(self, index: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> SegmentArrays:
        """The segments selected by a mask or by indices."""
        return SegmentArrays(self.ends[index], self.support[index], self.residual[index])

    def extracted(self, covariance: Float64[np.ndarray, "n 6 6"] | None = None) -> ExtractedLines:
        """The public value."""
        sigma = None if covariance is None else _noise_across(self.ends, covariance)
        lines = LineSet.from_segments(torch.from_numpy(np.ascontiguousarray(self.ends)), sigma=sigma)
        return ExtractedLines(lines, self.support, self.residual, covariance)


def _noise_across(
    ends: Float64[np.ndarray, "n 2 3"], covariance: Float64[np.ndarray, "n 6 6"]
) -> Float64[np.ndarray, " n"]:
    """The standard deviation of a segment's ends on each axis across it: the root of the mean over ends and axes."""
    along = ends[:, 1] - ends[:, 0]
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    blocks = covariance.reshape(-1, 2, 3, 2, 3)
    total = np.zeros(len(ends))
    for end in range(2):
        block = blocks[:, end, :, end]
        total += np.trace(block, axis1=1, axis2=2) - np.einsum("ni,nij,nj->n", along, block, along)
    return np.asarray(np.sqrt(total / 4))
