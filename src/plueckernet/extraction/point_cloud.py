"""Lines from point clouds, in the manner of Lu, Liu and Li (2019).

Nodes with normals, planes, outlines of planes, edges where planes meet, straight pieces of the remaining outlines.
Segments that were found more than once are merged.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.spatial import cKDTree

from plueckernet.errors import InputError, ShapeError
from plueckernet.extraction.boundaries import (
    BoundarySettings,
    Outline,
    continues_outside,
    nodes_by_plane,
    plane_outline,
)
from plueckernet.extraction.clouds.reading import CHUNK, point_chunks
from plueckernet.extraction.creases import CreaseSettings, creases
from plueckernet.extraction.edges import EdgeSettings, Surface, outline_segments
from plueckernet.extraction.extracted import ExtractedLines, SegmentArrays
from plueckernet.extraction.neighbourhoods import (
    NeighbourhoodSettings,
    Nodes,
    flattened,
    make_nodes,
    spacing_and_noise,
)
from plueckernet.extraction.planes import Planes, PlaneSettings, grow_planes
from plueckernet.extraction.segments import MergeSettings, merged
from plueckernet.extraction.tiles import Points, TileSettings, tiled
from plueckernet.extraction.visibility import Viewpoint, VisibilitySettings
from plueckernet.geometry.arrays import ArrayLike, as_floats
from plueckernet.parallel import Executor, InlineExecutor
from plueckernet.settings import check_at_least, check_positive

_log = logging.getLogger("plueckernet")


@dataclass(frozen=True)
class ScaleSettings:
    """How the lengths of an extraction follow from the spacing and the noise of the points."""

    thinning: float = 0.7  # size of a cell, in spacings
    large_thinning: float = 1.5  # the same for large clouds
    large_cloud: int = 500_000  # points above which a cloud is large
    noise_cell: float = 4.0  # least size of a cell, in noise
    scattered_ratio: float = 0.75  # noise over spacing above which points are flattened first (scattered clouds)
    scattered_cell: float = 2.0  # least size of a cell of a scattered cloud, in noise
    flattened_noise: float = 0.25  # fraction of the noise that flattening leaves
    flatness: float = 3.0  # distance from a plane up to which a point belongs to it, in noise
    scattered_flatness: float = 1.0  # the same for scattered clouds
    min_length: float = 8.0  # shortest segment, in cells or spacings
    min_crease_length: float = 4.0  # shortest segment where planes meet: its direction is known from both planes

    def __post_init__(self) -> None:
        check_positive(self, "thinning", "large_thinning", "noise_cell", "scattered_ratio", "scattered_cell")
        check_positive(self, "flatness", "scattered_flatness", "min_length", "min_crease_length")
        check_at_least(self, 0, "large_cloud", "flattened_noise")


@dataclass(frozen=True)
class PointCloudSettings:
    """How lines are found in a cloud; the defaults follow the cloud.

    Attributes:
        spacing: Points are thinned to this distance, in metres; the default follows the cloud's spacing and noise.
        flatness: Distance from a plane up to which a point belongs to it, in metres; by default three times the noise.
        min_length: Shortest segment, in metres; by default 8 spacings, or 4 where two planes meet.
        min_plane: Fewest nodes of a plane.
        viewpoint: Position from which a single scan was taken, in metres, if known: ends of surfaces that are shadows
            of something nearer, or the rim of the field of view, are then left out.
        tile_points: Larger clouds are processed tile by tile; less than 1 GB of memory for each million.
        workers: Threads that search neighbours; -1 for one per core.
        seed: Seed of the random samples.
        scale: How the lengths above follow from the cloud.
        neighbourhoods: How spacing and noise are measured, and nodes and normals made.
        planes: How planes grow.
        boundaries: What the outline of a plane is.
        creases: Where two planes make an edge.
        edges: How segments are fitted to outlines.
        visibility: Which outlines are shadows.
        merging: Which segments are merged.
        tiles: How a large cloud is cut into tiles.
    """

    spacing: float | None = None
    flatness: float | None = None
    min_length: float | None = None
    min_plane: int = 30
    viewpoint: tuple[float, float, float] | None = None
    tile_points: int = 2_000_000
    workers: int = -1
    seed: int = 0
    scale: ScaleSettings = field(default_factory=ScaleSettings)
    neighbourhoods: NeighbourhoodSettings = field(default_factory=NeighbourhoodSettings)
    planes: PlaneSettings = field(default_factory=PlaneSettings)
    boundaries: BoundarySettings = field(default_factory=BoundarySettings)
    creases: CreaseSettings = field(default_factory=CreaseSettings)
    edges: EdgeSettings = field(default_factory=EdgeSettings)
    visibility: VisibilitySettings = field(default_factory=VisibilitySettings)
    merging: MergeSettings = field(default_factory=MergeSettings)
    tiles: TileSettings = field(default_factory=TileSettings)

    def __post_init__(self) -> None:
        check_positive(self, "spacing", "flatness", "min_length", "tile_points")
        check_at_least(self, 3, "min_plane")
        check_at_least(self, 0, "seed")
        if self.workers != -1:
            check_at_least(self, 1, "workers")
        place = self.viewpoint
        if place is not None and (np.shape(place) != (3,) or not all(map(math.isfinite, place))):
            raise InputError(f"PointCloudSettings.viewpoint: expected three finite numbers, got {place!r}")


@dataclass(frozen=True)
class Scale:
    """The lengths of one extraction, in metres."""

    cell: float  # to which the cloud is thinned
    flatness: float  # distance from a plane up to which a point belongs to it
    min_length: float
    min_crease_length: float  # where planes meet
    scattered: bool = False  # whether noise is so large that points have to be moved onto surfaces first

    @classmethod
    def of(cls, count: int, spacing: float, noise: float, settings: PointCloudSettings) -> Scale:
        """The lengths in the settings; those that are not given follow from the points' count, spacing and noise."""
        scale = settings.scale
        fine = (scale.large_thinning if count > scale.large_cloud else scale.thinning) * spacing
        scattered = noise > scale.scattered_ratio * spacing
        noise_cell, flatness = (
            (scale.scattered_cell, scale.scattered_flatness) if scattered else (scale.noise_cell, scale.flatness)
        )
        cell = settings.spacing or max(fine, noise_cell * noise)
        flatness = settings.flatness or max(flatness * noise, 0.6 * min(cell, spacing))
        min_length, min_crease_length = (
            settings.min_length or length * max(cell, spacing) for length in (scale.min_length, scale.min_crease_length)
        )
        return Scale(cell, flatness, min_length, min_crease_length, scattered)


@dataclass(frozen=True, eq=False)
class _Cloud:
    """The points of a tile, relative to ``origin``, with their search tree and scale."""

    points: Points
    origin: Float64[np.ndarray, " 3"]
    tree: cKDTree
    noise: float
    scale: Scale


def extract_lines(
    points: ArrayLike | str | Path,
    settings: PointCloudSettings = PointCloudSettings(),
    progress: Callable[[float], None] | None = None,
    *,
    format: str | None = None,
    executor: Executor = InlineExecutor(),
) -> ExtractedLines:
    """Segments at the edges of the planes in a point cloud.

    Clouds of more than ``settings.tile_points`` points are processed tile by tile over a temporary file.

    Args:
        points: Coordinates in metres, `(n, 3)`: an array, a list or a tensor; or a file of them (see `read_points`).
            Points that are not finite are left out.
        settings: See :class:`PointCloudSettings`.
        progress: Called from time to time with the fraction done, in [0, 1].
        format: Format of a file, one of the names in `CLOUD_FORMATS`; by default content and suffix decide.
        executor: Runs the tiles of a large cloud; each worker needs memory for one tile.

    Raises:
        FormatError: The file cannot be read.
        InputError: There are no points.
    """
    if not isinstance(executor, InlineExecutor):
        settings = replace(settings, workers=1)  # the cores are those of the workers
    work = partial(_tile_work, settings=settings)
    chunks = point_chunks(points, format=format) if isinstance(points, str | Path) else _array_chunks(points)
    segments, scales = tiled(
        chunks, settings.tile_points, work, progress or (lambda _: None), settings.tiles, executor
    )  # fmt: skip
    if not scales:
        raise InputError(f"{points if isinstance(points, str | Path) else 'points'}: no points with finite coordinates")
    if len(scales) > 1:
        segments = merged(segments, float(np.median([scale.cell for scale in scales])), settings.merging)
    return segments.take(segments.lengths() >= min(scale.min_crease_length for scale in scales)).extracted()


def _tile_work(
    points: Points, origin: Float64[np.ndarray, " 3"], report: Callable[[float], None], settings: PointCloudSettings
) -> tuple[SegmentArrays, Scale]:
    scale, segments = cloud_segments(points, origin, settings, report)
    return segments, scale


def _array_chunks(points: ArrayLike) -> Iterator[Points]:
    if not isinstance(points, np.ndarray):  # an array may be larger than the memory
        points = as_floats(points, "points", ("n", 3)).detach().cpu().numpy()
    if points.ndim != 2 or points.shape[1] != 3:
        raise ShapeError("points", ("n", 3), points.shape)
    for start in range(0, len(points), CHUNK):
        chunk = points[start : start + CHUNK].astype(np.float64)
        yield chunk[np.isfinite(chunk).all(axis=1)]


def cloud_segments(
    points: Points, origin: Float64[np.ndarray, " 3"], settings: PointCloudSettings, progress: Callable[[float], None]
) -> tuple[Scale, SegmentArrays]:
    """Segments of a cloud whose coordinates are relative to ``origin``, as are those of the segments."""
    if len(points) < settings.min_plane:
        return Scale(0.0, 0.0, 0.0, 0.0), SegmentArrays.empty()
    rng = np.random.default_rng(settings.seed)
    tree = cKDTree(points)
    spacing, noise = spacing_and_noise(points, tree, rng, settings.neighbourhoods)
    scale = Scale.of(len(points), spacing, noise, settings)
    if not scale.cell > 0:  # all points coincide
        return scale, SegmentArrays.empty()
    cloud = _Cloud(points, origin, tree, noise, scale)
    progress(0.05)
    nodes = _cloud_nodes(cloud, settings)
    progress(0.5)
    planes = grow_planes(nodes, scale.flatness, settings.min_plane, rng, settings.planes)
    progress(0.7)
    members = nodes_by_plane(planes.label, len(planes))
    outlines = [plane_outline(nodes, planes, plane, node, settings.boundaries) for plane, node in enumerate(members)]
    progress(0.85)
    crease, claimed = creases(nodes, planes, members, outlines, scale.min_crease_length, settings.creases)
    progress(0.95)
    edge = _edge_segments(cloud, nodes, planes, outlines, claimed, settings)
    _log.debug("%s, %d points, %d nodes, %d planes", scale, len(points), len(nodes), len(planes))
    progress(1.0)
    return scale, merged(SegmentArrays.joined([crease, edge]), scale.cell, settings.merging)


def _cloud_nodes(cloud: _Cloud, settings: PointCloudSettings) -> Nodes:
    """Nodes of the cloud; points that are scattered across their surface are moved onto it first."""
    cell, how, workers = cloud.scale.cell, settings.neighbourhoods, settings.workers
    count: Int64[np.ndarray, " n"] = np.ones(len(cloud.points), np.int64)
    if not cloud.scale.scattered:
        return make_nodes(cloud.points, count, cell, cloud.noise, how, workers)
    points, count = flattened(cloud.points, cloud.noise, how, workers)
    return make_nodes(points, count, cell, settings.scale.flattened_noise * cloud.noise, how, workers)


def _edge_segments(
    cloud: _Cloud,
    nodes: Nodes,
    planes: Planes,
    outlines: list[Outline],
    claimed: Bool[np.ndarray, " m"],
    settings: PointCloudSettings,
) -> SegmentArrays:
    """Segments where planes end: on outlines that no crease explains, where neither surface nor shadow continues."""
    scale, viewpoint = cloud.scale, None
    if settings.viewpoint is not None:
        viewpoint = Viewpoint.of(nodes.position, np.array(settings.viewpoint) - cloud.origin, settings.visibility)
    tree = cKDTree(nodes.position)
    segments = []
    for plane, outline in enumerate(outlines):
        free = ~claimed[outline.node]
        free &= ~continues_outside(nodes, planes, outline, tree, scale.flatness, settings.boundaries)
        if viewpoint is not None:
            free &= ~viewpoint.hides(nodes, planes, outline, tree)
        normal, offset = planes.normal[plane], float(planes.offset[plane])
        surface = Surface(cloud.points, cloud.tree, normal, offset, scale.flatness, cloud.noise)
        min_piece = 0.5 * scale.min_length  # pieces are merged before the shortest are dropped
        segments.append(outline_segments(nodes, outline, free, min_piece, surface, settings.edges))
    joined = merged(SegmentArrays.joined(segments), scale.cell, settings.merging)
    return joined.take(joined.lengths() >= scale.min_length)
