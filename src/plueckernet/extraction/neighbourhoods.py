"""A cloud of any density as evenly spread nodes with normals.

Points are thinned to the centroids of cells (nodes). A node's normal comes from its nearest nodes. Where these lie on
one line, as on the rings of a spinning LiDAR, cells are doubled until the neighbourhood spreads in two directions;
nodes of different sizes then live side by side. Where they lie on several surfaces, the normal is that of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64, Shaped
from scipy.spatial import cKDTree

FEW_NEIGHBOURS, MANY_NEIGHBOURS = 16, 30  # discs of two and of three spacings
_NOISY = 0.1  # noise over cell from which normals need many neighbours
_SHEET = 80  # cells that make a plane through scattered points
_CLOSE = 10  # neighbours that have to spread in two directions
LINKS = 12  # neighbours over which planes grow
ROUGHEST = 0.12  # smallest over second eigenvalue of a neighbourhood from which a plane may grow
_SURFACE = (30, 9, 10)  # neighbours among which a surface through a node is sought, that span it, that have to be on it
_CHUNK = 100_000  # nodes whose neighbourhoods are held at a time
_SURFACES_CHUNK = 5_000  # nodes whose possible surfaces are
_BLUNTEST = 0.25  # sine between two neighbours that span a surface
_LEVELS = 6  # cells grow to 32 times the finest
_LEAST_SPREAD = 0.1  # second over first eigenvalue below which a neighbourhood is a line
_SAMPLE = 1000  # points at which spacing and noise are measured
_NOISE_NEIGHBOURS = (60, 240, 960, 3840)  # the fewest are taken among which planes look flat
_FLAT = 0.05  # smallest over second eigenvalue
_ENOUGH = 0.1  # share of the samples that have to be flat


@dataclass(frozen=True, eq=False)
class Nodes:
    """Evenly spread stand-ins of the points of a cloud.

    Attributes:
        position: Centroid of the points of a cell.
        count: How many points it stands for.
        normal: Unit normal of the neighbourhood, of either sign.
        roughness: Smallest over second eigenvalue of the neighbourhood: 0 on a plane, up to 1.
        spacing: Distance to the nearest nodes around.
        neighbours: The nearest nodes, itself first.
    """

    position: Float64[np.ndarray, "m 3"]
    count: Int64[np.ndarray, " m"]
    normal: Float32[np.ndarray, "m 3"]
    roughness: Float32[np.ndarray, " m"]
    spacing: Float64[np.ndarray, " m"]
    neighbours: Int32[np.ndarray, "m k"]

    def __len__(self) -> int:
        return len(self.position)


def spacing_and_noise(
    points: Float64[np.ndarray, "n 3"], tree: cKDTree, rng: np.random.Generator
) -> tuple[float, float]:
    """Typical distance between neighbouring points of a surface, and their scatter across it, at sampled points.

    The scatter is the median over flat neighbourhoods of the smallest size at which there are such, so that clutter and
    edges do not count as noise.
    """
    sample = points[rng.permutation(len(points))[:_SAMPLE]]
    distance, _ = _nearest(tree, sample, min(7, len(points)))
    for size in _NOISE_NEIGHBOURS:
        if size > max(_NOISE_NEIGHBOURS[0], len(points) // 8) or size > len(points):
            break
        values, _ = _principal(points[_nearest(tree, sample, size)[1]])
        flat = (values[:, 0] < _FLAT * values[:, 1]) & (values[:, 1] > _LEAST_SPREAD * values[:, 2])
        if flat.mean() > _ENOUGH:
            noise = np.sqrt(np.maximum(values[flat, 0], 0.0))
            return float(np.median(distance[:, 1:])), float(np.median(noise))
    return float(np.median(distance[:, 1:])), 0.0


def thin(
    points: Float64[np.ndarray, "n 3"], count: Int64[np.ndarray, " n"], cell: float
) -> tuple[Float64[np.ndarray, "m 3"], Int64[np.ndarray, " m"]]:
    """Centroid and number of points of every cell that has any."""
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
    points: Float64[np.ndarray, "n 3"], noise: float, workers: int = 1
) -> tuple[Float64[np.ndarray, "m 3"], Int64[np.ndarray, " m"]]:
    """Points with much noise moved onto the surface that they scatter about, and how many each stands for.

    Cells of 1.5 times the noise are moved onto the plane of what is within four times the noise, twice.
    """
    position, count = thin(points, np.ones(len(points), np.int64), 1.5 * noise)
    for _ in range(2):
        tree, moved = cKDTree(position), np.empty_like(position)
        for start in range(0, len(position), _CHUNK // 4):
            part = slice(start, start + _CHUNK // 4)
            distance, index = _nearest(tree, position[part], min(_SHEET, len(position)), workers)
            weight = count[index] * (distance < 4 * noise)
            centre = np.einsum("qk,qkc->qc", weight, position[index]) / weight.sum(axis=1)[:, None]
            centred = position[index] - centre[:, None]
            _, vectors = np.linalg.eigh((centred * weight[..., None]).transpose(0, 2, 1) @ centred)
            normal = vectors[:, :, 0]
            height = np.einsum("qc,qc->q", position[part] - centre, normal)
            moved[part] = position[part] - height[:, None] * normal
        position = moved
    return position, count


def make_nodes(
    points: Float64[np.ndarray, "n 3"], count: Int64[np.ndarray, " n"], cell: float, noise: float, workers: int = 1
) -> Nodes:
    """Thin a cloud to ``cell`` and find normals, with larger cells where points only line up."""
    amount = MANY_NEIGHBOURS if noise > _NOISY * cell else FEW_NEIGHBOURS
    position, count = thin(points, count, cell)
    parts: list[tuple[Shaped[np.ndarray, "..."], ...]] = []
    open_position, open_count = position, count
    for level in range(_LEVELS):
        size = cell * 2**level
        if level:
            position, count = thin(position, count, size)
            open_position, open_count = thin(open_position, open_count, size)
        if len(position) < amount:
            break
        normal, roughness, spread = _normals(position, open_position, amount, workers)
        done = spread >= _LEAST_SPREAD
        parts.append((open_position[done], open_count[done], normal[done], roughness[done], np.full(done.sum(), size)))
        open_position, open_count = open_position[~done], open_count[~done]
        if len(open_position) == 0:
            break
    left = len(open_position)  # thin things, seen as lines at every size: they belong to no plane
    rough = (np.zeros((left, 3), np.float32), np.ones(left, np.float32), np.full(left, cell))
    parts.append((open_position, open_count, *rough))
    return _sharpened(_joined(parts, workers), max(noise, 0.1 * cell), workers)


def _joined(parts: list[tuple[Shaped[np.ndarray, "..."], ...]], workers: int) -> Nodes:
    position, count, normal, roughness, size = (np.concatenate(column) for column in zip(*parts, strict=True))
    amount = min(LINKS, len(position))
    index = np.empty((len(position), amount), np.int32)
    near = np.empty(len(position))
    tree = cKDTree(position)
    for start in range(0, len(position), _CHUNK):
        part = slice(start, start + _CHUNK)
        distance, index[part] = _nearest(tree, position[part], amount, workers)
        near[part] = distance[:, 1:7].mean(axis=1) if amount > 1 else 0.0
    return Nodes(position, count, normal, roughness, np.maximum(near, size), index)


def _sharpened(nodes: Nodes, tolerance: float, workers: int) -> Nodes:
    """Give nodes whose neighbours lie on several surfaces the normal of the largest one through them.

    Beside an edge a neighbourhood has no normal. Where points are sparse much of a wall is beside an edge, and whole
    walls would be lost. Of the planes through a node and two of its closest neighbours, the one is taken that most of
    the neighbourhood lies on, and fitted to these.
    """
    most, close, least = _SURFACE
    rough = np.flatnonzero(nodes.roughness >= ROUGHEST)
    if len(nodes) < most:
        return nodes
    normal, roughness, tree = nodes.normal.copy(), nodes.roughness.copy(), cKDTree(nodes.position)
    first, second = np.triu_indices(close, 1)
    for start in range(0, len(rough), _SURFACES_CHUNK):
        mine = rough[start : start + _SURFACES_CHUNK]
        _, index = _nearest(tree, nodes.position[mine], most, workers)
        step = nodes.position[index] - nodes.position[mine, None]
        length = np.linalg.norm(step[:, 1 : close + 1], axis=-1)
        across = np.cross(step[:, 1 + first], step[:, 1 + second])
        area = np.linalg.norm(across, axis=-1)
        spanned = area > _BLUNTEST * length[:, first] * length[:, second]
        across /= np.maximum(area, 1e-30)[..., None]
        on = (np.abs(across @ step.transpose(0, 2, 1)) < tolerance) & spanned[..., None]
        largest = on.sum(axis=2).argmax(axis=1)
        members = on[np.arange(len(mine)), largest]
        values, vectors = _principal(step, members)
        flat = (members.sum(axis=1) >= least) & (values[:, 1] > _LEAST_SPREAD * values[:, 2])
        normal[mine[flat]] = vectors[flat, :, 0]
        roughness[mine[flat]] = np.maximum(values[flat, 0], 0) / np.maximum(values[flat, 1], 1e-30)
    return replace(nodes, normal=normal, roughness=roughness)


def _normals(
    position: Float64[np.ndarray, "m 3"], query: Float64[np.ndarray, "q 3"], amount: int, workers: int
) -> tuple[Float32[np.ndarray, "q 3"], Float32[np.ndarray, " q"], Float32[np.ndarray, " q"]]:
    """Normal and roughness of the nodes nearest to each query, and the spread of the closest of them.

    Roughness is the smallest over the second eigenvalue of the neighbourhood, spread the second over the largest.
    """
    tree = cKDTree(position)
    normal = np.empty((len(query), 3), np.float32)
    roughness, spread = np.empty(len(query), np.float32), np.empty(len(query), np.float32)
    for start in range(0, len(query), _CHUNK):
        part = slice(start, start + _CHUNK)
        _, index = _nearest(tree, query[part], amount, workers)
        values, vectors = _principal(position[index])
        normal[part] = vectors[:, :, 0]
        roughness[part] = np.maximum(values[:, 0], 0) / np.maximum(values[:, 1], 1e-30)
        close, _ = _principal(position[index[:, :_CLOSE]])
        spread[part] = np.maximum(close[:, 1], 0) / np.maximum(close[:, 2], 1e-30)
    return normal, roughness, spread


def _nearest(
    tree: cKDTree, query: Float64[np.ndarray, "q 3"], amount: int, workers: int = 1
) -> tuple[Float64[np.ndarray, "q k"], Int64[np.ndarray, "q k"]]:
    """Distances and places of the nearest points, also where only one is asked for."""
    distance, index = tree.query(query, amount, workers=workers)
    return np.asarray(distance).reshape(-1, amount), np.asarray(index, np.int64).reshape(-1, amount)


def _principal(
    sets: Float64[np.ndarray, "q k 3"], members: Bool[np.ndarray, "q k"] | None = None
) -> tuple[Float64[np.ndarray, "q 3"], Float64[np.ndarray, "q 3 3"]]:
    """Eigenvalues, smallest first, and eigenvectors of the covariance of each set of points, or of its members."""
    if members is None:
        centred = sets - sets.mean(axis=1, keepdims=True)
        return np.linalg.eigh(centred.transpose(0, 2, 1) @ centred / sets.shape[1])
    share = members / np.maximum(members.sum(axis=1, keepdims=True), 1)
    centred = sets - np.einsum("qk,qkc->qc", share, sets)[:, None]
    return np.linalg.eigh(np.einsum("qk,qki,qkj->qij", share, centred, centred))
