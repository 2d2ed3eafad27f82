"""Graphs as other solvers read them."""

import pytest
import torch
from tests.merging.helpers import FakeGraph, alignment_of, grid, grid_edges

from plueckernet.errors import InputError
from plueckernet.merging.exports import centred_poses, g2o_text


def small(rigid: bool = True):
    graph = FakeGraph.of(grid(2, 2), 0, rigid)
    grid_edges(graph, 2, 2)
    return alignment_of(graph)


def test_g2o_has_every_map_and_every_accepted_edge():
    alignment = small()
    lines = g2o_text(alignment, alignment.groups[0]).splitlines()
    kinds = [line.split()[0] for line in lines]
    assert kinds.count("VERTEX_SE3:QUAT") == 4
    assert kinds.count("EDGE_SE3:QUAT") == 6
    assert all(len(line.split()) == 31 for line in lines if line.startswith("EDGE"))


def test_gtsam_reads_the_g2o_file_as_its_own_graph(tmp_path):
    gtsam = pytest.importorskip("gtsam", reason="gtsam is not installed: make heavy")
    from plueckernet.merging.exports import to_gtsam

    alignment = small()
    path = tmp_path / "graph.g2o"
    path.write_text(g2o_text(alignment, alignment.groups[0]))
    graph, values = gtsam.readG2o(str(path), True)
    factors, _ = to_gtsam(alignment, alignment.groups[0])
    assert graph.error(values) == pytest.approx(factors.error(values), rel=1e-6)  # the prior is at its value
    for key, pose in enumerate(centred_poses(alignment, alignment.groups[0]).values()):
        assert torch.allclose(torch.from_numpy(values.atPose3(key).matrix()), pose, atol=1e-6)


def test_similarities_have_no_g2o():
    alignment = small(rigid=False)
    with pytest.raises(InputError, match="GTSAM"):
        g2o_text(alignment, alignment.groups[0])
