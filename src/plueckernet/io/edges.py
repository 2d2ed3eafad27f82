"""Segments from indexed vertices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
from jaxtyping import Float64, Int64

_Index = TypeVar("_Index")


def ring_edges(rings: Iterable[Sequence[_Index]], *, closed: bool = True) -> list[tuple[_Index, _Index]]:
    """Pairs of neighbours in each ring (or open chain) of vertex indices."""
    edges: list[tuple[_Index, _Index]] = []
    for ring in rings:
        edges.extend(pairwise(ring))
        if closed and len(ring) > 2:
            edges.append((ring[-1], ring[0]))
    return edges


def unique_edges(vertices: Float64[np.ndarray, "v 3"], edges: Int64[np.ndarray, "e 2"]) -> Float64[np.ndarray, "n 2 3"]:
    """The segments along the edges of a mesh, each once, in the order and direction of their first appearance.

    Vertices with equal coordinates are merged, because many programs repeat a vertex for every face. Edges from a
    vertex to itself are dropped.
    """
    used, local = np.unique(edges, return_inverse=True)
    points, merged = np.unique(vertices[used], axis=0, return_inverse=True)
    pairs = merged[local.reshape(-1, 2)]
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    code = pairs.min(axis=1) * len(points) + pairs.max(axis=1)
    _, first = np.unique(code, return_index=True)
    return points[pairs[np.sort(first)]]
