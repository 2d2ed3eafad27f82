"""CityGML, IFC and meshes: edges, levels, storeys, reference systems; and a house that is registered to its map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.user_models import ENVELOPE, FACES, GML_HEAD, building, polygon, surfaces
from tests.io.buildings import WALLS, box, city_gml, house_gml, house_ifc

from plueckernet import register
from plueckernet.errors import FormatError, InputError, MissingDependencyError
from plueckernet.io import read_lines, read_lines_report
from plueckernet.io.crs import is_in_degrees, short_name

TRIANGLE = [(0, 0, 0), (4, 0, 0), (0, 3, 0)]
SQUARE = [(0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]


def gml(path: Path, *members: str, **options: str) -> Path:
    file = path / "city.gml"
    file.write_text(city_gml(*members, **options))
    return file


def lengths(path: Path, **options: object) -> list[float]:
    return sorted(read_lines(path, **options).lengths().tolist())


def test_edges_of_a_house_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "house.gml").write_text(house_gml())
    report = read_lines_report(tmp_path / "house.gml")
    assert (report.format, report.crs) == ("gml", "EPSG:25832")
    assert len(report.lines) == 12 * len(WALLS)
    assert report.notes == ()


def test_the_highest_level_of_each_object_or_the_chosen_one(tmp_path: Path) -> None:
    low, high = surfaces(1, [polygon(SQUARE)]), surfaces(2, [polygon(TRIANGLE)])
    path = gml(tmp_path, building(low, high), building(surfaces(1, [polygon(np.array(SQUARE) + 5)])))
    report = read_lines_report(path)
    assert sorted(report.lines.lengths().tolist()) == [1, 1, 1, 1, 3, 4, 5]
    assert report.notes == ("levels of detail: 1, 2; the highest of each object was read",)
    assert lengths(path, lod="1") == [1] * 8
    chosen = read_lines_report(path, lod="2")
    assert sorted(chosen.lines.lengths().tolist()) == [3, 4, 5]
    assert chosen.notes == ("1 of 2 objects have no level 2",)
    with pytest.raises(FormatError, match="no geometry of level of detail 4; available: 1, 2"):
        read_lines(path, lod="4")


def test_line_strings_and_single_points_are_chains(tmp_path: Path) -> None:
    positions = "".join(f"<gml:pos>{x} {y} {z}</gml:pos>" for x, y, z in TRIANGLE)
    ring = f"<gml:LinearRing>{positions}</gml:LinearRing>"  # not closed by the file
    string = "<gml:LineString><gml:posList>9 9 0 9 9 2 9 9 9</gml:posList></gml:LineString>"
    path = gml(tmp_path, building(f"<bldg:lod2TerrainIntersection>{ring}{string}</bldg:lod2TerrainIntersection>"))
    assert lengths(path) == [2, 3, 4, 5, 7]


def test_footprints_without_z_are_left_out(tmp_path: Path) -> None:
    flat = polygon([(0, 0), (1, 0), (1, 1)], ' srsDimension="2"')
    report = read_lines_report(gml(tmp_path, building(surfaces(1, [flat]), surfaces(2, [polygon(TRIANGLE)]))))
    assert len(report.lines) == 3
    assert report.notes == ("1 chains of points without z were left out",)
    with pytest.raises(FormatError, match="in three dimensions"):
        read_lines(gml(tmp_path, building(surfaces(1, [flat]))))


def test_an_implicit_geometry_is_placed(tmp_path: Path) -> None:
    matrix = "0 -2 0 1  2 0 0 0  0 0 2 0  0 0 0 1"
    implicit = (
        f"<bldg:lod2ImplicitRepresentation><core:ImplicitGeometry><core:transformationMatrix>{matrix}"
        f"</core:transformationMatrix><core:relativeGMLGeometry><gml:MultiSurface>{polygon(TRIANGLE)}</gml:MultiSurface>"
        "</core:relativeGMLGeometry><core:referencePoint><gml:Point><gml:pos>100 200 300</gml:pos></gml:Point>"
        "</core:referencePoint></core:ImplicitGeometry></bldg:lod2ImplicitRepresentation>"
    )
    linked = (
        "<bldg:lod2ImplicitRepresentation><core:ImplicitGeometry><core:relativeGMLGeometry"
        ' xlink:href="file:///etc/passwd"/></core:ImplicitGeometry></bldg:lod2ImplicitRepresentation>'
    )
    report = read_lines_report(gml(tmp_path, building(implicit), building(linked)))
    expected = np.array(TRIANGLE) @ np.array([[0, 2, 0], [-2, 0, 0], [0, 0, 2]]) + [101, 200, 300]
    assert {tuple(point) for point in report.lines.endpoints.reshape(-1, 3).tolist()} == {
        *map(tuple, expected.tolist())
    }
    assert report.notes == ("1 implicit geometries that refer to other places were left out",)


@pytest.mark.parametrize(
    "declaration",
    [
        '<!DOCTYPE x [<!ENTITY a "b">]>',
        '<!DOCTYPE x SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE x [<!ENTITY a "&a;&a;"><!ENTITY e SYSTEM "file:///etc/passwd">]>',
        "<!DOCTYPE x>",
    ],
)
def test_a_doctype_is_refused(tmp_path: Path, declaration: str) -> None:
    path = tmp_path / "city.gml"
    path.write_text(city_gml(building(surfaces(2, [polygon(TRIANGLE)]))).replace("?>\n", f"?>\n{declaration}", 1))
    with pytest.raises(FormatError, match=r"city\.gml:2: the file has a DOCTYPE"):
        read_lines(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (city_gml(building(surfaces(2, [polygon(TRIANGLE)])))[:-20], ":2: not well-formed XML"),
        (GML_HEAD + "<a></b>", "mismatched tag"),
        (city_gml(building(surfaces(2, [polygon(TRIANGLE).replace("4.0", "x")]))), "expected a number, found 'x"),
        (city_gml(building(surfaces(2, [polygon(TRIANGLE).replace(" 4.000000", "")]))), "three numbers, found 11"),
        (city_gml(), "no surfaces"),
        (GML_HEAD + "&unknown;</core:CityModel>", "undefined entity"),
    ],
)
def test_malformed_gml_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "city.gml"
    path.write_text(text)
    with pytest.raises(FormatError, match=reason):
        read_lines(path)


def test_degrees_are_noticed(tmp_path: Path) -> None:
    path = gml(tmp_path, building(surfaces(2, [polygon(TRIANGLE)])), envelope=ENVELOPE.replace("25832", "4979"))
    assert "EPSG:4979 has coordinates in degrees" in read_lines_report(path).notes[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("urn:ogc:def:crs:EPSG::25832", "EPSG:25832"),
        ("https://www.opengis.net/def/crs/EPSG/0/7415", "EPSG:7415"),
        ("http://www.opengis.net/gml/srs/epsg.xml#31467", "http://www.opengis.net/gml/srs/epsg.xml#31467"),
        ("urn:ogc:def:crs,crs:EPSG:6.12:25832,crs:EPSG:6.12:5783", "EPSG:25832+5783"),
        ("EPSG:28992", "EPSG:28992"),
        (" local ", "local"),
    ],
)
def test_names_of_reference_systems(name: str, expected: str) -> None:
    assert short_name(name) == expected
    assert not is_in_degrees(name)


@pytest.fixture
def ifc_file(tmp_path: Path) -> Path:
    pytest.importorskip("ifcopenshell", reason="ifcopenshell is not installed")
    house_ifc(tmp_path / "house.ifc")
    return tmp_path / "house.ifc"


def test_ifc_gives_feature_edges_in_metres(ifc_file: Path) -> None:
    report = read_lines_report(ifc_file)
    expected = sorted(length for wall in WALLS for length in wall[:3] for _ in range(4))
    torch.testing.assert_close(report.lines.lengths().sort().values, torch.tensor(expected, dtype=torch.float64))
    assert report.notes == ("in metres; 6 elements: 3 IfcSlab, 3 IfcWall",)
    assert len(report.lines.ids.unique()) == 6


def test_ifc_by_type_and_storey(ifc_file: Path) -> None:
    assert len(read_lines(ifc_file, types=["ifcwall"])) == 36
    assert len(read_lines(ifc_file, types=["IfcElement"])) == 72  # what derives from it, too
    assert len(read_lines(ifc_file, storey="upper")) == 12
    assert max(lengths(ifc_file, storey="Upper", types=["IfcSlab"])) == pytest.approx(8.5)
    with pytest.raises(FormatError, match="those with a shape are: IfcSlab, IfcWall"):
        read_lines(ifc_file, types=["IfcRoof"])
    with pytest.raises(FormatError, match="no storey 'attic'; those of the file are: Ground, Upper"):
        read_lines(ifc_file, storey="attic")
    with pytest.raises(FormatError, match="storey 'Upper' has no elements"):
        read_lines(ifc_file, storey="Upper", types=["IfcWall"])


@pytest.mark.parametrize("millimetres", [True, False])
def test_a_map_conversion_is_applied(tmp_path: Path, millimetres: bool) -> None:
    pytest.importorskip("ifcopenshell", reason="ifcopenshell is not installed")
    house_ifc(tmp_path / "house.ifc", map_conversion=True, millimetres=millimetres)
    report = read_lines_report(tmp_path / "house.ifc")
    assert report.crs == "EPSG:25832"
    corners = np.concatenate([box(*wall) for wall in WALLS])
    east, north, up = corners.T
    expected = np.stack([458870 - north, 5438250 + east, 110 + up], axis=1)  # the x axis points north
    points = report.lines.endpoints.reshape(-1, 3).numpy()
    np.testing.assert_allclose(points.min(0), expected.min(0), atol=1e-6)
    np.testing.assert_allclose(points.max(0), expected.max(0), atol=1e-6)


def test_a_house_of_ifc_is_registered_to_its_citygml(ifc_file: Path, tmp_path: Path) -> None:
    (tmp_path / "house.gml").write_text(house_gml())
    result = register(ifc_file, tmp_path / "house.gml", matcher="descriptors")
    assert result.ok
    offset = torch.tensor([458870.0, 5438250.0, 110.0], dtype=torch.float64)
    torch.testing.assert_close(result.target_T_source.translation, offset, atol=1e-4, rtol=0)
    assert float(result.target_T_source.angle_to(type(result.target_T_source).identity())) < 1e-5


def test_what_is_no_ifc_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "house.ifc"
    path.write_text("ISO-10303-21;\nHEADER;\nFILE_SCHEMA(('IFC4'));\n")
    with pytest.raises((FormatError, MissingDependencyError), match=r"house\.ifc|ifcopenshell"):
        read_lines(path)


def test_elements_are_for_ifc(tmp_path: Path) -> None:
    path = gml(tmp_path, building(surfaces(2, [polygon(TRIANGLE)])))
    with pytest.raises(InputError, match="types and storey are for IFC; this is gml"):
        read_lines(path, storey="Ground")


@pytest.mark.parametrize("suffix", ["stl", "glb", "off", "ply", "obj"])
def test_meshes_give_their_feature_edges(tmp_path: Path, suffix: str) -> None:
    trimesh = pytest.importorskip("trimesh")
    triangles = [corner for a, b, c, d in FACES for corner in ((a, b, c), (a, c, d))]
    trimesh.Trimesh(box(*WALLS[0]), triangles, process=False).export(tmp_path / f"wall.{suffix}")
    report = read_lines_report(tmp_path / f"wall.{suffix}", format="mesh" if suffix in ("ply", "obj") else None)
    assert report.format == "mesh"
    assert report.notes == ("12 triangles read as their 12 feature edges",)
    expected = torch.tensor(sorted(list(WALLS[0][:3]) * 4), dtype=torch.float64)
    torch.testing.assert_close(report.lines.lengths().sort().values, expected, atol=1e-6, rtol=0)


def test_a_damaged_mesh_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    (tmp_path / "wall.glb").write_bytes(b"glTF" + bytes(30))
    with pytest.raises(FormatError, match="not readable as a mesh"):
        read_lines(tmp_path / "wall.glb")
