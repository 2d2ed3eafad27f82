"""Planes of a cloud: regions grown over nodes of similar normals, split until they are flat, then filled up.

Growing is a search for connected components of a graph whose links join neighbours with similar normals, so that no
loop over points is needed. A region that is not flat, such as two walls joined by a rounded edge, is split by taking
out its largest planes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.settings import check_fraction, check_positive

# These bound the effort. Half and one and a half times the values leave recall and precision as they are.
_MAX_SPLITS = 6  # how often regions that are not flat are split
_MAX_PLANES_PER_SPLIT = 12  # planes taken from one region in a round
_HYPOTHESES = 48  # planes among which the largest is chosen
_MAX_SCORED_NODES = 4000  # nodes on which a hypothesis is scored


@dataclass(frozen=True)
class PlaneSettings:
    """How planes grow."""

    max_link_angle: float = 15.0  # between the normals of linked neighbours, in degrees
    max_member_angle: float = 25.0  # between the normals of a plane and of its nodes, in degrees
    min_flat_fraction: float = 0.9  # fraction of a region's nodes near one plane for the region to be flat

    def __post_init__(self) -> None:
        check_fraction(self, "min_flat_fraction")
        check_positive(self, "max_link_angle", "max_member_angle")


@dataclass(frozen=True, eq=False)
class Planes:
    """Planes ``normal . x = offset`` and the nodes that belong to each.

    Attributes:
        normal: Unit normals.
        offset: Distances from the origin along them.
        label: Plane of each node, -1 for none.
    """

    normal: Float64[np.ndarray, "p 3"]
    offset: Float64[np.ndarray, " p"]
    label: Int64[np.ndarray, " m"]

    def __len__(self) -> int:
        return len(self.normal)


def grow_planes(
    nodes: Nodes,
    flatness: float,
    min_nodes: int,
    rng: np.random.Generator,
    settings: PlaneSettings = PlaneSettings(),
) -> Planes:
    """Planes of at least ``min_nodes`` nodes; a node belongs to a plane up to the distance ``flatness`` from it."""
    max_distance = np.maximum(flatness, 0.25 * nodes.spacing)  # nodes of large cells are less accurate
    links = _links(nodes, max_distance, settings)
    label = np.full(len(nodes), -1, np.int64)
    region = _regions(links, np.zeros(len(nodes), np.int64), nodes.smooth, min_nodes)
    count = 0
    for _ in range(_MAX_SPLITS):
        label, count, region = _split(nodes, region, label, count, max_distance, rng, settings)
        region = _regions(links, region, region >= 0, min_nodes)
        if (region < 0).all():
            break
    if count == 0:
        return Planes(np.empty((0, 3)), np.empty(0), label)
    normal, offset = _fits(nodes, label, count)
    for _ in range(4):
        label = _filled(nodes, normal, offset, label, max_distance)
    return _numbered(nodes, label, count, min_nodes)


def fit_plane(
    position: Float64[np.ndarray, "n 3"], weight: Float64[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " 3"], float]:
    """Weighted least-squares plane of points."""
    centre = weight @ position / weight.sum()
    centred = position - centre
    _, vectors = np.linalg.eigh((centred * weight[:, None]).T @ centred)
    return vectors[:, 0], float(vectors[:, 0] @ centre)


def _links(nodes: Nodes, max_distance: Float64[np.ndarray, " m"], settings: PlaneSettings) -> Int64[np.ndarray, "2 e"]:
    """Pairs of neighbouring nodes with similar normals, the second near the plane of the first."""
    min_cosine = np.cos(np.radians(settings.max_link_angle))
    links = []
    start = np.flatnonzero(nodes.smooth)
    for column in range(1, nodes.neighbours.shape[1]):
        end = nodes.neighbours[start, column].astype(np.int64)
        step = nodes.position[end] - nodes.position[start]
        max_height = 1.5 * np.maximum(max_distance[start], max_distance[end])
        similar = np.abs(np.einsum("ij,ij->i", nodes.normal[start], nodes.normal[end])) > min_cosine
        near = np.abs(np.einsum("ij,ij->i", nodes.normal[start], step)) < max_height
        keep = similar & near & nodes.smooth[end]
        links.append(np.stack([start[keep], end[keep]]))
    return np.concatenate(links, axis=1) if links else np.empty((2, 0), np.int64)


def _regions(
    links: Int64[np.ndarray, "2 e"], region: Int64[np.ndarray, " m"], active: Bool[np.ndarray, " m"], min_nodes: int
) -> Int64[np.ndarray, " m"]:
    """Connected regions of the active nodes within the given regions; -1 for nodes of regions that are too small."""
    start, end = links
    keep = active[start] & active[end] & (region[start] == region[end])
    ones = np.ones(int(keep.sum()), np.int8)
    graph = coo_matrix((ones, (start[keep], end[keep])), shape=(len(region), len(region)))
    _, component = connected_components(graph, directed=False)
    component = np.where(active, component, -1).astype(np.int64)
    size = np.bincount(component[active], minlength=1)
    return np.where(active & (size[component] >= min_nodes), component, -1)


def _split(
    nodes: Nodes,
    region: Int64[np.ndarray, " m"],
    label: Int64[np.ndarray, " m"],
    count: int,
    max_distance: Float64[np.ndarray, " m"],
    rng: np.random.Generator,
    settings: PlaneSettings,
) -> tuple[Int64[np.ndarray, " m"], int, Int64[np.ndarray, " m"]]:
    """Label the regions that are planes; give nodes of the others the plane they fit best as their new region.

    Returns labels, the number of planes and the regions that remain.
    """
    label, rest = label.copy(), np.full(len(region), -1, np.int64)
    new_regions = 0
    order = np.argsort(region, kind="stable")
    order = order[region[order] >= 0]
    bounds = np.flatnonzero(np.diff(region[order])) + 1
    for members in np.split(order, bounds) if len(order) else []:
        position, normal = nodes.position[members], nodes.normal[members].astype(np.float64)
        weight = nodes.spacing[members] ** 2
        plane, offset = fit_plane(position, weight)
        inside = _inside(position, normal, plane, offset, max_distance[members], settings)
        if inside.mean() > settings.min_flat_fraction:
            label[members[inside]] = count
            count += 1
            members = members[~inside]
            rest[members] = new_regions
            new_regions += 1
            continue
        groups = _best_planes(position, normal, weight, max_distance[members], rng, settings)
        rest[members] = np.where(groups >= 0, groups + new_regions, -1)
        new_regions += int(groups.max()) + 1
    return label, count, rest


def _best_planes(
    position: Float64[np.ndarray, "n 3"],
    normal: Float64[np.ndarray, "n 3"],
    weight: Float64[np.ndarray, " n"],
    max_distance: Float64[np.ndarray, " n"],
    rng: np.random.Generator,
    settings: PlaneSettings,
) -> Int64[np.ndarray, " n"]:
    """Take the largest planes out of the nodes one after the other; the last group holds the nodes of no plane."""
    group = np.full(len(position), -1, np.int64)
    min_cosine = np.cos(np.radians(settings.max_member_angle))
    for number in range(_MAX_PLANES_PER_SPLIT):
        left = np.flatnonzero(group < 0)
        if len(left) < 3:
            break
        few = len(left) <= _MAX_SCORED_NODES
        scored = left if few else rng.choice(left, _MAX_SCORED_NODES, replace=False)
        seed = rng.choice(left, min(_HYPOTHESES, len(left)), replace=False)
        offset = np.einsum("ij,ij->i", position[seed], normal[seed])
        distance = np.abs(position[scored] @ normal[seed].T - offset)
        aligned = np.abs(normal[scored] @ normal[seed].T) > min_cosine
        fits = (distance < max_distance[scored, None]) & aligned
        best = int((fits * weight[scored, None]).sum(axis=0).argmax())
        plane, height = normal[seed[best]], float(offset[best])
        for _ in range(2):
            inside = _inside(position[left], normal[left], plane, height, max_distance[left], settings)
            if inside.sum() < 3:
                break
            plane, height = fit_plane(position[left[inside]], weight[left[inside]])
        group[left[_inside(position[left], normal[left], plane, height, max_distance[left], settings)]] = number
    group[group < 0] = group.max() + 1
    return group


def _inside(
    position: Float64[np.ndarray, "n 3"],
    normal: Float64[np.ndarray, "n 3"],
    plane: Float64[np.ndarray, " 3"],
    offset: float,
    max_distance: Float64[np.ndarray, " n"],
    settings: PlaneSettings,
) -> Bool[np.ndarray, " n"]:
    """Which nodes lie on a plane and have its normal."""
    aligned = np.abs(normal @ plane) > np.cos(np.radians(settings.max_member_angle))
    return (np.abs(position @ plane - offset) < max_distance) & aligned


def _fits(nodes: Nodes, label: Int64[np.ndarray, " m"], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Least-squares planes of all labels at once, from sums over their nodes."""
    labelled = label >= 0
    plane, weight = label[labelled], nodes.spacing[labelled] ** 2
    position = nodes.position[labelled]
    total = np.bincount(plane, weight, count)
    total[total == 0] = 1.0
    centre = np.stack([np.bincount(plane, weight * position[:, i], count) for i in range(3)], axis=1) / total[:, None]
    centred = position - centre[plane]
    moments = np.empty((count, 3, 3))
    for i in range(3):
        for j in range(3):
            moments[:, i, j] = np.bincount(plane, weight * centred[:, i] * centred[:, j], count)
    normal = np.linalg.eigh(moments)[1][:, :, 0]
    return normal, np.einsum("ij,ij->i", normal, centre)


def _filled(
    nodes: Nodes,
    normal: Float64[np.ndarray, "p 3"],
    offset: Float64[np.ndarray, " p"],
    label: Int64[np.ndarray, " m"],
    max_distance: Float64[np.ndarray, " m"],
) -> Int64[np.ndarray, " m"]:
    """Give nodes without a plane the nearest plane of a neighbour, if it is near enough."""
    open_ = np.flatnonzero(label < 0)
    smallest = np.full(len(open_), np.inf)
    choice = np.full(len(open_), -1, np.int64)
    for column in range(1, nodes.neighbours.shape[1]):
        plane = label[nodes.neighbours[open_, column]]
        distance = np.abs(np.einsum("ij,ij->i", nodes.position[open_], normal[plane]) - offset[plane])
        better = (plane >= 0) & (distance < smallest) & (distance < max_distance[open_])
        smallest[better], choice[better] = distance[better], plane[better]
    label = label.copy()
    label[open_] = choice
    return label


def _numbered(nodes: Nodes, label: Int64[np.ndarray, " m"], count: int, min_nodes: int) -> Planes:
    """Planes that are large enough, numbered without gaps and fitted to all of their nodes."""
    size = np.bincount(label[label >= 0], minlength=count)
    keep = size >= min_nodes
    number = np.where(keep, np.cumsum(keep) - 1, -1)
    label = np.where(label >= 0, number[label], -1)
    return Planes(*_fits(nodes, label, int(keep.sum())), label)
