"""Lines far outside their map: left out before anything is derived from it.

A segment at the origin of a national grid, or with a coordinate of 1e12, would move the centre of the map and thereby
its unit and inlier threshold. A line is a stray if its distance from the median centre is more than `_MIN_RADII` median
distances, and more than `_MIN_GAP` times that of every line that is none. Maps with many lines far away have none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.geometry.lines import LineSet
from plueckernet.kernels.centres import centred_distances
from plueckernet.kernels.library import compiled

LEFT_OUT = "left out."  # the end of the warning, by which it is told from one about units
_MIN_RADII = 30.0  # of the map; the furthest lines of laser scans are at about 25
_MIN_GAP = 5.0  # ratio of the distances of strays and of all others
_MAX_FRACTION = 0.05  # of the lines of a map
_MAX_FEW = 2  # strays of small maps, whatever their fraction
_MIN_LINES = 4  # with fewer lines nothing says which of them are the map
_ROUNDS = 5  # for the centre of infinite lines
_NEAR_FRACTION = 0.75  # of infinite lines that determine the centre in the next round


@dataclass(frozen=True, eq=False)
class KeptLines:
    """A map without its strays."""

    lines: LineSet
    rows: Int[Tensor, " k"] | None  # of the lines in the whole map; None: all

    @staticmethod
    def of(lines: LineSet) -> KeptLines:
        """The map itself if it has no strays."""
        stray = stray_lines(lines)
        if stray is None:
            return KeptLines(lines, None)
        rows = (~stray).nonzero()[:, 0]
        return KeptLines(lines[rows], rows)

    def whole_rows(self, rows: Int[Tensor, " m"]) -> Int[Tensor, " m"]:
        """Rows of the kept lines as rows of the whole map."""
        return rows if self.rows is None else self.rows.to(rows.device)[rows]

    def warning(self, name: str, count: int) -> tuple[str, ...]:
        """A sentence about what was left out of a map of ``count`` lines."""
        left_out = count - len(self.lines)
        if not left_out:
            return ()
        what = "1 line" if left_out == 1 else f"{left_out} lines"
        return (f"{what} of the {name} far outside the rest {'was' if left_out == 1 else 'were'} {LEFT_OUT}",)


def stray_lines(lines: LineSet) -> Bool[Tensor, " n"] | None:
    """Which lines of one unbatched set are strays; None if there are none."""
    if lines.direction.ndim != 2 or len(lines) < _MIN_LINES:
        return None
    distance, radius, largest = _distances(lines)
    if not largest > _MIN_RADII * radius or not math.isfinite(radius):
        return None
    stray = distance > _MIN_RADII * radius
    if int(stray.sum()) > max(_MAX_FEW, _MAX_FRACTION * len(lines)):
        return None
    apart = bool(distance[stray].min() > _MIN_GAP * distance[~stray].max())
    return torch.from_numpy(stray).to(lines.direction.device) if apart and radius > 0 else None


def _distances(lines: LineSet) -> tuple[Float[np.ndarray, " n"], float, float]:
    """Distance of each line from the centre that most lines agree on, their median and the largest."""
    if lines.endpoints is None and lines.direction.dtype == torch.float64 and compiled(lines.direction):
        centred = centred_distances(lines.direction.detach(), lines.moment.detach())
        if centred is not None:
            return centred[0].numpy(), *centred[1:]
    distance = _computed_distances(lines)
    half = (len(distance) - 1) // 2
    return distance, float(np.partition(distance, half)[half]), float(distance.max())


def _computed_distances(lines: LineSet) -> Float[np.ndarray, " n"]:
    """Distance of each line from the centre that most lines agree on; of a segment, that of its further end.

    In NumPy, wherever the map is: operations are many and on few values.
    """
    if lines.endpoints is not None:
        ends, half = lines.endpoints.detach().cpu().numpy(), (len(lines) - 1) // 2
        start, end = np.ascontiguousarray(ends.reshape(-1, 6).T).reshape(2, 3, -1)  # rows are added up much faster
        middle = np.partition((start + end) / 2, half, 1)[:, half, None]
        return np.maximum(_norms(start - middle), _norms(end - middle))
    # A line is at the distance |f - P c| from c, with its foot point f and P = I - d d^T, and the centre of some lines
    # solves (sum P) c = sum f.
    d, foot = (values.detach().cpu().numpy().T for values in (lines.direction, lines.footpoints()))  # (3, n)
    terms = np.concatenate([(d[:, None] * d).reshape(9, -1), foot])
    near = np.ones(d.shape[1], dtype=bool)
    for _ in range(_ROUNDS):
        distance = _from_centre(d, foot, _centre(terms, near))
        last, near = near, distance <= quantile(distance, _NEAR_FRACTION)
        if np.array_equal(near, last):  # as will be all that follow
            break
    return _from_centre(d, foot, _centre(terms, near))


def _centre(terms: Float[np.ndarray, "12 n"], near: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "3"]:
    """The point closest to some lines, of which ``terms`` are the products of directions and the foot points."""
    sums = terms @ near.astype(terms.dtype)
    across = np.count_nonzero(near) * np.eye(3, dtype=terms.dtype) - sums[:9].reshape(3, 3)
    return _least_squares(across, sums[9:])


def _from_centre(
    direction: Float[np.ndarray, "3 n"], foot: Float[np.ndarray, "3 n"], centre: Float[np.ndarray, "3"]
) -> Float[np.ndarray, " n"]:
    return _norms(foot - centre[:, None] + direction * (centre @ direction))


def _least_squares(matrix: Float[np.ndarray, "3 3"], right: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3"]:
    """The solution nearest to the origin; `pinv` gives the same and takes several times longer."""
    values, vectors = np.linalg.eigh(matrix)
    large = np.abs(values) > 3 * np.finfo(values.dtype).eps * np.abs(values).max()
    solution: np.ndarray = vectors @ ((right @ vectors) * np.where(large, 1 / np.where(large, values, 1), 0))
    return solution


def quantile(values: Float[np.ndarray, " n"], fraction: float) -> float:
    """Faster than NumPy's for few values; without NaN."""
    place = fraction * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    first, second = np.partition(values, (low, high))[[low, high]].tolist()
    return float(first + (place - low) * (second - first))


def _norms(vectors: Float[np.ndarray, "3 *n"]) -> Float[np.ndarray, "*n"]:
    norms: np.ndarray = np.sqrt(np.square(vectors).sum(0))
    return norms
