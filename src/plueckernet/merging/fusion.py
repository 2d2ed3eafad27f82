"""The lines of all maps of a group as one map: lines that are there several times are fused, and each knows its origin.

Lines of different maps are the same line if they are closer than the distance and the angle at which lines are inliers,
and overlap along their direction. Lines of one map that run side by side are different lines, whatever is between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet
from plueckernet.merging import sim3
from plueckernet.merging.alignment import AlignedGroup, Alignment
from plueckernet.settings import check_positive

_BLOCK = 1 << 21  # pairs of lines compared at a time


@dataclass(frozen=True)
class FusionSettings:
    """When lines of different maps are the same line."""

    distance: float | None = None  # between them, in the unit of the group; None: from the registrations
    angle: float = 4.0  # degrees
    overlap: float = 0.1  # least common stretch, as a fraction of the shorter line

    def __post_init__(self) -> None:
        check_positive(self, "distance", "angle")


@dataclass(frozen=True, eq=False)
class MergedMap:
    """Fused lines in the frame of the group. ``lines.views`` counts the maps that show each line."""

    lines: LineSet
    names: tuple[str, ...]  # of the maps
    origin: Int[Tensor, "k 3"]  # fused line, map, line of the map: one row for every line of every map


@dataclass(frozen=True, eq=False)
class _Segments:
    """All lines of a group, about the centre of its reference."""

    ends: Float[Tensor, "n 2 3"]
    owner: Int[Tensor, " n"]
    row: Int[Tensor, " n"]
    weight: Float[Tensor, " n"]  # inverse variance, or one

    @property
    def middle(self) -> Float[Tensor, "n 3"]:
        return self.ends.mean(1)

    @property
    def arrow(self) -> Float[Tensor, "n 3"]:
        return self.ends[:, 1] - self.ends[:, 0]

    @property
    def length(self) -> Float[Tensor, " n"]:
        return self.arrow.norm(dim=-1)

    def __getitem__(self, rows: Int[Tensor, " k"]) -> _Segments:
        return _Segments(self.ends[rows], self.owner[rows], self.row[rows], self.weight[rows])


def merge_group(alignment: Alignment, group: AlignedGroup, settings: FusionSettings = FusionSettings()) -> MergedMap:
    """All lines of a group in its frame, with duplicates fused; infinite lines raise :class:`InputError`."""
    offset = alignment.centres[group.maps[0]]
    segments = _collected(alignment, group, offset)
    distance = settings.distance if settings.distance is not None else _usual_distance(alignment, group)
    clusters = _clusters(segments, replace(settings, distance=distance))
    fused, label = _fused(segments, clusters)
    ends = fused + offset
    views = torch.zeros(len(ends), len(group.maps), dtype=torch.bool)
    views[label, segments.owner] = True
    inverse = torch.zeros(len(ends), dtype=torch.float64).index_add_(0, label, segments.weight)
    known = all(alignment.maps[name].sigma is not None for name in group.maps)
    lines = LineSet.from_segments(ends, sigma=inverse.rsqrt() if known else None).replaced(views=views.sum(1))
    origin = torch.stack([label, segments.owner, segments.row], 1)
    order = (origin[:, 0] * len(group.maps) + origin[:, 1]).argsort(stable=True)
    return MergedMap(lines, group.maps, origin[order])


def _collected(alignment: Alignment, group: AlignedGroup, offset: Float[Tensor, "3"]) -> _Segments:
    ends, owner, row, weight = [], [], [], []
    for number, name in enumerate(group.maps):
        lines, pose = alignment.maps[name], group.poses[name]
        if lines.endpoints is None:
            raise InputError(f"{name}: infinite lines cannot be merged; clip them to segments first")
        moved = pose @ lines
        if moved.endpoints is None:
            continue
        ends.append(moved.endpoints - offset)
        owner.append(torch.full((len(lines),), number))
        row.append(torch.arange(len(lines)))
        weight.append(torch.ones(len(lines)).double() if moved.sigma is None else moved.sigma.square().reciprocal())
    return _Segments(torch.cat(ends), torch.cat(owner), torch.cat(row), torch.cat(weight))


def _usual_distance(alignment: Alignment, group: AlignedGroup) -> float:
    """Of the accepted edges, the median inlier threshold; a map on its own has nothing to fuse."""
    distances = [
        edge.inlier_distance * float(sim3.scales(group.poses[edge.target].matrix()))
        for edge in alignment.accepted_edges(group)
    ]
    return float(torch.tensor(distances).median()) if distances else 1e-9


def _clusters(segments: _Segments, settings: FusionSettings) -> list[set[int]]:
    """Sets of lines that are the same line; the closest pairs are joined first."""
    owners = segments.owner.tolist()
    member = {row: {row} for row in range(len(segments.ends))}
    for _, first, second in sorted(_close_pairs(segments, settings)):
        group, other = member[first], member[second]
        if group is not other and not _side_by_side(segments, owners, group, other):
            group |= other
            for row in other:
                member[row] = group
    return list({id(cluster): cluster for cluster in member.values()}.values())


def _close_pairs(segments: _Segments, settings: FusionSettings) -> Iterator[tuple[float, int, int]]:
    """Misfit and rows of pairs of lines of different maps that can be the same line."""
    distance = settings.distance or 1e-9
    boxes = [_box(segments, number, distance) for number in range(int(segments.owner.max()) + 1)]
    for (first, low, high), (second, other_low, other_high) in combinations(boxes, 2):
        if bool((low > other_high).any()) or bool((other_low > high).any()):
            continue
        rows = [_inside(segments, first, other_low, other_high), _inside(segments, second, low, high)]
        yield from _compared(segments, rows[0], rows[1], distance, settings)


def _box(
    segments: _Segments, number: int, margin: float
) -> tuple[Int[Tensor, " k"], Float[Tensor, "3"], Float[Tensor, "3"]]:
    rows = (segments.owner == number).nonzero()[:, 0]
    points = segments.ends[rows].flatten(0, 1)
    return rows, points.amin(0) - margin, points.amax(0) + margin


def _inside(
    segments: _Segments, rows: Int[Tensor, " k"], low: Float[Tensor, "3"], high: Float[Tensor, "3"]
) -> Int[Tensor, " j"]:
    ends = segments.ends[rows]
    return rows[((ends.amax(1) >= low) & (ends.amin(1) <= high)).all(-1)]


def _compared(
    segments: _Segments, first: Int[Tensor, " k"], second: Int[Tensor, " m"], distance: float, settings: FusionSettings
) -> Iterator[tuple[float, int, int]]:
    other = segments[second]
    direction = torch.nn.functional.normalize(other.arrow, dim=-1)
    limit = math.cos(math.radians(settings.angle))
    for rows in first.split(max(1, _BLOCK // max(1, len(second)))):
        block = segments[rows]
        cosine = (torch.nn.functional.normalize(block.arrow, dim=-1) @ direction.mT).abs()
        places = (cosine > limit).nonzero()
        offset = block.middle[places[:, 0]] - other.middle[places[:, 1]]
        axis = direction[places[:, 1]]
        along = (offset * axis).sum(-1)
        across = (offset - along[:, None] * axis).norm(dim=-1)
        lengths = torch.stack([block.length[places[:, 0]], other.length[places[:, 1]]])
        common = lengths.sum(0) / 2 - along.abs()
        same = (across < distance) & (common > settings.overlap * lengths.amin(0))
        misfit = across / distance + (1 - cosine[places[:, 0], places[:, 1]]) / (1 - limit)
        for place in same.nonzero()[:, 0].tolist():
            yield float(misfit[place]), int(rows[places[place, 0]]), int(second[places[place, 1]])


def _side_by_side(segments: _Segments, owners: Sequence[int], first: set[int], second: set[int]) -> bool:
    """Whether both have lines of one map that overlap along their direction."""
    return any(
        owners[row] == owners[other] and _overlapping(segments.ends[row], segments.ends[other])
        for row in first
        for other in second
    )


def _overlapping(first: Float[Tensor, "2 3"], second: Float[Tensor, "2 3"]) -> bool:
    arrow = first[1] - first[0]
    length = float(arrow.norm())
    along = sorted(((second - first[0]) @ (arrow / length)).tolist())
    return min(length, along[1]) - max(0.0, along[0]) > 0.2 * min(length, along[1] - along[0])


def _fused(segments: _Segments, clusters: Sequence[set[int]]) -> tuple[Float[Tensor, "m 2 3"], Int[Tensor, " n"]]:
    """The least-squares line of each cluster over the union of its stretches, weighted by length and accuracy."""
    label = torch.zeros(len(segments.ends), dtype=torch.long)
    for number, cluster in enumerate(sorted(clusters, key=min)):
        label[list(cluster)] = number
    count = len(clusters)
    weight = segments.length * segments.weight
    total = torch.zeros(count, dtype=torch.float64).index_add_(0, label, weight)
    centre = torch.zeros(count, 3, dtype=torch.float64).index_add_(0, label, weight[:, None] * segments.middle)
    centre = centre / total[:, None]
    offset = segments.ends - centre[label][:, None]
    scatter = torch.zeros(count, 3, 3, dtype=torch.float64)
    scatter.index_add_(0, label, weight[:, None, None] * (offset.mT @ offset))
    direction = torch.linalg.eigh(scatter).eigenvectors[..., -1]
    along = (offset * direction[label][:, None]).sum(-1)
    infinity = torch.full((count,), math.inf, dtype=torch.float64)
    low = infinity.scatter_reduce(0, label, along.amin(1), "amin")
    high = (-infinity).scatter_reduce(0, label, along.amax(1), "amax")
    fused = centre[:, None] + torch.stack([low, high], 1)[..., None] * direction[:, None]
    single = torch.zeros(count, dtype=torch.long).index_add_(0, label, torch.ones_like(label))[label] == 1
    fused[label[single]] = segments.ends[single]  # to the last digit
    return fused, label
