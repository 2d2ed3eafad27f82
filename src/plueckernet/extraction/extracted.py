"""What every extraction returns."""

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
        lines: The segments, in the frame of the data.
        support: How many input points (pixels with depth, for images) each segment rests on.
        residual: Root mean square distance of the supporting points from the segment, in metres.
        covariance: Of both end points, as ``(x1, y1, z1, x2, y2, z2)``, where the sensor's noise is modelled.
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
class Segments:
    """Segments while they are being worked on: arrays only."""

    ends: Float64[np.ndarray, "n 2 3"]
    support: Int64[np.ndarray, " n"]
    residual: Float64[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.ends)

    @classmethod
    def empty(cls) -> Segments:
        """No segments."""
        return Segments(np.empty((0, 2, 3)), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def joined(cls, parts: Sequence[Segments]) -> Segments:
        """All segments of several sets, in their order."""
        parts = [Segments.empty(), *parts]
        return Segments(
            np.concatenate([part.ends for part in parts]),
            np.concatenate([part.support for part in parts]),
            np.concatenate([part.residual for part in parts]),
        )

    def lengths(self) -> Float64[np.ndarray, " n"]:
        """Of the segments."""
        return np.asarray(np.linalg.norm(self.ends[:, 1] - self.ends[:, 0], axis=1))

    def take(self, index: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Segments:
        """Some of them, by a mask or by places."""
        return Segments(self.ends[index], self.support[index], self.residual[index])

    def extracted(self, covariance: Float64[np.ndarray, "n 6 6"] | None = None) -> ExtractedLines:
        """As the public value."""
        lines = LineSet.from_segments(torch.from_numpy(np.ascontiguousarray(self.ends)))
        return ExtractedLines(lines, self.support, self.residual, covariance)
