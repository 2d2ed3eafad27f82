"""Planes of a cloud: regions grown over nodes of like normals, split until they are flat, then filled up.

Growing is a search for connected parts of a graph whose links join neighbours with like normals, so that no loop over
points is needed. A part that is not flat, such as two walls joined by a rounded edge, gives up its largest planes
first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from plueckernet.extraction.neighbourhoods import ROUGHEST, Nodes

_LIKE = np.cos(np.radians(15.0))  # normals of linked neighbours
_ALIGNED = np.cos(np.radians(25.0))  # normals of nodes of a plane against the plane's
_ROUNDS = 6  # of splitting
_PLANES_A_ROUND = 12  # taken from one part in a round
_HYPOTHESES = 48
_SCORED = 4000  # nodes on which a hypothesis is scored
_FILLS = 4  # rounds of filling up


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


def grow_planes(nodes: Nodes, flatness: float, least: int, rng: np.random.Generator) -> Planes:
    """Planes of at least ``least`` nodes; a node belongs to a plane up to the distance ``flatness`` from it."""
    tolerance = np.maximum(flatness, 0.25 * nodes.spacing)
    links = _links(nodes, tolerance)
    label = np.full(len(nodes), -1, np.int64)
    part = _parts(links, np.zeros(len(nodes), np.int64), nodes.roughness < ROUGHEST, least)
    found = 0
    for _ in range(_ROUNDS):
        label, found, part = _split(nodes, part, label, found, tolerance, rng)
        part = _parts(links, part, part >= 0, least)
        if (part < 0).all():
            break
    if found == 0:
        return Planes(np.empty((0, 3)), np.empty(0), label)
    normal, offset = _fits(nodes, label, found)
    label = _fill(nodes, normal, offset, label, tolerance)
    return _numbered(nodes, label, found, least)


def fit_plane(
    position: Float64[np.ndarray, "n 3"], weight: Float64[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " 3"], float]:
    """Weighted least-squares plane of points."""
    centre = weight @ position / weight.sum()
    centred = position - centre
    _, vectors = np.linalg.eigh((centred * weight[:, None]).T @ centred)
    return vectors[:, 0], float(vectors[:, 0] @ centre)


def _links(nodes: Nodes, tolerance: Float64[np.ndarray, " m"]) -> Int64[np.ndarray, "2 e"]:
    """Pairs of neighbouring nodes with like normals, neither of them off the other's plane."""
    flat = nodes.roughness < ROUGHEST
    kept = []
    start = np.flatnonzero(flat)
    for column in range(1, nodes.neighbours.shape[1]):
        end = nodes.neighbours[start, column].astype(np.int64)
        step = nodes.position[end] - nodes.position[start]
        reach = np.maximum(tolerance[start], tolerance[end])
        like = np.abs(np.einsum("ij,ij->i", nodes.normal[start], nodes.normal[end])) > _LIKE
        near = np.abs(np.einsum("ij,ij->i", nodes.normal[start], step)) < 1.5 * reach
        keep = like & near & flat[end]
        kept.append(np.stack([start[keep], end[keep]]))
    return np.concatenate(kept, axis=1) if kept else np.empty((2, 0), np.int64)


def _parts(
    links: Int64[np.ndarray, "2 e"], part: Int64[np.ndarray, " m"], active: Bool[np.ndarray, " m"], least: int
) -> Int64[np.ndarray, " m"]:
    """Connected parts, within the given ones, of the active nodes; -1 for nodes of parts that are too small."""
    start, end = links
    keep = active[start] & active[end] & (part[start] == part[end])
    ones = np.ones(int(keep.sum()), np.int8)
    graph = coo_matrix((ones, (start[keep], end[keep])), shape=(len(part), len(part)))
    _, found = connected_components(graph, directed=False)
    found = np.where(active, found, -1).astype(np.int64)
    size = np.bincount(found[active], minlength=1)
    return np.where(active & (size[found] >= least), found, -1)


def _split(
    nodes: Nodes,
    part: Int64[np.ndarray, " m"],
    label: Int64[np.ndarray, " m"],
    found: int,
    tolerance: Float64[np.ndarray, " m"],
    rng: np.random.Generator,
) -> tuple[Int64[np.ndarray, " m"], int, Int64[np.ndarray, " m"]]:
    """Label the parts that are planes; give nodes of the others the plane they fit best as their new part.

    Returns labels, the number of planes and the parts still to be looked at.
    """
    label, rest = label.copy(), np.full(len(part), -1, np.int64)
    fresh = 0
    order = np.argsort(part, kind="stable")
    order = order[part[order] >= 0]
    bounds = np.flatnonzero(np.diff(part[order])) + 1
    for members in np.split(order, bounds) if len(order) else []:
        position, normal = nodes.position[members], nodes.normal[members].astype(np.float64)
        weight = nodes.spacing[members] ** 2
        plane, offset = fit_plane(position, weight)
        inside = _inside(position, normal, plane, offset, tolerance[members])
        if inside.mean() > 0.9:
            label[members[inside]] = found
            found += 1
            members = members[~inside]
            rest[members] = fresh
            fresh += 1
            continue
        groups = _best_planes(position, normal, weight, tolerance[members], rng)
        rest[members] = np.where(groups >= 0, groups + fresh, -1)
        fresh += int(groups.max()) + 1
    return label, found, rest


def _best_planes(
    position: Float64[np.ndarray, "n 3"],
    normal: Float64[np.ndarray, "n 3"],
    weight: Float64[np.ndarray, " n"],
    tolerance: Float64[np.ndarray, " n"],
    rng: np.random.Generator,
) -> Int64[np.ndarray, " n"]:
    """Take the largest planes out of nodes one after the other: each node's number of them, a last one for the rest."""
    group = np.full(len(position), -1, np.int64)
    for number in range(_PLANES_A_ROUND):
        left = np.flatnonzero(group < 0)
        if len(left) < 3:
            break
        scored = left if len(left) <= _SCORED else rng.choice(left, _SCORED, replace=False)
        seed = rng.choice(left, min(_HYPOTHESES, len(left)), replace=False)
        offset = np.einsum("ij,ij->i", position[seed], normal[seed])
        distance = np.abs(position[scored] @ normal[seed].T - offset)
        aligned = np.abs(normal[scored] @ normal[seed].T) > _ALIGNED
        fits = (distance < tolerance[scored, None]) & aligned
        best = int((fits * weight[scored, None]).sum(axis=0).argmax())
        plane, height = normal[seed[best]], float(offset[best])
        for _ in range(2):
            inside = _inside(position[left], normal[left], plane, height, tolerance[left])
            if inside.sum() < 3:
                break
            plane, height = fit_plane(position[left[inside]], weight[left[inside]])
        group[left[_inside(position[left], normal[left], plane, height, tolerance[left])]] = number
    group[group < 0] = group.max() + 1
    return group


def _inside(
    position: Float64[np.ndarray, "n 3"],
    normal: Float64[np.ndarray, "n 3"],
    plane: Float64[np.ndarray, " 3"],
    offset: float,
    tolerance: Float64[np.ndarray, " n"],
) -> Bool[np.ndarray, " n"]:
    return (np.abs(position @ plane - offset) < tolerance) & (np.abs(normal @ plane) > _ALIGNED)


def _fits(nodes: Nodes, label: Int64[np.ndarray, " m"], amount: int) -> tuple[np.ndarray, np.ndarray]:
    """Least-squares planes of all labels at once, from sums over their nodes."""
    mine = label >= 0
    place, weight = label[mine], nodes.spacing[mine] ** 2
    position = nodes.position[mine]
    total = np.bincount(place, weight, amount)
    total[total == 0] = 1.0
    centre = np.stack([np.bincount(place, weight * position[:, i], amount) for i in range(3)], axis=1) / total[:, None]
    centred = position - centre[place]
    moments = np.empty((amount, 3, 3))
    for i in range(3):
        for j in range(3):
            moments[:, i, j] = np.bincount(place, weight * centred[:, i] * centred[:, j], amount)
    normal = np.linalg.eigh(moments)[1][:, :, 0]
    return normal, np.einsum("ij,ij->i", normal, centre)


def _fill(
    nodes: Nodes,
    normal: Float64[np.ndarray, "p 3"],
    offset: Float64[np.ndarray, " p"],
    label: Int64[np.ndarray, " m"],
    tolerance: Float64[np.ndarray, " m"],
) -> Int64[np.ndarray, " m"]:
    """Give nodes without a plane the nearest plane of a neighbour, if it is near enough."""
    for _ in range(_FILLS):
        open_ = np.flatnonzero(label < 0)
        best = np.full(len(open_), np.inf)
        choice = np.full(len(open_), -1, np.int64)
        for column in range(1, nodes.neighbours.shape[1]):
            plane = label[nodes.neighbours[open_, column]]
            distance = np.abs(np.einsum("ij,ij->i", nodes.position[open_], normal[plane]) - offset[plane])
            better = (plane >= 0) & (distance < best) & (distance < tolerance[open_])
            best[better], choice[better] = distance[better], plane[better]
        label = label.copy()
        label[open_] = choice
    return label


def _numbered(nodes: Nodes, label: Int64[np.ndarray, " m"], amount: int, least: int) -> Planes:
    """Planes that are large enough, numbered without gaps and fitted to all of their nodes."""
    size = np.bincount(label[label >= 0], minlength=amount)
    keep = size >= least
    number = np.where(keep, np.cumsum(keep) - 1, -1)
    label = np.where(label >= 0, number[label], -1)
    return Planes(*_fits(nodes, label, int(keep.sum())), label)
