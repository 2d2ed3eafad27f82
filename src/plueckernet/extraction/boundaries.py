"""Where planes end: outlines of nodes in a plane, and straight pieces of the outlines.

The nodes of a plane are triangulated in its two coordinates; triangles with sides longer than the local spacing allows
are gaps and holes. Sides that belong to a single triangle are the outline. All lengths are relative to the spacing.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.spatial import Delaunay, QhullError, cKDTree

from plueckernet.extraction.neighbourhoods import Nodes
from plueckernet.extraction.planes import Planes
from plueckernet.settings import check_at_least, check_positive

_NEIGHBOURS = 40  # nearest nodes among which a continuation of the surface is searched


@dataclass(frozen=True)
class BoundarySettings:
    """What the outline of a plane is, and where a surface continues behind it. Lengths in spacings."""

    max_gap: float = 3.0  # a longer side of a triangle spans a gap
    tangent_steps: int = 3  # nodes before and after a node that give the direction of the outline

    def __post_init__(self) -> None:
        check_positive(self, "max_gap")
        check_at_least(self, 1, "tangent_steps")


@dataclass(frozen=True, eq=False)
class Outline:
    """Nodes on the outline of one plane, chain after chain.

    Attributes:
        node: Indices of the nodes.
        tangent: Unit direction of the outline at each node, along a few neighbours.
        chain: Number of the chain of each node.
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


def plane_outline(
    nodes: Nodes,
    planes: Planes,
    plane: int,
    members: Int64[np.ndarray, " n"],
    settings: BoundarySettings = BoundarySettings(),
) -> Outline:
    """The outline of the nodes of a plane, holes included."""
    flat = nodes.position[members] @ plane_axes(planes.normal[plane]).T
    max_side = settings.max_gap * nodes.spacing[members]
    sides = _outer_sides(flat - flat.mean(axis=0), max_side)
    chains = [chain for chain in _chains(sides) if len(chain) > 7]  # shorter outlines are accidental holes
    if not chains:
        return Outline(np.empty(0, np.int64), np.empty((0, 3)), np.empty(0, np.int64))
    node = members[np.concatenate(chains)]
    tangent = np.concatenate([_tangents(nodes.position[members[chain]], settings.tangent_steps) for chain in chains])
    return Outline(node, tangent, np.repeat(np.arange(len(chains)), [len(chain) for chain in chains]))


def _outer_sides(flat: Float64[np.ndarray, "n 2"], max_side: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, "s 2"]:
    """Sides of exactly one triangle, directed with the triangle on their left."""
    try:
        mesh = Delaunay(flat)
    except QhullError:  # all on one line
        return np.empty((0, 2), np.int64)
    corner = flat[mesh.simplices]
    side = corner[:, [2, 0, 1]] - corner[:, [1, 2, 0]]  # opposite of each corner; triangles turn left
    longest = np.sqrt(np.einsum("tij,tij->ti", side, side).max(axis=1))
    kept = longest < max_side[mesh.simplices].max(axis=1)
    outer = kept[:, None] & ~np.append(kept, False)[mesh.neighbors]  # no neighbour is -1: the last, not kept
    triangle, opposite = np.nonzero(outer)
    ends = mesh.simplices[triangle[:, None], np.stack([(opposite + 1) % 3, (opposite + 2) % 3], axis=1)]
    return ends.astype(np.int64)


def _chains(sides: Int64[np.ndarray, "s 2"]) -> list[Int64[np.ndarray, " _"]]:
    """Connect directed sides to chains; each side is used once."""
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


def _tangents(position: Float64[np.ndarray, "c 3"], steps: int) -> Float64[np.ndarray, "c 3"]:
    """Directions along a closed chain, from ``steps`` nodes before to ``steps`` nodes after each node."""
    across = np.roll(position, -steps, axis=0) - np.roll(position, steps, axis=0)
    return np.asarray(across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12))


def straight_pieces(
    position: Float64[np.ndarray, "b 3"], chain: Int64[np.ndarray, " b"], max_deviation: Float64[np.ndarray, " b"]
) -> Int64[np.ndarray, "s 2"]:
    """First and last index of pieces of chains that deviate from their chord by less than the largest deviation.

    A chain is cut at the node with the largest deviation until its pieces are straight (Douglas and Peucker).
    """
    pieces: list[tuple[int, int]] = []
    bounds = np.flatnonzero(np.diff(chain, prepend=-1, append=-1))
    for first, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        opposite = first + int(np.linalg.norm(position[first:stop] - position[first], axis=1).argmax())
        pending = [(first, opposite), (opposite, stop - 1)]
        while pending:
            start, end = pending.pop()
            if end - start < 2:
                continue
            deviation = _off_chord(position[start : end + 1]) / max_deviation[start : end + 1]
            worst = int(deviation.argmax())
            if deviation[worst] > 1.0:
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


def nodes_by_plane(label: Int64[np.ndarray, " m"], count: int) -> list[Int64[np.ndarray, " _"]]:
    """The nodes of each plane."""
    order = np.argsort(label, kind="stable")
    cuts = np.searchsorted(label[order], np.arange(count + 1))
    return [order[start:end] for start, end in pairwise(cuts)]


def continues_outside(
    nodes: Nodes,
    planes: Planes,
    outline: Outline,
    tree: cKDTree,
    flatness: float,
    settings: BoundarySettings = BoundarySettings(),
) -> Bool[np.ndarray, " b"]:
    """Outline nodes that are no edge: just outside, the surface continues with nodes of another plane or of none."""
    if len(outline) == 0:
        return np.empty(0, bool)
    own = planes.label[outline.node[0]]
    position, spacing = nodes.position[outline.node], nodes.spacing[outline.node]
    _, near = tree.query(position, min(_NEIGHBOURS, len(nodes)))
    step = nodes.position[near] - position[:, None]
    height = np.abs(nodes.position[near] @ planes.normal[own] - planes.offset[own])
    outside = np.einsum("bkc,bc->bk", step, np.cross(outline.tangent, planes.normal[own])) / spacing[:, None]
    sideways = np.abs(np.einsum("bkc,bc->bk", step, outline.tangent)) / spacing[:, None]
    max_height = np.maximum(2 * flatness, spacing)[:, None]
    # not beside the node itself, and less than a spacing past the longest side of a triangle
    continuing = (outside > 0.5) & (outside < settings.max_gap + 1)
    continuing &= (sideways < 1.5) & (height < max_height) & (planes.label[near] != own)
    return np.asarray(continuing.sum(axis=1) > 1)  # a single node may be noise
