"""A cloud of any density as evenly spread nodes with normals.

Points are thinned to the centroids of cells (nodes). A node's normal comes from its nearest nodes. Where these lie on
one line, as on the rings of a spinning LiDAR, cells are doubled until the neighbourhood spreads in two directions;
nodes of different sizes then exist side by side. Where they lie on several surfaces, the normal is that of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64, Shaped
from scipy.spatial import cKDTree

from plueckernet.settings import check_at_least, check_fraction, check_positive

_NODE_BLOCK = 100_000  # nodes whose neighbourhoods are in memory at a time
_SURFACE_BLOCK = 5_000  # nodes whose possible surfaces are in memory at a time
_MAX_NOISE_NEIGHBOURS = 3840  # points in the largest neighbourhood in which noise is measured, which bounds the memory
_MAX_LEVELS = 6  # sizes of cells, each twice the one before


@dataclass(frozen=True)
class NeighbourhoodSettings:
    """How spacing and noise are measured, and how nodes and their normals are made."""

    samples: int = 1000  # points at which spacing and noise are measured
    noise_neighbours: int = 60  # points in the smallest neighbourhood that is tested for flatness
    noise_growth: int = 4  # factor from one size of neighbourhood to the next
    max_flat_ratio: float = 0.05  # smallest over second eigenvalue of a flat neighbourhood
    min_flat_fraction: float = 0.1  # fraction of the samples that has to be flat
    spacing_neighbours: int = 6  # nearest points or nodes whose distances give the spacing
    neighbours: int = 16  # nodes that give a normal: a disc of two spacings
    noisy_neighbours: int = 30  # nodes that give a normal with noise: a disc of three spacings
    min_noise: float = 0.1  # smaller noise does not count, in cells
    spread_neighbours: int = 10  # nearest nodes that have to spread in two directions
    min_spread: float = 0.1  # second over first eigenvalue of a neighbourhood that is not a line
    link_neighbours: int = 12  # neighbours over which planes grow, the node included
    max_roughness: float = 0.12  # smallest over second eigenvalue of a neighbourhood that is one surface
    surface_neighbours: int = 30  # nodes among which a surface through a rough node is searched
    surface_spanning: int = 9  # nearest nodes of which any two span a possible surface
    surface_support: int = 10  # fewest nodes on the surface
    min_spanning_sine: float = 0.25  # sine of the angle between two nodes that span a surface
    flattening_cell: float = 1.5  # cells in which scattered points are flattened, in noise
    flattening_radius: float = 4.0  # radius of the plane onto which a point is moved, in noise
    flattening_neighbours: int = 80  # most cells that make this plane
    flattening_rounds: int = 2  # how often points are moved

    def __post_init__(self) -> None:
        check_at_least(self, 3, "neighbours", "noisy_neighbours", "spread_neighbours", "flattening_neighbours")
        check_at_least(self, 2, "link_neighbours", "surface_spanning")
        check_at_least(self, 1, "samples", "spacing_neighbours", "surface_support", "flattening_rounds")
        check_at_least(self, 4, "noise_neighbours")
        check_at_least(self, 2, "noise_growth")
        check_at_least(self, self.surface_spanning + 1, "surface_neighbours")
        check_fraction(self, "max_flat_ratio", "min_flat_fraction", "min_spread", "max_roughness", "min_spanning_sine")
        check_positive(self, "min_noise", "flattening_cell", "flattening_radius")


@dataclass(frozen=True, eq=False)
class Nodes:
    """Evenly spread representatives of the points of a cloud.

    Attributes:
        position: Centroid of the points of a cell.
        count: Number of points that a node represents.
        normal: Unit normal of the neighbourhood, of either sign.
        roughness: Smallest over second eigenvalue of the neighbourhood: 0 on a plane, up to 1.
        smooth: Whether the roughness is low enough for a plane to grow from the node.
        spacing: Distance to the nearest nodes around.
        neighbours: The nearest nodes; the first is the node itself.
    """

    position: Float64[np.ndarray, "m 3"]
    count: Int64[np.ndarray, " m"]
    normal: Float32[np.ndarray, "m 3"]
    roughness: Float32[np.ndarray, " m"]
    smooth: Bool[np.ndarray, " m"]
    spacing: Float64[np.ndarray, " m"]
    neighbours: Int32[np.ndarray, "m k"]

    def __len__(self) -> int:
        return len(self.position)


def spacing_and_noise(
    points: Float64[np.ndarray, "n 3"],
    tree: cKDTree,
    rng: np.random.Generator,
    settings: NeighbourhoodSettings = NeighbourhoodSettings(),
) -> tuple[float, float]:
    """Typical distance between neighbouring points of a surface, and their scatter across it, at sampled points.

    The scatter is the median over flat neighbourhoods of the smallest size at which there are such neighbourhoods, so
    that clutter and edges do not count as noise.
    """
    sample = points[rng.permutation(len(points))[: settings.samples]]
    distance, _ = _nearest(tree, sample, min(settings.spacing_neighbours + 1, len(points)))
    size = settings.noise_neighbours
    largest = min(_MAX_NOISE_NEIGHBOURS, max(size, len(points) // 8), len(points))
    while size <= largest:
        values, _ = _principal(points[_nearest(tree, sample, size)[1]])
        flat = values[:, 0] < settings.max_flat_ratio * values[:, 1]
        flat &= values[:, 1] > settings.min_spread * values[:, 2]
        if flat.mean() > settings.min_flat_fraction:
            noise = np.sqrt(np.maximum(values[flat, 0], 0.0))
            return float(np.median(distance[:, 1:])), float(np.median(noise))
        size *= settings.noise_growth
    return float(np.median(distance[:, 1:])), 0.0


def thin(
    points: Float64[np.ndarray, "n 3"], count: Int64[np.ndarray, " n"], cell: float
) -> tuple[Float64[np.ndarray, "m 3"], Int64[np.ndarray, " m"]]:
    """Centroid and number of points of every occupied cell."""
    if len(points) == 0:
        return points, count
    place = np.floor((points - points.min(axis=0)) / cell).astype(np.int64)
    size = place.max(axis=0) + 1
    key = (place[:, 0] * size[1] + place[:, 1]) * size[2] + place[:, 2]
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    total = np.add.reduceat(count[order], first)
    centroid = np.add.reduceat(points[order] * count[order, None], first, axis=0) / total[:, None]
    return centroid, total


def flattened(
    points: Float64[np.ndarray, "n 3"], noise: float, settings: NeighbourhoodSettings, workers: int = 1
) -> tuple[Float64[np.ndarray, "m 3"], Int64[np.ndarray, " m"]]:
    """Move points with much noise onto the surface that they scatter about.

    Returns the moved centroids of cells and the number of points that each represents.
    """
    position, count = thin(points, np.ones(len(points), np.int64), settings.flattening_cell * noise)
    neighbours = min(settings.flattening_neighbours, len(position))
    for _ in range(settings.flattening_rounds):
        tree, moved = cKDTree(position), np.empty_like(position)
        for start in range(0, len(position), _NODE_BLOCK // 4):
            block = slice(start, start + _NODE_BLOCK // 4)
            distance, index = _nearest(tree, position[block], neighbours, workers)
            weight = count[index] * (distance < settings.flattening_radius * noise)
            centre = np.einsum("qk,qkc->qc", weight, position[index]) / weight.sum(axis=1)[:, None]
            centred = position[index] - centre[:, None]
            _, vectors = np.linalg.eigh((centred * weight[..., None]).transpose(0, 2, 1) @ centred)
            normal = vectors[:, :, 0]
            height = np.einsum("qc,qc->q", position[block] - centre, normal)
            moved[block] = position[block] - height[:, None] * normal
        position = moved
    return position, count


def make_nodes(
    points: Float64[np.ndarray, "n 3"],
    count: Int64[np.ndarray, " n"],
    cell: float,
    noise: float,
    settings: NeighbourhoodSettings = NeighbourhoodSettings(),
    workers: int = 1,
) -> Nodes:
    """Thin a cloud to ``cell`` and find normals, with larger cells where points only line up."""
    noisy = noise > settings.min_noise * cell
    neighbours = settings.noisy_neighbours if noisy else settings.neighbours
    position, count = thin(points, count, cell)
    levels: list[tuple[Shaped[np.ndarray, "..."], ...]] = []
    open_position, open_count = position, count
    for level in range(_MAX_LEVELS):
        size = cell * 2**level
        if level:
            position, count = thin(position, count, size)
            open_position, open_count = thin(open_position, open_count, size)
        if len(position) < neighbours:
            break
        tree = cKDTree(position)
        normal, roughness, spread = _normals(tree, open_position, neighbours, settings.spread_neighbours, workers)
        done = spread >= settings.min_spread
        levels.append((open_position[done], open_count[done], normal[done], roughness[done], np.full(done.sum(), size)))
        open_position, open_count = open_position[~done], open_count[~done]
        if len(open_position) == 0:
            break
    left = len(open_position)  # thin things, which are lines at every size: they belong to no plane
    rough = (np.zeros((left, 3), np.float32), np.ones(left, np.float32), np.full(left, cell))
    levels.append((open_position, open_count, *rough))
    return _sharpened(_joined(levels, settings, workers), max(noise, settings.min_noise * cell), settings, workers)


def _joined(
    levels: list[tuple[Shaped[np.ndarray, "..."], ...]], settings: NeighbourhoodSettings, workers: int
) -> Nodes:
    """The nodes of all levels, with their neighbours."""
    position, count, normal, roughness, size = (np.concatenate(column) for column in zip(*levels, strict=True))
    neighbours = min(settings.link_neighbours, len(position))
    index = np.empty((len(position), neighbours), np.int32)
    spacing = np.empty(len(position))
    tree = cKDTree(position)
    for start in range(0, len(position), _NODE_BLOCK):
        block = slice(start, start + _NODE_BLOCK)
        distance, index[block] = _nearest(tree, position[block], neighbours, workers)
        nearest = distance[:, 1 : settings.spacing_neighbours + 1]
        spacing[block] = nearest.mean(axis=1) if neighbours > 1 else 0.0
    smooth = roughness < settings.max_roughness
    return Nodes(position, count, normal, roughness, smooth, np.maximum(spacing, size), index)


def _sharpened(nodes: Nodes, thickness: float, settings: NeighbourhoodSettings, workers: int) -> Nodes:
    """Give nodes whose neighbours lie on several surfaces the normal of the largest surface through them.

    Beside an edge a neighbourhood has no normal. Where points are sparse much of a wall is beside an edge, and whole
    walls would be lost. Each two of a node's nearest neighbours span a plane with it. The plane that contains most of
    the neighbourhood is chosen and fitted to the nodes on it.
    """
    nearest = settings.surface_spanning
    rough = np.flatnonzero(~nodes.smooth)
    if len(nodes) < settings.surface_neighbours:
        return nodes
    normal, roughness, tree = nodes.normal.copy(), nodes.roughness.copy(), cKDTree(nodes.position)
    first, second = np.triu_indices(nearest, 1)
    for start in range(0, len(rough), _SURFACE_BLOCK):
        block = rough[start : start + _SURFACE_BLOCK]
        _, index = _nearest(tree, nodes.position[block], settings.surface_neighbours, workers)
        step = nodes.position[index] - nodes.position[block, None]
        length = np.linalg.norm(step[:, 1 : nearest + 1], axis=-1)
        across = np.cross(step[:, 1 + first], step[:, 1 + second])
        area = np.linalg.norm(across, axis=-1)
        spanned = area > settings.min_spanning_sine * length[:, first] * length[:, second]
        across /= np.maximum(area, 1e-30)[..., None]
        on = (np.abs(across @ step.transpose(0, 2, 1)) < thickness) & spanned[..., None]
        largest = on.sum(axis=2).argmax(axis=1)
        members = on[np.arange(len(block)), largest]
        values, vectors = _principal(step, members)
        flat = members.sum(axis=1) >= settings.surface_support
        flat &= values[:, 1] > settings.min_spread * values[:, 2]
        normal[block[flat]] = vectors[flat, :, 0]
        roughness[block[flat]] = np.maximum(values[flat, 0], 0) / np.maximum(values[flat, 1], 1e-30)
    return replace(nodes, normal=normal, roughness=roughness, smooth=roughness < settings.max_roughness)


def _normals(
    tree: cKDTree, query: Float64[np.ndarray, "q 3"], neighbours: int, spread_neighbours: int, workers: int
) -> tuple[Float32[np.ndarray, "q 3"], Float32[np.ndarray, " q"], Float32[np.ndarray, " q"]]:
    """Normal and roughness of the nodes nearest to each query, and the spread of the nearest few.

    Roughness is the smallest over the second eigenvalue of the neighbourhood, spread the second over the largest.
    """
    normal = np.empty((len(query), 3), np.float32)
    roughness, spread = np.empty(len(query), np.float32), np.empty(len(query), np.float32)
    for start in range(0, len(query), _NODE_BLOCK):
        block = slice(start, start + _NODE_BLOCK)
        _, index = _nearest(tree, query[block], neighbours, workers)
        values, vectors = _principal(tree.data[index])
        normal[block] = vectors[:, :, 0]
        roughness[block] = np.maximum(values[:, 0], 0) / np.maximum(values[:, 1], 1e-30)
        nearest, _ = _principal(tree.data[index[:, :spread_neighbours]])
        spread[block] = np.maximum(nearest[:, 1], 0) / np.maximum(nearest[:, 2], 1e-30)
    return normal, roughness, spread


def _nearest(
    tree: cKDTree, query: Float64[np.ndarray, "q 3"], count: int, workers: int = 1
) -> tuple[Float64[np.ndarray, "q k"], Int64[np.ndarray, "q k"]]:
    """Distances and indices of the nearest points, with two axes even for a count of 1."""
    distance, index = tree.query(query, count, workers=workers)
    return np.asarray(distance).reshape(-1, count), np.asarray(index, np.int64).reshape(-1, count)


def _principal(
    sets: Float64[np.ndarray, "q k 3"], members: Bool[np.ndarray, "q k"] | None = None
) -> tuple[Float64[np.ndarray, "q 3"], Float64[np.ndarray, "q 3 3"]]:
    """Eigenvalues, smallest first, and eigenvectors of the covariance of each set of points, or of its members."""
    if members is None:
        centred = sets - sets.mean(axis=1, keepdims=True)
        return np.linalg.eigh(centred.transpose(0, 2, 1) @ centred / sets.shape[1])
    weight = members / np.maximum(members.sum(axis=1, keepdims=True), 1)
    centred = sets - np.einsum("qk,qkc->qc", weight, sets)[:, None]
    return np.linalg.eigh(np.einsum("qk,qki,qkj->qij", weight, centred, centred))
