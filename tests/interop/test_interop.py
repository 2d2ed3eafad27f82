"""Lines survive the way into the types of other packages and back."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from plueckernet import interop
from plueckernet.errors import InputError, MissingDependencyError
from plueckernet.geometry import LineSet

CUBE = np.array([[x, y, z] for x in (0.0, 1) for y in (0.0, 1) for z in (0.0, 1)])
QUADS = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
FACES = np.array([corner for a, b, c, d in QUADS for corner in ((a, b, c), (a, c, d))])


def some_lines() -> LineSet:
    return LineSet.from_segments(np.random.default_rng(0).normal(size=(7, 2, 3)) + 1e6)


class FakeOpen3D(SimpleNamespace):
    """The few names of Open3D that are used, which store what they are given."""

    def __init__(self) -> None:
        geometry = SimpleNamespace(LineSet=SimpleNamespace)
        super().__init__(geometry=geometry, utility=SimpleNamespace(Vector3dVector=list, Vector2iVector=list))


def test_open3d(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open3d", FakeOpen3D())
    made = interop.to_open3d(some_lines())
    assert torch.equal(interop.from_open3d(made).endpoints, some_lines().endpoints)


def test_open3d_of_the_tensor_interface() -> None:
    points, pairs = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1], [3, 2]])
    lines = interop.from_open3d(SimpleNamespace(point={"positions": points}, line={"indices": pairs}))
    torch.testing.assert_close(lines.endpoints, points.double()[pairs])


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, convert in (("open3d", interop.to_open3d), ("shapely", interop.to_shapely)):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingDependencyError, match=package):
            convert(some_lines())


def test_trimesh_path() -> None:
    pytest.importorskip("trimesh")
    path = interop.to_trimesh(some_lines())
    assert len(path.entities) == 7
    assert torch.equal(interop.from_trimesh(path).endpoints, some_lines().endpoints)


def test_trimesh_polyline_gives_its_chords() -> None:
    path = SimpleNamespace(vertices=CUBE, entities=[SimpleNamespace(points=[0, 1, 3]), SimpleNamespace(points=[4, 5])])
    assert torch.equal(interop.from_trimesh(path).endpoints, torch.tensor(CUBE)[torch.tensor([[0, 1], [1, 3], [4, 5]])])


def test_feature_edges_of_a_cube_have_no_diagonals() -> None:
    lines = interop.feature_edges(CUBE, FACES)
    assert len(lines) == 12
    torch.testing.assert_close(lines.lengths(), torch.ones(12, dtype=torch.float64))


@pytest.mark.parametrize("seed", range(3))
def test_winding_and_repeated_vertices_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    soup = np.stack([CUBE[face[:: rng.choice([-1, 1])]] for face in rng.permutation(FACES)])
    lines = interop.feature_edges(soup.reshape(-1, 3), np.arange(len(soup) * 3).reshape(-1, 3))
    assert len(lines) == 12


def test_the_angle_of_a_crease_is_respected() -> None:
    angle = np.deg2rad(30)
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -np.cos(angle), np.sin(angle)]])
    faces = np.array([[0, 1, 2], [1, 0, 3]])
    assert len(interop.feature_edges(points, faces, 29.0)) == 5
    assert len(interop.feature_edges(points, faces, 31.0)) == 4  # without the edge in common


def test_a_straight_edge_in_pieces_is_one_line() -> None:
    x = np.linspace(0, 1, 6)
    strip = np.array([[value, side, 0.0] for value in x for side in (0.0, 1.0)])
    quads = [(2 * i, 2 * i + 2, 2 * i + 3, 2 * i + 1) for i in range(5)]
    faces = np.array([corner for a, b, c, d in quads for corner in ((a, b, c), (a, c, d))])
    lines = interop.feature_edges(strip, faces)
    assert sorted(lines.lengths().tolist()) == pytest.approx([1, 1, 1, 1])


def test_shapely() -> None:
    shapely = pytest.importorskip("shapely", reason="shapely is not installed")
    lines = some_lines()
    strings = interop.to_shapely(lines)
    assert torch.equal(interop.from_shapely(strings).endpoints, lines.endpoints)
    assert torch.equal(interop.from_shapely(shapely.MultiLineString(strings)).endpoints, lines.endpoints)
    triangle = shapely.Polygon([(0, 0, 1), (1, 0, 1), (1, 1, 1)])
    both_kinds = interop.from_shapely([triangle, strings[0]])
    assert both_kinds.ids.tolist() == [0, 0, 0, 1]
    with pytest.raises(InputError, match="geometry 1: a LineString without z"):
        interop.from_shapely([strings[0], shapely.LineString([(0, 0), (1, 1)])])
    with pytest.raises(InputError, match="geometry 0: expected lines or polygons, got Point"):
        interop.from_shapely(shapely.Point(1, 2, 3))


def test_geopandas_tables_and_series_are_their_geometries() -> None:
    string = SimpleNamespace(geom_type="LineString", coords=[(0, 0, 0), (1, 1, 1), (1, 1, 1), (2, 0, 0)])
    series = [string, string]
    table = SimpleNamespace(geometry=series)
    lines = interop.from_shapely(table)
    assert lines.ids.tolist() == [0, 0, 1, 1]
    assert torch.equal(lines.endpoints, interop.from_shapely(series).endpoints)


def test_what_is_no_line_is_refused() -> None:
    for convert in (interop.from_open3d, interop.from_trimesh):
        with pytest.raises(InputError, match="got int"):
            convert(3)
    with pytest.raises(InputError, match="do not exist"):
        interop.from_open3d(SimpleNamespace(points=CUBE, lines=[[0, 8]]))
    with pytest.raises(InputError, match="not infinite lines"):
        interop.to_trimesh(some_lines().infinite())
