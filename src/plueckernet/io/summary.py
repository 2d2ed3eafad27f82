"""Summary statistics of a line map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.geometry.lines import LineSet

ELEVATION_BINS = 9  # of 10 degrees each, from horizontal to vertical
AZIMUTH_BINS = 12  # of 15 degrees each, over 180 degrees: lines are undirected
_MAX_AZIMUTH_ELEVATION = 80.0  # degrees; the azimuth of steeper lines is not counted
_LARGE_OFFSET = 2.0  # distance from the origin, in diagonals of the map, above which `float32_step` is given


@dataclass(frozen=True)
class Summary:
    """Counts, extent and directions of a map; lengths and coordinates are in the unit of the map.

    Attributes:
        count: Number of lines.
        segments: Whether they have endpoints; if not, the fields up to `length_total` are None.
        lower: Minimum coordinates of all endpoints.
        upper: Maximum coordinates of all endpoints.
        length_quartiles: Minimum, lower quartile, median, upper quartile and maximum length.
        length_total: Sum of the lengths.
        centre: Centre of the map.
        elevation: Histogram of the angles to the xy plane, as fractions weighted by length for segments.
        azimuth: Histogram of the angles of the horizontal components to the x axis, without near-vertical lines.
        float32_step: Rounding step of float32 at these coordinates, if the offset from the origin is large.
    """

    count: int
    segments: bool
    lower: list[float] | None
    upper: list[float] | None
    length_quartiles: list[float] | None
    length_total: float | None
    centre: list[float]
    elevation: list[float]
    azimuth: list[float]
    float32_step: float | None


def summarise_lines(lines: LineSet) -> Summary:
    """Summarise one (unbatched) set of lines."""
    lower = upper = quartiles = total = step = None
    weight = torch.ones(len(lines), dtype=torch.float64)
    if lines.endpoints is not None:
        points = lines.endpoints.reshape(-1, 3)
        lower, upper = points.amin(0), points.amax(0)
        weight = lines.lengths()
        quartiles, total = _quartiles(weight), float(weight.sum())
        step = _float32_step(lower, upper)
    elevation, azimuth = _histograms(lines.direction, weight)
    return Summary(
        count=len(lines),
        segments=lines.endpoints is not None,
        lower=None if lower is None else lower.tolist(),
        upper=None if upper is None else upper.tolist(),
        length_quartiles=quartiles,
        length_total=total,
        centre=lines.centre().tolist(),
        elevation=elevation,
        azimuth=azimuth,
        float32_step=step,
    )


def _quartiles(lengths: Float[Tensor, " n"]) -> list[float]:
    ordered = lengths.sort().values  # torch.quantile refuses more than 16 million values
    last = len(ordered) - 1
    return [float(ordered[round(fraction * last)]) for fraction in (0, 0.25, 0.5, 0.75, 1)]


def _histograms(direction: Float[Tensor, "n 3"], weight: Float[Tensor, " n"]) -> tuple[list[float], list[float]]:
    x, y, z = direction.unbind(-1)
    elevation = torch.rad2deg(torch.atan2(z.abs(), torch.hypot(x, y)))
    azimuth = torch.rad2deg(torch.atan2(y, x)).remainder(180)
    # Shifted by half a bin, so that the axes fall into the middle of a bin.
    azimuth = (azimuth + 90 / AZIMUTH_BINS).remainder(180)
    counted = elevation < _MAX_AZIMUTH_ELEVATION
    return (
        _fractions(elevation, weight, ELEVATION_BINS, 90.0, weight.sum()),
        _fractions(azimuth[counted], weight[counted], AZIMUTH_BINS, 180.0, weight.sum()),
    )


def _fractions(
    angle: Float[Tensor, " n"], weight: Float[Tensor, " n"], bins: int, top: float, total: Float[Tensor, ""]
) -> list[float]:
    bin_index = (angle * (bins / top)).long().clamp(0, bins - 1)
    sums = torch.zeros(bins, dtype=weight.dtype).index_add(0, bin_index, weight)
    return [float(fraction) for fraction in sums / total]


def _float32_step(lower: Float[Tensor, " 3"], upper: Float[Tensor, " 3"]) -> float | None:
    centre = (lower + upper) / 2
    if centre.norm() <= _LARGE_OFFSET * (upper - lower).norm():
        return None
    largest = torch.maximum(lower.abs(), upper.abs()).max()
    return float(torch.finfo(torch.float32).eps * 2 ** largest.log2().floor())
