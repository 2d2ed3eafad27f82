"""Lines from clouds whose edges are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.synthetic_clouds import Patch, Scene, agreement, boxes, dense, facade, lidar, on, unique_edges

from plueckernet.errors import InputError
from plueckernet.extraction import ExtractedLines, PointCloudSettings, extract_lines
from plueckernet.extraction.neighbourhoods import make_nodes, spacing_and_noise, thin
from plueckernet.geometry.pose import rotation_exp

ONE_THREAD = PointCloudSettings(workers=1)


def a_box(noise: float = 0.005, spacing: float = 0.025) -> tuple[np.ndarray, Scene]:
    rng = np.random.default_rng(1)
    scene = boxes(rng, count=1, room=2.2)
    return dense(scene, spacing, noise, rng), scene


@pytest.fixture(scope="module")
def extracted() -> tuple[np.ndarray, Scene, ExtractedLines]:
    points, scene = a_box()
    return points, scene, extract_lines(points, ONE_THREAD)


def test_edges_of_a_box_in_a_corner(extracted: tuple[np.ndarray, Scene, ExtractedLines]) -> None:
    _, scene, lines = extracted
    result = agreement(lines.endpoints, scene.edges)
    assert result["recall"] > 0.95
    assert result["precision"] > 0.98
    assert result["edges_found"] == 1.0


def test_edges_of_a_facade_with_a_window() -> None:
    scene = facade(1, 1)
    lines = extract_lines(dense(scene, 0.02, 0.005, np.random.default_rng(2)), ONE_THREAD)
    result = agreement(lines.endpoints, scene.edges)
    assert result["recall"] > 0.95
    assert result["precision"] > 0.95


def test_quality_of_lines(extracted: tuple[np.ndarray, Scene, ExtractedLines]) -> None:
    points, _, lines = extracted
    assert len(lines.support) == len(lines.residual) == len(lines)
    assert (lines.support > 4).all()
    assert lines.support.sum() < len(points)
    assert (lines.residual < 0.05).all()  # two spacings
    assert (lines.residual > 0).all()


def test_the_cloud_moved_moves_the_lines(extracted: tuple[np.ndarray, Scene, ExtractedLines]) -> None:
    """The shift is so large that float32 coordinates would lose all detail."""
    import torch

    points, scene, _ = extracted
    turn = rotation_exp(torch.tensor([0.3, -0.5, 1.1], dtype=torch.float64)).numpy()
    shift = np.array([4e5, 5.6e6, 120.0])
    moved = extract_lines(points @ turn.T + shift, ONE_THREAD)
    result = agreement((moved.endpoints - shift) @ turn, scene.edges)
    assert result["recall"] > 0.95
    assert result["precision"] > 0.98


def test_the_unit_does_not_matter(extracted: tuple[np.ndarray, Scene, ExtractedLines]) -> None:
    points, _, lines = extracted
    scaled = extract_lines(1024.0 * points, ONE_THREAD)
    np.testing.assert_allclose(scaled.endpoints, 1024.0 * lines.endpoints, rtol=1e-6, atol=1e-3)


def test_tiles_find_the_lines_of_the_whole_cloud(
    extracted: tuple[np.ndarray, Scene, ExtractedLines], tmp_path: Path
) -> None:
    points, scene, _ = extracted
    np.save(tmp_path / "cloud.npy", points)
    fractions: list[float] = []
    lines = extract_lines(tmp_path / "cloud.npy", PointCloudSettings(workers=1, tile_points=15_000), fractions.append)
    result = agreement(lines.endpoints, scene.edges)
    assert result["recall"] > 0.9
    assert result["precision"] > 0.97
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)


def test_no_lines_where_there_are_none() -> None:
    rng = np.random.default_rng(3)
    ball = rng.normal(size=(20_000, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    smoke = rng.uniform(-1, 1, (5_000, 3))
    for cloud in (smoke, smoke[:1], smoke[:20], np.zeros((30, 3))):
        assert len(extract_lines(cloud, ONE_THREAD)) == 0
    assert extract_lines(ball, ONE_THREAD).lines.lengths().sum() < 1.0  # facets of a ball, at most


def test_rings_of_a_lidar_are_no_lines() -> None:
    """Flat ground alone: rings, the blind spot below the sensor and the end of the range are no edges."""
    ground = Patch(np.array([-60.0, -60, 0]), np.array([120.0, 0, 0]), np.array([0, 120.0, 0]))
    cloud = lidar(Scene([ground], ground.edges()), np.array([0, 0, 1.7]), 32, 0.02, np.random.default_rng(4))
    cloud = cloud[np.linalg.norm(cloud, axis=1) < 20]
    lines = extract_lines(cloud, PointCloudSettings(workers=1, viewpoint=(0.0, 0.0, 1.7)))
    assert lines.lines.lengths().sum() < 0.05 * 2 * np.pi * 20


def thinned_walls(height: float) -> np.ndarray:
    """Two walls that meet on a ground that continues behind them, as in a scan of a street thinned to 45 cm."""
    ground = Patch(np.array([-6.0, -6.0, 0.0]), np.array([22.0, 0, 0]), np.array([0, 22.0, 0]))
    walls = [Patch(np.zeros(3), 16 * axis, np.array([0, 0, height])) for axis in np.eye(3)[:2]]
    cloud = dense(Scene([ground, *walls], np.empty((0, 2, 3))), 0.1, 0.03, np.random.default_rng(5))
    return thin(cloud, np.ones(len(cloud), np.int64), 0.45)[0]


def test_walls_two_points_high_stand_on_the_ground() -> None:
    """All nodes of such walls have the ground beside them."""
    lines = extract_lines(thinned_walls(1.0), ONE_THREAD).endpoints
    for foot in (np.array([np.zeros(3), 16 * axis]) for axis in np.eye(3)[:2]):
        assert on(foot, lines, 0.1, 2.0, 0.01) > 0.9


def test_walls_meet_in_an_edge_shorter_than_other_lines() -> None:
    lines = extract_lines(thinned_walls(3.0), ONE_THREAD).endpoints
    assert on(np.array([[0, 0, 0], [0, 0, 3.0]]), lines, 0.1, 2.0, 0.01) > 0.8
    assert len(extract_lines(thinned_walls(3.0), PointCloudSettings(workers=1, min_length=3.5))) < len(lines)


def test_a_viewpoint_tells_shadows_from_edges() -> None:
    """A screen before a wall: with the viewpoint only its edges are lines, not its shadow on the wall."""
    wall = Patch(np.array([-5.0, 6, 0]), np.array([10.0, 0, 0]), np.array([0, 0, 4.0]))
    screen = Patch(np.array([-1.0, 3, 0.5]), np.array([2.0, 0, 0]), np.array([0, 0, 2.0]))
    sensor = np.array([0.0, 0, 1.5])
    scene = Scene([wall, screen], unique_edges([wall, screen]))
    cloud = lidar(scene, sensor, 64, 0.005, np.random.default_rng(5))
    uprights = np.array([[[x, 6, 0.0], [x, 6, 2.9]] for x in (-2.0, 2.0)])  # where the shadow ends on the wall
    plain = extract_lines(cloud, ONE_THREAD).endpoints
    seen = extract_lines(cloud, PointCloudSettings(workers=1, viewpoint=(0.0, 0.0, 1.5))).endpoints
    assert all(on(upright, plain, 0.15, 5.0, 0.02) > 0.5 for upright in uprights)
    assert all(on(upright, seen, 0.15, 5.0, 0.02) < 0.1 for upright in uprights)
    sides = [edge for edge in screen.edges() if abs(edge[1] - edge[0])[2] > 1]
    assert all(on(side, seen, 0.1, 5.0, 0.02) > 0.5 for side in sides)


def test_spacing_and_noise_are_measured() -> None:
    from scipy.spatial import cKDTree

    floor = Patch(np.zeros(3), np.array([4.0, 0, 0]), np.array([0, 4.0, 0]))
    for noise in (0.0, 0.005, 0.03):
        points = dense(Scene([floor], floor.edges()), 0.02, noise, np.random.default_rng(6))
        spacing, scatter = spacing_and_noise(points, cKDTree(points), np.random.default_rng(0))
        assert scatter == pytest.approx(noise, rel=0.15, abs=1e-6)
        assert 0.01 < spacing < 0.06


def test_thinning_keeps_points_and_their_mean() -> None:
    points = np.random.default_rng(7).normal(size=(500, 3))
    centroid, count = thin(points, np.ones(500, np.int64), 0.7)
    assert count.sum() == 500
    np.testing.assert_allclose(count @ centroid, points.sum(axis=0))
    again, twice = thin(centroid, count, 1e9)
    np.testing.assert_allclose(again[0], points.mean(axis=0))
    assert twice.tolist() == [500]


def test_normals_of_rings_come_from_larger_cells() -> None:
    ring = np.linspace(0, 2 * np.pi, 3000, endpoint=False)
    cloud = np.concatenate([np.stack([r * np.cos(ring), r * np.sin(ring), 0 * ring], 1) for r in (4.0, 4.5, 5.0, 5.5)])
    nodes = make_nodes(cloud, np.ones(len(cloud), np.int64), 0.02, 0.0)
    flat = nodes.roughness < 0.1
    assert nodes.count[flat].sum() > 0.95 * len(cloud)
    assert np.abs(nodes.normal[flat, 2]).min() > 0.999
    assert nodes.spacing[flat].min() > 0.1  # not the 1 cm between points of a ring


def test_much_noise_is_flattened_first() -> None:
    """Noise of three spacings: edges are found to a third of the noise."""
    plate = Patch(np.zeros(3), np.array([2.0, 0, 0]), np.array([0, 2.0, 0]))
    scene = Scene([plate], plate.edges())
    lines = extract_lines(dense(scene, 0.01, 0.03, np.random.default_rng(8)), ONE_THREAD)
    result = agreement(lines.endpoints, scene.edges, distance=0.01)
    assert result["edges_found"] == 1.0
    assert result["precision"] > 0.95


def test_bad_input() -> None:
    with pytest.raises(InputError, match="no points"):
        extract_lines(np.full((5, 3), np.nan))
