"""What a line map looks like, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.geometry.lines import LineSet

ELEVATION_BINS = 9  # of 10 degrees each, from level to upright
AZIMUTH_BINS = 12  # of 15 degrees each, over half a turn: lines are undirected
_UPRIGHT = 80.0  # degrees; steeper lines have no azimuth worth counting
_FAR = 2.0  # distance from the origin, in diagonals of the map, that deserves a remark


@dataclass(frozen=True)
class Summary:
    """Counts, size and directions of a map; lengths and coordinates in its own unit.

    Attributes:
        count: Number of lines.
        segments: Whether they have end points; without, the fields up to `length_total` are None.
        lower: Least coordinates of all end points.
        upper: Greatest coordinates of all end points.
        length_quartiles: Least, lower quartile, median, upper quartile and greatest length.
        length_total: Sum of the lengths.
        centre: Middle of the map.
        elevation: Shares of the lines by angle to the xy plane; of their length for segments, else of their number.
        azimuth: Likewise, by angle of the horizontal part to the x axis, of all lines but upright ones.
        float32_step: What float32 would round the coordinates to, if the map lies far from the origin.
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


def summarise(lines: LineSet) -> Summary:
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
    return [float(ordered[round(share * last)]) for share in (0, 0.25, 0.5, 0.75, 1)]


def _histograms(direction: Float[Tensor, "n 3"], weight: Float[Tensor, " n"]) -> tuple[list[float], list[float]]:
    x, y, z = direction.unbind(-1)
    elevation = torch.rad2deg(torch.atan2(z.abs(), torch.hypot(x, y)))
    azimuth = torch.rad2deg(torch.atan2(y, x)).remainder(180)
    # Half a bin is added so that the axes fall into the middle of a bin and not between two.
    azimuth = (azimuth + 90 / AZIMUTH_BINS).remainder(180)
    level = elevation < _UPRIGHT
    return (
        _shares(elevation, weight, ELEVATION_BINS, 90.0, weight.sum()),
        _shares(azimuth[level], weight[level], AZIMUTH_BINS, 180.0, weight.sum()),
    )


def _shares(
    angle: Float[Tensor, " n"], weight: Float[Tensor, " n"], bins: int, top: float, total: Float[Tensor, ""]
) -> list[float]:
    place = (angle * (bins / top)).long().clamp(0, bins - 1)
    sums = torch.zeros(bins, dtype=weight.dtype).index_add(0, place, weight)
    return [float(share) for share in sums / total]


def _float32_step(lower: Float[Tensor, " 3"], upper: Float[Tensor, " 3"]) -> float | None:
    centre = (lower + upper) / 2
    if centre.norm() <= _FAR * (upper - lower).norm():
        return None
    greatest = torch.maximum(lower.abs(), upper.abs()).max()
    return float(torch.finfo(torch.float32).eps * 2 ** greatest.log2().floor())
