"""Groups of maps from edges of which some are wrong."""

import random

import pytest
import torch
from tests.merging.helpers import FakeGraph, grid, grid_edges

from plueckernet.merging.cycles import cycle_evidence, short_cycles, shortest_cycles


def test_right_edges_give_one_group_with_right_poses():
    graph = FakeGraph.of(grid(3, 2), 0)
    grid_edges(graph, 3, 2)
    groups = graph.groups()
    assert [len(group.poses) for group in groups] == [6]
    assert len(groups[0].rows) == len(graph.edges)
    assert all(angle < 1 and distance < 0.2 for angle, distance in graph.errors(groups[0]).values())


@pytest.mark.parametrize("rigid", [True, False])
def test_wrong_confident_edges_are_rejected(rigid):
    graph = FakeGraph.of(torch.cat([grid(4, 3), grid(2, 1) + 500]), 1, rigid)
    grid_edges(graph, 4, 3)
    wrong = set(random.Random(5).sample(range(len(graph.edges)), len(graph.edges) // 5))
    for row in wrong:
        graph.corrupt(row)
    for unrelated in (12, 13):
        graph.connect(unrelated - 12, unrelated, (graph.wrong(), 0.4), status="failed")
    groups = graph.groups()
    accepted = {int(graph.table().edge[row]) for row in groups[0].rows}
    assert [len(group.poses) for group in groups] == [12, 1, 1]
    assert not accepted & wrong
    assert all(angle < 1.5 and distance < 0.5 for angle, distance in graph.errors(groups[0]).values())


def test_groups_that_share_nothing_stay_apart():
    graph = FakeGraph.of(grid(6, 1), 2)
    for first, second in ((0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)):
        graph.right(first, second)
    assert sorted(sorted(group.poses) for group in graph.groups()) == [[0, 1, 2], [3, 4, 5]]


def test_a_cycle_decides_an_ambiguous_edge():
    graph = FakeGraph.of(grid(3, 1), 3)
    graph.right(0, 1)
    graph.right(1, 2)
    right = graph.noisy(0, 2)
    graph.connect(0, 2, (graph.wrong(), 0.5), (right, 0.45), status="ambiguous")
    (group,) = graph.groups()
    assert len(group.rows) == 3
    row = next(row for row in group.rows if int(graph.table().edge[row]) == 2)
    assert torch.equal(graph.table().target_T_source[row], right)


def test_two_weak_edges_that_agree_join_and_one_does_not():
    graph = FakeGraph.of(grid(3, 1), 4)
    graph.right(0, 1)
    graph.right(1, 2, 0.5)
    assert [len(group.poses) for group in graph.groups()] == [2, 1]
    graph.right(0, 2, 0.5)
    assert [len(group.poses) for group in graph.groups()] == [3]


def test_two_edges_that_agree_win_against_three_that_agree_with_nothing():
    graph = FakeGraph.of(grid(6, 1), 9)
    for first in range(5):
        for second in range(first + 1, 5):
            graph.right(first, second)
    for ends in ((0, 5), (1, 5)):
        graph.right(*ends, 0.9)
    for ends in ((2, 5), (3, 5), (4, 5)):
        graph.connect(*ends, (graph.wrong(), 0.9))
    (group,) = graph.groups()
    accepted = {
        (graph.edges[row].source, graph.edges[row].target) for row in graph.table().edge[list(group.rows)].tolist()
    }
    assert accepted & {(number, 5) for number in range(5)} == {(0, 5), (1, 5)}


def test_a_triangle_that_does_not_close_joins_nothing_on_a_guess():
    """Three equally confident edges, one of them wrong: none can be told from the others."""
    graph = FakeGraph.of(grid(3, 1), 5)
    for ends in ((0, 1), (1, 2)):
        graph.right(*ends, 0.95)
    graph.connect(0, 2, (graph.wrong(), 0.95))
    assert max(len(group.poses) for group in graph.groups()) == 1


def test_weak_edges_do_not_confirm_each_other_in_circles():
    """Two improbable hypotheses that agree by way of a sure edge stay improbable."""
    graph = FakeGraph.of(grid(3, 1), 6)
    graph.right(0, 1)
    graph.right(1, 2, 0.03)
    graph.right(0, 2, 0.03)
    table = graph.table()
    probability = cycle_evidence(table, short_cycles(table, graph.edges)).probability
    assert float(probability[1:].max()) < 0.2
    assert [len(group.poses) for group in graph.groups()] == [2, 1]


def test_the_order_of_edges_does_not_matter():
    graph = FakeGraph.of(grid(3, 2), 7)
    grid_edges(graph, 3, 2)
    graph.corrupt(2)
    first = graph.groups()
    graph.edges.reverse()
    second = graph.groups()
    assert [sorted(group.poses) for group in first] == [sorted(group.poses) for group in second]
    for name, pose in first[0].poses.items():
        assert torch.allclose(pose, second[0].poses[name], atol=1e-5)


def test_shortest_cycles():
    cycles = shortest_cycles([(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 6), (6, 7), (7, 4)])
    assert sorted(sorted(cycle) for cycle in cycles) == [[0, 1, 2], [4, 5, 6, 7]]


def test_no_edges_at_all():
    assert [len(group.poses) for group in FakeGraph.of(grid(3, 1), 8).groups()] == [1, 1, 1]
