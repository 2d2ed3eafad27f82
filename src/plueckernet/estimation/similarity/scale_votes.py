r"""The scale between two maps, by votes of pairs of matches.

A similarity of scale ``s`` multiplies the distance of two lines by ``s``; angles stay. So every two matches whose lines
enclose the same angle vote for ``log(d' / d)``, where ``d`` is the distance of the two source lines and ``d'`` that of
the two target lines: of skew lines along their common perpendicular, of parallel ones across. Wrong matches vote for
anything, right ones for one value. The ends of segments are not needed; where they are known, the distance of the
midpoints must have changed by about the same factor.

Votes have the error ``sigma_i = c (1 / d^2 + 1 / d'^2)^(1/2)`` with ``c`` a fraction of the inlier distance: lines that
nearly meet say nothing about the scale. A vote is spread by a normal density of that width, on a grid of ``log s``.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry.invariants import PairInvariants, pairwise_invariants
from plueckernet.geometry.lines import LineSet

MAX_LOG_SCALE = 0.8  # of a vote: beyond it, the matches were made at a scale at which they are worth little
_STEP = 0.01  # of the grid of log scales
_MIN_DISTANCE = 3.0  # inlier distances between lines that vote
_VOTE_ERROR = 0.35  # inlier distances, of the distance of two lines
_WIDTHS = (0.01, 0.02, 0.04, 0.08, 0.16)  # classes of the error of a vote, so that each is spread at once
_MAX_SPAN_DIFFERENCE = 0.5  # of the logarithms of both ratios; cut ends displace midpoints
_SEPARATION = 0.06  # between the log scales of two peaks
_ROWS = 256  # matches whose votes are computed at once


@dataclass(frozen=True)
class ScalePeak:
    """A scale that many pairs of matches agree on."""

    log_scale: float
    votes: float  # relative to the strongest peak


def vote_for_scales(maps: MapPair, matches: Matches, count: int) -> list[ScalePeak]:
    """At most ``count`` scales by which the source must grow further, most votes first; none without any vote."""
    density = _density(maps.source[matches.source], maps.target[matches.target], matches, maps.threshold)
    peaks: list[ScalePeak] = []
    strongest = float(density.max())
    grid = _grid()
    while len(peaks) < count and float(density.max()) > 0:
        row = int(density.argmax())
        peaks.append(ScalePeak(_vertex(grid, density, row), float(density[row]) / strongest))
        density[(grid - grid[row]).abs() < _SEPARATION] = 0
    return peaks


def _grid() -> Float[Tensor, " g"]:
    steps = round(MAX_LOG_SCALE / _STEP)
    return torch.arange(-steps, steps + 1) * _STEP


def _vertex(grid: Float[Tensor, " g"], density: Float[Tensor, " g"], row: int) -> float:
    """The maximum of the parabola through a peak and its neighbours."""
    if not 0 < row < len(grid) - 1:
        return float(grid[row])
    before, peak, after = density[row - 1 : row + 2].tolist()
    bend = before - 2 * peak + after
    return float(grid[row]) + (0.5 * _STEP * (before - after) / bend if bend < 0 and min(before, after) > 0 else 0.0)


def _density(
    source: AnchoredLines, target: AnchoredLines, matches: Matches, threshold: InlierThreshold
) -> Float[Tensor, " g"]:
    """Votes by log scale."""
    grid = _grid()
    counts = torch.zeros(len(_WIDTHS), len(grid))
    for start in range(0, len(matches), _ROWS):
        rows = slice(start, start + _ROWS)
        places, weight = _votes(source, target, matches, threshold, rows)
        counts += torch.bincount(places, weight, counts.numel()).view_as(counts)
    density = torch.zeros_like(grid)
    for width, row in zip(_WIDTHS, counts, strict=True):
        kernel = ((grid[:, None] - grid).square() / (-2 * width**2)).exp() / width
        density += kernel @ row
    return density


def _votes(
    source: AnchoredLines, target: AnchoredLines, matches: Matches, threshold: InlierThreshold, rows: slice
) -> tuple[Tensor, Tensor]:
    """The class of width and cell of each vote of some matches with those after them, as one index, and its weight."""
    first, second = (_invariants(side, rows) for side in (source, target))
    least = _MIN_DISTANCE * threshold.distance
    angle = first.cosine * second.cosine + first.sine * second.sine
    valid = (angle > math.cos(threshold.angle)) & (first.distance > least) & (second.distance > least)
    ratio = (second.distance / first.distance.clamp_min(1e-9)).log()
    if source.half_length is not None and target.half_length is not None:
        span = (second.span / first.span.clamp_min(1e-9)).clamp_min(1e-9).log()
        valid &= (ratio - span).abs() < _MAX_SPAN_DIFFERENCE
    valid &= (ratio.abs() <= MAX_LOG_SCALE).triu_(rows.start + 1)
    for side in (matches.source, matches.target):  # a line has one partner
        valid &= side[rows, None] != side
    probability = (matches.probability / matches.probability.max()).float().sqrt()
    weight = (probability[rows, None] * probability)[valid].cpu()
    error = (first.distance[valid].reciprocal().square() + second.distance[valid].reciprocal().square()).sqrt()
    widths = torch.tensor([math.sqrt(a * b) for a, b in itertools.pairwise(_WIDTHS)])
    width = torch.bucketize(error.cpu() * (_VOTE_ERROR * threshold.distance), widths)
    cell = ((ratio[valid].cpu() + MAX_LOG_SCALE) / _STEP).round().long()
    return width * len(_grid()) + cell, weight


def _invariants(lines: AnchoredLines, rows: slice) -> PairInvariants:
    single = LineSet(lines.lines.direction.float(), lines.lines.moment.float())
    return pairwise_invariants(single, lines.anchor.float(), rows)
