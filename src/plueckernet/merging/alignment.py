"""The outcome of an alignment: groups of maps with their poses, and what became of every edge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.judgement import Status
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.merging import sim3
from plueckernet.merging.cycles import cycle_residual, shortest_cycles
from plueckernet.merging.edges import MapEdge
from plueckernet.merging.grouping import MapGroup
from plueckernet.merging.heap import MapHeap, map_frame
from plueckernet.merging.hypothesis_table import HypothesisTable

SCHEMA = 1  # of align.json
_MIN_OVERLAP = 0.25  # of the lines of the smaller map, inside the other's box: then an edge is missing


@dataclass(frozen=True)
class AlignedCycle:
    """How far a cycle of accepted edges is from closing."""

    maps: tuple[str, ...]  # around the cycle
    angle: float  # degrees
    distance: float  # at the centre of the first map
    scale: float  # factor
    sigmas: float  # Mahalanobis distance


@dataclass(frozen=True, eq=False)
class AlignedEdge:
    """What became of the registration of two maps."""

    source: str
    target: str
    status: Status  # of the registration
    reason: str
    confidence: float  # by the registration
    probability: float  # of the accepted pose, or of the most probable one, given all cycles
    accepted: bool
    verdict: str  # in a sentence
    target_T_source: Float[Tensor, "4 4"] | None  # accepted, or the most probable by the registration
    covariance: Float[Tensor, "7 7"] | None  # of the accepted pose, as the graph used it, about the centres of the maps
    alternative: int  # which hypothesis was accepted: 0 is that of the registration; -1 if none
    residual: tuple[float, float] | None  # degrees and distance from the poses of the group
    inlier_distance: float  # threshold of the registration, in the unit of the target
    warnings: tuple[str, ...] = ()  # what the registration noticed about the maps


@dataclass(frozen=True, eq=False)
class AlignedGroup:
    """Maps of one place. The frame is that of the map with most lines, which is the first."""

    poses: dict[str, Pose | Similarity]  # group_T_map
    covariance: dict[
        str, Float[Tensor, "7 7"]
    ]  # of delta in group_T_map exp(delta), at the centre of the map, in the unit of the group
    cycles: tuple[AlignedCycle, ...]

    @property
    def maps(self) -> tuple[str, ...]:
        """Names, the reference first."""
        return tuple(self.poses)

    def sigmas(self, name: str) -> tuple[float, float] | None:
        """One sigma of rotation (degrees) and position of a map relative to the reference; None if not computed."""
        covariance = self.covariance.get(name)
        if covariance is None:
            return None
        variance = covariance.diagonal().clamp_min(0)
        return float(variance[:3].sum().sqrt().rad2deg()), float(variance[3:6].sum().sqrt())


@dataclass(frozen=True, eq=False, repr=False)
class Alignment:
    """The outcome of :func:`plueckernet.align`."""

    maps: dict[str, LineSet]
    centres: dict[str, Float[Tensor, "3"]]
    groups: tuple[AlignedGroup, ...]  # the largest first
    edges: tuple[AlignedEdge, ...]
    missing: tuple[tuple[str, str], ...]  # pairs of a group that overlap but have no edge
    rigid: bool
    units: dict[str, float] = field(default_factory=dict)  # of the graph, in those of the maps; one if none is given

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(group.poses)) for group in self.groups)
        accepted = sum(edge.accepted for edge in self.edges)
        return f"Alignment({len(self.maps)} maps in groups of {sizes}; {accepted} of {len(self.edges)} edges accepted)"

    @property
    def ok(self) -> bool:
        """Whether all maps are in one group."""
        return len(self.groups) == 1

    def accepted_edges(self, group: AlignedGroup) -> list[AlignedEdge]:
        """The edges that hold a group together."""
        return [edge for edge in self.edges if edge.accepted and edge.source in group.poses]

    def centred(self, edge: AlignedEdge) -> Float[Tensor, "4 4"]:
        """``target_T_source`` of an edge for the maps about their centres, which its covariance belongs to."""
        if edge.target_T_source is None:
            raise InputError(f"{edge.source} to {edge.target}: this edge has no pose")
        return sim3.inverse(self.frame(edge.target)) @ edge.target_T_source @ self.frame(edge.source)

    def frame(self, name: str) -> Float[Tensor, "4 4"]:
        """From a map about its centre, in the unit that the graph used, to the map as it was given."""
        return map_frame(self.centres[name], self.units.get(name, 1.0))

    def group_of(self, name: str) -> AlignedGroup:
        """The group that a map is in."""
        return next(group for group in self.groups if name in group.poses)

    def to_dict(self) -> dict[str, Any]:
        """The content of align.json; docs/howto/many-maps.md describes it."""
        return {
            "schema": SCHEMA,
            "rigid": self.rigid,
            "centres": {name: centre.tolist() for name, centre in self.centres.items()},
            "units": self.units,
            "groups": [_group_dict(group) for group in self.groups],
            "edges": [_edge_dict(edge) for edge in self.edges],
            "missing": [list(pair) for pair in self.missing],
        }


def assemble_alignment(
    heap: MapHeap,
    edges: Sequence[MapEdge],
    table: HypothesisTable,
    probability: Float[Tensor, " h"],
    groups: Sequence[MapGroup],
) -> Alignment:
    """The groups in the frames of the maps, and the verdict on every edge."""
    return Alignment(
        dict(zip(heap.names, heap.originals, strict=True)),
        dict(zip(heap.names, heap.centres, strict=True)),
        tuple(_aligned_group(heap, table, group) for group in groups),
        tuple(_aligned_edge(heap, row, edge, table, probability, groups) for row, edge in enumerate(edges)),
        tuple(_missing(heap, edges, groups)),
        table.rigid,
        dict(zip(heap.names, heap.units.tolist(), strict=True)),
    )


def _aligned_group(heap: MapHeap, table: HypothesisTable, group: MapGroup) -> AlignedGroup:
    first = next(iter(group.poses))
    poses = {}
    for number, pose in group.poses.items():
        matrix = heap.frame(first) @ pose @ sim3.inverse(heap.frame(number))
        poses[heap.names[number]] = sim3.as_motion(matrix if number != first else torch.eye(4).double(), table.rigid)
    accepted = {frozenset(table.ends[row]): row for row in group.rows}
    cycles = [
        cycle_residual(table, accepted, cycle) for cycle in shortest_cycles([table.ends[row] for row in group.rows])
    ]
    cycles.sort(key=lambda cycle: -cycle.sigmas)
    return AlignedGroup(
        poses,
        {heap.names[number]: _in_group_unit(heap, group, number) for number in group.covariance},
        tuple(
            AlignedCycle(
                tuple(heap.names[i] for i in cycle.maps),
                cycle.angle,
                float(heap.units[cycle.maps[0]]) * cycle.distance,
                cycle.scale,
                cycle.sigmas,
            )
            for cycle in cycles
        ),
    )


def _in_group_unit(heap: MapHeap, group: MapGroup, number: int) -> Float[Tensor, "7 7"]:
    """The covariance of a map with lengths in the unit of the group."""
    first = next(iter(group.poses))
    length = float(heap.units[first]) * float(sim3.scales(group.poses[number]))
    unit = torch.tensor([1.0] * 3 + [length] * 3 + [1.0], dtype=torch.float64)
    return group.covariance[number] * unit[:, None] * unit


def _aligned_edge(
    heap: MapHeap,
    row: int,
    edge: MapEdge,
    table: HypothesisTable,
    probability: Float[Tensor, " h"],
    groups: Sequence[MapGroup],
) -> AlignedEdge:
    rows = (table.edge == row).nonzero()[:, 0].tolist()
    group = next((group for group in groups if {edge.source, edge.target} <= set(group.poses)), None)
    accepted = next((place for place, entry in enumerate(rows) if group is not None and entry in group.rows), -1)
    shown = max(accepted, 0)
    matrix = residual = None
    if rows:
        pose = table.target_T_source[rows[shown]]
        matrix = heap.frame(edge.target) @ pose @ sim3.inverse(heap.frame(edge.source))
        residual = None if group is None else _residual(group, edge, pose, float(heap.units[edge.target]))
    most = max((float(probability[entry]) for entry in rows), default=0.0)
    return AlignedEdge(
        heap.names[edge.source],
        heap.names[edge.target],
        edge.status,
        edge.reason,
        edge.confidence,
        float(probability[rows[accepted]]) if accepted >= 0 else most,
        accepted >= 0,
        _verdict(edge, accepted, group is not None, bool(rows)),
        matrix,
        table.covariance[rows[accepted]] if accepted >= 0 else None,
        accepted,
        residual,
        float(heap.units[edge.target]) * edge.inlier_distance,
        edge.warnings,
    )


def _residual(group: MapGroup, edge: MapEdge, pose: Float[Tensor, "4 4"], unit: float) -> tuple[float, float]:
    expected = sim3.inverse(group.poses[edge.target]) @ group.poses[edge.source]
    error = expected @ sim3.inverse(pose)
    moved = expected[:3, 3] - pose[:3, 3]
    return float(sim3.log(error)[:3].norm().rad2deg()), unit * float(moved.norm())


def _verdict(edge: MapEdge, accepted: int, same_group: bool, has_poses: bool) -> str:
    if accepted > 0:
        name = f"candidate {accepted + 1}" if edge.status is Status.FAILED else f"alternative {accepted}"
        return f"accepted: the other edges confirm {name}"
    if accepted == 0:
        return "accepted" if edge.status is Status.SUCCESS else "accepted: the other edges confirm it"
    if not has_poses:
        return "no pose"
    if same_group:
        return "rejected: contradicts the accepted edges"
    if edge.status is Status.SUCCESS:
        return "rejected: other edges contradict it, or it is not sure enough to join two groups"
    return "not used: not sure enough, and no cycle confirms it"


def _missing(heap: MapHeap, edges: Sequence[MapEdge], groups: Sequence[MapGroup]) -> Iterator[tuple[str, str]]:
    """Pairs of a group that overlap although no registration of them was tried."""
    tried = {frozenset((edge.source, edge.target)) for edge in edges}
    for group in groups:
        anchors = {number: _placed_anchors(heap, group, number) for number in group.poses}
        for first, second in combinations(sorted(group.poses), 2):
            if frozenset((first, second)) not in tried and _overlap(anchors[first], anchors[second]) >= _MIN_OVERLAP:
                yield heap.names[first], heap.names[second]


def _placed_anchors(heap: MapHeap, group: MapGroup, number: int) -> Float[Tensor, "n 3"]:
    lines = heap.lines[number]
    points = lines.anchors(torch.zeros(3, dtype=torch.float64))
    matrix = group.poses[number]
    return points @ matrix[:3, :3].mT + matrix[:3, 3]


def _overlap(first: Float[Tensor, "n 3"], second: Float[Tensor, "m 3"]) -> float:
    """Of the lines of one map, the fraction inside the box of the other; the smaller of both ways."""
    return min(_inside(first, second), _inside(second, first))


def _inside(points: Float[Tensor, "n 3"], others: Float[Tensor, "m 3"]) -> float:
    low, high = others.quantile(0.05, 0), others.quantile(0.95, 0)
    return float(((points >= low) & (points <= high)).all(-1).double().mean())


def _group_dict(group: AlignedGroup) -> dict[str, Any]:
    return {
        "reference": group.maps[0],
        "maps": {name: pose.matrix().tolist() for name, pose in group.poses.items()},
        "sigmas": {name: group.sigmas(name) for name in group.poses},
        "cycles": [
            {
                "maps": list(cycle.maps),
                "degrees": cycle.angle,
                "distance": cycle.distance,
                "scale": cycle.scale,
                "sigmas": cycle.sigmas,
            }
            for cycle in group.cycles
        ],
    }


def _edge_dict(edge: AlignedEdge) -> dict[str, Any]:
    return {
        "source": edge.source,
        "target": edge.target,
        "status": str(edge.status),
        "confidence": edge.confidence,
        "accepted": edge.accepted,
        "probability": edge.probability,
        "verdict": edge.verdict,
        "reason": edge.reason,
        "alternative": edge.alternative,
        "target_T_source": None if edge.target_T_source is None else edge.target_T_source.tolist(),
        "residual": edge.residual,
        "warnings": list(edge.warnings),
    }
