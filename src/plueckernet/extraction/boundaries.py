"""Where planes end: outlines of nodes in a plane, and straight pieces of the outlines.

The nodes of a plane are triangulated in its two coordinates; triangles with sides longer than the local spacing allows
are gaps and holes. Sides that only one triangle has are the outline. Density sets the scale everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.spatial import Delaunay, QhullError, cKDTree

from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.planes import Planes

_GAP = 3.0  # spacings: a longer side of a triangle spans a gap
_AROUND = 40  # nodes among which a surface is sought that goes on
_SHORTEST_CHAIN = 8  # sides of an outline; shorter ones are holes of chance


@dataclass(frozen=True, eq=False)
class Outline:
    """Nodes on the outline of one plane, chain after chain.

    Attributes:
        node: Which nodes.
        tangent: Unit direction of the outline there, along a few neighbours.
        chain: Number of the chain that each belongs to.
    """

    node: Int64[np.ndarray, " b"]
    tangent: Float64[np.ndarray, "b 3"]
    chain: Int64[np.ndarray, " b"]

    def __len__(self) -> int:
        return len(self.node)


def plane_axes(normal: Float64[np.ndarray, " 3"]) -> Float64[np.ndarray, "2 3"]:
    """Two unit vectors that span a plane."""
    first = np.cross(normal, np.eye(3)[np.abs(normal).argmin()])
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(normal, first)])


def outline(nodes: Nodes, planes: Planes, plane: int, members: Int64[np.ndarray, " n"]) -> Outline:
    """The outline of the nodes of a plane, holes included."""
    flat = nodes.position[members] @ plane_axes(planes.normal[plane]).T
    spacing = nodes.spacing[members]
    sides = _outer_sides(flat - flat.mean(axis=0), spacing)
    chains = [chain for chain in _chains(sides) if len(chain) >= _SHORTEST_CHAIN]
    if not chains:
        return Outline(np.empty(0, np.int64), np.empty((0, 3)), np.empty(0, np.int64))
    node = members[np.concatenate(chains)]
    tangent = np.concatenate([_tangents(nodes.position[members[chain]]) for chain in chains])
    return Outline(node, tangent, np.repeat(np.arange(len(chains)), [len(chain) for chain in chains]))


def _outer_sides(flat: Float64[np.ndarray, "n 2"], spacing: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, "s 2"]:
    """Sides of exactly one triangle, directed with the triangle on their left."""
    try:
        mesh = Delaunay(flat)
    except QhullError:  # all on one line
        return np.empty((0, 2), np.int64)
    corner = flat[mesh.simplices]
    side = corner[:, [2, 0, 1]] - corner[:, [1, 2, 0]]  # opposite of each corner; triangles turn left
    longest = np.sqrt(np.einsum("tij,tij->ti", side, side).max(axis=1))
    kept = longest < _GAP * spacing[mesh.simplices].max(axis=1)
    outer = kept[:, None] & ~np.append(kept, False)[mesh.neighbors]  # no neighbour is -1: the last, not kept
    triangle, opposite = np.nonzero(outer)
    ends = mesh.simplices[triangle[:, None], np.stack([(opposite + 1) % 3, (opposite + 2) % 3], axis=1)]
    return ends.astype(np.int64)


def _chains(sides: Int64[np.ndarray, "s 2"]) -> list[Int64[np.ndarray, " _"]]:
    """Walk along directed sides; each is walked once."""
    after: dict[int, list[int]] = {}
    for start, end in sides.tolist():
        after.setdefault(start, []).append(end)
    chains = []
    for start in list(after):
        while after[start]:
            chain = [start]
            while after.get(chain[-1]):
                chain.append(after[chain[-1]].pop())
            chains.append(np.array(chain[:-1] if chain[-1] == start else chain, np.int64))
    return chains


def _tangents(position: Float64[np.ndarray, "c 3"], reach: int = 3) -> Float64[np.ndarray, "c 3"]:
    """Directions along a closed chain, from ``reach`` nodes before to as many after."""
    across = np.roll(position, -reach, axis=0) - np.roll(position, reach, axis=0)
    return np.asarray(across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12))


def straight_pieces(
    position: Float64[np.ndarray, "b 3"], chain: Int64[np.ndarray, " b"], tolerance: Float64[np.ndarray, " b"]
) -> Int64[np.ndarray, "s 2"]:
    """First and last place of pieces of chains that stray from their chord by less than the tolerance.

    A chain is cut at its farthest node until its pieces are straight (Douglas and Peucker).
    """
    pieces: list[tuple[int, int]] = []
    bounds = np.flatnonzero(np.diff(chain, prepend=-1, append=-1))
    for first, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        far = first + int(np.linalg.norm(position[first:stop] - position[first], axis=1).argmax())
        pending = [(first, far), (far, stop - 1)]
        while pending:
            start, end = pending.pop()
            if end - start < 2:
                continue
            off = _off_chord(position[start : end + 1]) / tolerance[start : end + 1]
            worst = int(off.argmax())
            if off[worst] > 1.0:
                pending += [(start, start + worst), (start + worst, end)]
            else:
                pieces.append((start, end))
    return np.array(pieces, np.int64).reshape(-1, 2)


def _off_chord(position: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, " n"]:
    chord = position[-1] - position[0]
    length = np.linalg.norm(chord)
    offset = position - position[0]
    if length < 1e-12:
        return np.asarray(np.linalg.norm(offset, axis=1))
    return np.asarray(np.linalg.norm(np.cross(offset, chord / length), axis=1))


def by_plane(label: Int64[np.ndarray, " m"], amount: int) -> list[Int64[np.ndarray, " _"]]:
    """The nodes of each plane."""
    order = np.argsort(label, kind="stable")
    cuts = np.searchsorted(label[order], np.arange(amount + 1))
    return [order[start:end] for start, end in pairwise(cuts)]


def going_on(nodes: Nodes, planes: Planes, one: Outline, tree: cKDTree, flatness: float) -> Bool[np.ndarray, " b"]:
    """Outline nodes at which no edge is: just outside, the surface goes on with nodes of another plane or of none."""
    if len(one) == 0:
        return np.empty(0, bool)
    own = planes.label[one.node[0]]
    position, spacing = nodes.position[one.node], nodes.spacing[one.node]
    _, near = tree.query(position, min(_AROUND, len(nodes)))
    step = nodes.position[near] - position[:, None]
    height = np.abs(nodes.position[near] @ planes.normal[own] - planes.offset[own])
    out = np.einsum("bkc,bc->bk", step, np.cross(one.tangent, planes.normal[own])) / spacing[:, None]
    aside = np.abs(np.einsum("bkc,bc->bk", step, one.tangent)) / spacing[:, None]
    limit = 2 * np.maximum(flatness, 0.5 * spacing)[:, None]
    beyond = (out > 0.5) & (out < _GAP + 1) & (aside < 1.5) & (height < limit) & (planes.label[near] != own)
    return np.asarray(beyond.sum(axis=1) > 1)  # a single one may be noise
