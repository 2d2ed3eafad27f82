"""Graphs of maps with known poses: edges that a registration could have given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from plueckernet.estimation.judgement import Status
from plueckernet.geometry import LineSet
from plueckernet.merging import sim3
from plueckernet.merging.aligning import AlignSettings, grouped
from plueckernet.merging.alignment import Alignment, assemble_alignment
from plueckernet.merging.cycles import cycle_evidence, short_cycles
from plueckernet.merging.edges import EdgeHypothesis, MapEdge
from plueckernet.merging.grouping import MapGroup, map_groups
from plueckernet.merging.heap import MapHeap
from plueckernet.merging.hypothesis_table import HypothesisTable

ANGLE, DISTANCE, SCALE = math.radians(0.2), 0.03, 0.003  # one sigma of an edge


@dataclass
class FakeGraph:
    """True poses and edges between them."""

    world_T_map: torch.Tensor
    edges: list[MapEdge]
    generator: torch.Generator
    rigid: bool = True

    @classmethod
    def of(cls, places: torch.Tensor, seed: int, rigid: bool = True) -> FakeGraph:
        generator = torch.Generator().manual_seed(seed)
        xi = torch.randn(len(places), 7, generator=generator, dtype=torch.float64)
        xi[:, 6] *= 0.0 if rigid else 0.5
        poses = sim3.exp(xi)
        poses[:, :3, 3] = places
        return FakeGraph(poses, [], generator, rigid)

    def pose(self, source: int, target: int) -> torch.Tensor:
        return sim3.inverse(self.world_T_map[target]) @ self.world_T_map[source]

    def noisy(self, source: int, target: int) -> torch.Tensor:
        sigma = torch.tensor([ANGLE] * 3 + [DISTANCE] * 3 + [0.0 if self.rigid else SCALE], dtype=torch.float64)
        return sim3.exp(sigma * torch.randn(7, generator=self.generator, dtype=torch.float64)) @ self.pose(
            source, target
        )

    def wrong(self) -> torch.Tensor:
        xi = 3 * torch.randn(7, generator=self.generator, dtype=torch.float64)
        xi[6] = 0.0
        return sim3.exp(xi)

    def connect(self, source: int, target: int, *poses: tuple[torch.Tensor, float], status: str = "success") -> None:
        """Add an edge with these poses and their confidences."""
        sigma = torch.tensor([ANGLE] * 3 + [DISTANCE] * 3 + [0.0 if self.rigid else SCALE], dtype=torch.float64)
        chosen = tuple(EdgeHypothesis(pose, sigma.square().diag(), confidence) for pose, confidence in poses)
        self.edges.append(MapEdge(source, target, Status(status), "", poses[0][1], chosen, 50, 0.1))

    def right(self, source: int, target: int, confidence: float = 0.98) -> None:
        self.connect(source, target, (self.noisy(source, target), confidence))

    def corrupt(self, row: int) -> None:
        edge = self.edges[row]
        best = replace(edge.hypotheses[0], target_T_source=self.wrong())
        self.edges[row] = replace(edge, hypotheses=(best,))

    def table(self) -> HypothesisTable:
        return HypothesisTable.of(self.edges, 5.0, self.rigid)

    def groups(self, min_confidence: float = 0.9) -> list[MapGroup]:
        table = self.table()
        evidence = cycle_evidence(table, short_cycles(table, self.edges))
        return map_groups(table, evidence, [1] * len(self.world_T_map), min_confidence)

    def errors(self, group: MapGroup) -> dict[int, tuple[float, float]]:
        """Degrees and distance of each map of a group from the truth, relative to the first map."""
        first = next(iter(group.poses))
        result = {}
        for name, pose in group.poses.items():
            truth = sim3.inverse(self.world_T_map[first]) @ self.world_T_map[name]
            error = sim3.inverse(truth) @ pose
            result[name] = float(sim3.log(error)[:3].norm().rad2deg()), float(error[:3, 3].norm())
        return result


def grid(columns: int, rows: int, step: float = 8.0) -> torch.Tensor:
    """Places on a grid, row by row."""
    return torch.tensor([[step * x, step * y, 0.0] for y in range(rows) for x in range(columns)], dtype=torch.float64)


def grid_edges(graph: FakeGraph, columns: int, rows: int) -> None:
    """Right edges between all neighbours, diagonal ones included."""
    for number in range(columns * rows):
        x, y = number % columns, number // columns
        for dx, dy in ((1, 0), (0, 1), (1, 1), (-1, 1)):
            if 0 <= x + dx < columns and y + dy < rows:
                graph.right(number, (y + dy) * columns + x + dx)


def fake_lines(count: int = 12, seed: int = 0) -> LineSet:
    """Random segments of a few metres about an origin far away."""
    generator = torch.Generator().manual_seed(seed)
    ends = 4 * torch.randn(count, 2, 3, generator=generator, dtype=torch.float64)
    return LineSet.from_segments(ends + torch.tensor([3.0e5, 5.0e6, 100.0], dtype=torch.float64))


def fake_heap(graph: FakeGraph) -> MapHeap:
    """Maps that have nothing to do with the edges but their number."""
    maps = {f"map{number}": fake_lines(seed=number) for number in range(len(graph.world_T_map))}
    return MapHeap.of(maps, graph.rigid)


def alignment_of(graph: FakeGraph) -> Alignment:
    """The alignment of fake edges."""
    scale = None if graph.rigid else "unknown"
    heap = fake_heap(graph)
    table, probability, groups = grouped(heap, graph.edges, AlignSettings(scale=scale))
    return assemble_alignment(heap, graph.edges, table, probability, groups)
