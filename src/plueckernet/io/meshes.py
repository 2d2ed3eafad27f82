"""Feature edges of triangle meshes: where the mesh ends, and where two faces meet at an angle."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

_CREASE = np.deg2rad(20.0)


def mesh_feature_edges(
    vertices: Float64[np.ndarray, "v 3"], faces: Int64[np.ndarray, "f 3"], crease: float = float(_CREASE)
) -> Float64[np.ndarray, "n 2 3"]:
    """Edges of a single face, of more than two, or between faces whose normals differ by `crease` radians or more.

    Vertices with equal coordinates are the same vertex, and faces without area are left out. The diagonals that cut a
    flat face into triangles are no feature edges. Collinear edges that continue each other are one line.
    """
    points, merged = np.unique(vertices, axis=0, return_inverse=True)
    corners = merged.reshape(-1)[faces]
    normals = np.cross(points[corners[:, 1]] - points[corners[:, 0]], points[corners[:, 2]] - points[corners[:, 0]])
    area = np.linalg.norm(normals, axis=1)
    corners, normals = corners[area > 0], normals[area > 0] / area[area > 0, None]
    edges = corners[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    owner = np.repeat(np.arange(len(corners)), 3)
    keep = _features(edges, owner, normals, crease)
    return _chained(points, keep)


def _features(
    edges: Int64[np.ndarray, "e 2"], owner: Int64[np.ndarray, " e"], normals: Float64[np.ndarray, "f 3"], crease: float
) -> Int64[np.ndarray, "n 2"]:
    """The distinct edges that are features, as pairs of vertices."""
    ordered = np.sort(edges, axis=1)
    distinct, group = np.unique(ordered, axis=0, return_inverse=True)
    group = group.reshape(-1)
    by_edge = np.argsort(group, kind="stable")
    count = np.bincount(group, minlength=len(distinct))
    first = np.concatenate([[0], np.cumsum(count)[:-1]]) if len(count) else count
    feature = count != 2
    pairs = np.flatnonzero(~feature)
    left, right = (owner[by_edge[first[pairs] + side]] for side in (0, 1))
    # Neighbouring faces of a mesh with consistent winding run along their edge in opposite directions; where they do
    # not, a normal points to the other side.
    forward = edges[:, 0] < edges[:, 1]
    same = forward[by_edge[first[pairs]]] == forward[by_edge[first[pairs] + 1]]
    cosine = (normals[left] * normals[right]).sum(axis=1) * np.where(same, -1, 1)
    feature[pairs] = cosine <= np.cos(crease)
    return distinct[feature]


def _chained(points: Float64[np.ndarray, "v 3"], edges: Int64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "k 2 3"]:
    """Segments in which collinear edges are joined at vertices where nothing else meets."""
    degree = np.bincount(edges.reshape(-1), minlength=len(points))
    at: dict[int, list[int]] = {}
    for number, (first, second) in enumerate(edges.tolist()):
        for vertex in (first, second):
            if degree[vertex] == 2:
                at.setdefault(vertex, []).append(number)
    unit = points[edges[:, 1]] - points[edges[:, 0]]
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    chain = list(range(len(edges)))

    def root(number: int) -> int:
        while chain[number] != number:
            chain[number] = chain[chain[number]]
            number = chain[number]
        return number

    for first, second in at.values():
        if abs(float(unit[first] @ unit[second])) > 1 - 1e-10:
            chain[root(first)] = root(second)
    groups: dict[int, list[int]] = {}
    for number in range(len(edges)):
        groups.setdefault(root(number), []).append(number)
    segments = [_extremes(points[edges[members].reshape(-1)], unit[members[0]]) for members in groups.values()]
    return np.array(segments).reshape(-1, 2, 3)


def _extremes(ends: Float64[np.ndarray, "k 3"], direction: Float64[np.ndarray, " 3"]) -> Float64[np.ndarray, "2 3"]:
    along = (ends - ends[0]) @ direction
    return ends[[int(along.argmin()), int(along.argmax())]]
