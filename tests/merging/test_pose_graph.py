"""The solver of graphs against GTSAM and against what least squares must fulfil."""

import pytest
import torch
from tests.merging.helpers import FakeGraph, alignment_of, grid, grid_edges

from plueckernet.merging import pose_graph, sim3
from plueckernet.merging.grouping import edge_squares
from plueckernet.merging.pose_graph import chained_poses, solve_graph


def solved(graph: FakeGraph, robust: bool):
    table = graph.table()
    rows = torch.arange(len(table))
    return table, rows, solve_graph(table, rows, chained_poses(table, rows, 0), robust)


@pytest.mark.parametrize("rigid", [True, False])
def test_exact_edges_give_exact_poses(rigid):
    graph = FakeGraph.of(grid(3, 2), 0, rigid)
    for source, target in ((0, 1), (1, 2), (2, 5), (3, 4), (4, 5), (0, 3)):
        graph.connect(source, target, (graph.pose(source, target), 0.9))
    _, _, result = solved(graph, True)
    assert float(result.square.max()) < 1e-12
    for name, pose in result.poses.items():
        assert torch.allclose(pose, sim3.inverse(graph.world_T_map[0]) @ graph.world_T_map[name], atol=1e-8)


@pytest.mark.parametrize("rigid", [True, False])
def test_no_small_step_lowers_the_cost(rigid):
    graph = FakeGraph.of(grid(3, 2), 1, rigid)
    grid_edges(graph, 3, 2)
    table, rows, result = solved(graph, False)
    cost = float(result.square.sum())
    for seed in range(5):
        step = 1e-3 * torch.randn(6, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        step[0], step[:, 6] = 0.0, 0.0 if rigid else step[:, 6]
        moved = {name: pose @ sim3.exp(step[name]) for name, pose in result.poses.items()}
        assert float(edge_squares(table, rows, moved).sum()) > cost


def test_many_maps_are_solved_sparsely_to_the_same_poses(monkeypatch):
    graph = FakeGraph.of(grid(3, 2), 2)
    grid_edges(graph, 3, 2)
    _, _, dense = solved(graph, True)
    monkeypatch.setattr(pose_graph, "_MAX_DENSE", 0)
    _, _, sparse = solved(graph, True)
    assert sparse.covariance == {}
    for name, pose in dense.poses.items():
        assert torch.allclose(pose, sparse.poses[name], atol=1e-8)


def test_covariance_grows_along_a_chain():
    graph = FakeGraph.of(grid(4, 1), 3)
    for first in range(3):
        graph.right(first, first + 1)
    _, _, result = solved(graph, True)
    angles = [float(result.covariance[name].diagonal()[:3].sum()) for name in range(4)]
    assert angles[0] == 0
    assert angles == sorted(angles)


@pytest.mark.parametrize("rigid", [True, False])
def test_gtsam_finds_the_same_poses(rigid):
    gtsam = pytest.importorskip("gtsam", reason="gtsam is not installed: make heavy")
    from plueckernet.merging.exports import centred_poses, to_gtsam

    graph = FakeGraph.of(grid(3, 2), 4, rigid)
    grid_edges(graph, 3, 2)
    alignment = alignment_of(graph)
    factors, values = to_gtsam(alignment, alignment.groups[0])
    best = gtsam.LevenbergMarquardtOptimizer(factors, values).optimize()
    assert factors.error(values) == pytest.approx(factors.error(best), rel=0.05)  # ours are robustly weighted
    for key, pose in enumerate(centred_poses(alignment, alignment.groups[0]).values()):
        other = torch.from_numpy((best.atPose3(key) if rigid else best.atSimilarity3(key)).matrix())
        assert torch.allclose(pose, other / other[3, 3], atol=0.02)
