"""Each format on small files written by hand or by other programs."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.io.samples import TWO_SEGMENTS, line_set

from plueckernet.errors import FormatError, InputError, MissingDependencyError
from plueckernet.io import read_lines, read_lines_report, write_lines


def segments(path: Path, content: str | bytes, **options: Any) -> list[list[list[float]]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_lines(path, **options).endpoints.tolist()


ONE = [[[1, 2, 3], [4, 5, 6]]]


@pytest.mark.parametrize(
    "content",
    [
        "1 2 3 4 5 6",
        "1,2,3,4,5,6\n",
        "1; 2; 3; 4; 5; 6\n",
        "1\t2\t3\t4\t5\t6\r\n",
        "\ufeff1 2 3 4 5 6\r\n\r\n",
        "1 2 3 4 5 6\r",
        "# x y z\n\n  1 2 3 4 5 6  # last\n",
        "x1,y1,z1,x2,y2,z2\n1,2,3,4,5,6\n",
        '"id","Z2","y2","x2","x1","y1","z1"\n9,6,5,4,1,2,3\n',
        "ax ay az bx by bz\n1 2 3 4 5 6\n",
        ",x1,y1,z1,x2,y2,z2\n0,1,2,3,4,5,6\n",
        b"# caf\xe9\n1 2 3 4 5 6\n",
        "1e0 2.0 +3 4 5 6\n",
    ],
)
def test_tables(tmp_path: Path, content: str) -> None:
    assert segments(tmp_path / "map", content) == ONE


OBJ_VERTICES = "v 0 0 0\nv 1 0 0 1.0\nv 1 1 0 0.5 0.5 0.5\nv 0 1 0\n"
AB, BC, CD, DA = [[0, 0, 0], [1, 0, 0]], [[1, 0, 0], [1, 1, 0]], [[1, 1, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        ("l 1 2\n", [AB]),
        ("l 1 2 3 4 1\n", [AB, BC, CD, DA]),
        ("l -4 -3\r\nl 2/7 3/8\r\n", [AB, BC]),
        ("l 1 2\nl 1 2\n", [AB, AB]),
        ("f 1 2 2\n", [AB]),
        ("f 1 1 2\n", [AB]),
        ("f 1 2 1\n", [AB]),
        ("f 1 2\n", [AB]),
        ("f 1 2 2\nf 2 1 2\nf 2 2 1\nf 2 3 3\n", [AB, BC]),
        ("f 1 2 3 4\n", [AB, BC, CD, DA]),
        ("f 1//1 2//1 3//1 4//1\nl 1 2\n", [AB, AB, BC, CD, DA]),
        ("l 1 \\\n 2\n", [AB]),
        ("# C:\\maps\\\nl 1 2\n", [AB]),
        ("vn 0 0 1\nvt 0 0\no roof\ng a\nusemtl m\ns off\np 1\nl 1 2 # last\n", [AB]),
    ],
)
def test_obj_elements(tmp_path: Path, elements: str, expected: list[Any]) -> None:
    assert segments(tmp_path / "map", OBJ_VERTICES + elements) == expected


def test_obj_elements_may_stand_before_their_vertices(tmp_path: Path) -> None:
    assert segments(tmp_path / "map", "l 1 2\n" + OBJ_VERTICES) == [AB]


def test_obj_faces_share_edges_also_when_vertices_are_repeated(tmp_path: Path) -> None:
    content = OBJ_VERTICES + "v 1 1 0\nv 0 0 0\nf 1 2 3\nf 6 5 4\n"
    report_path = tmp_path / "map.obj"
    report_path.write_text(content)
    report = read_lines_report(report_path)
    assert len(report.lines) == 5
    assert report.notes == ("2 faces read as their 5 distinct edges",)


def test_line3dpp_rows_hold_several_segments(tmp_path: Path) -> None:
    content = "2 1 2 3 4 5 6 7 8 9 10 11 12 1 0 17 100.5 200 300 400 \r\n1 1 2 3 4 5 6 0\r\n"
    assert segments(tmp_path / "map.txt", content) == [*ONE, [[7, 8, 9], [10, 11, 12]], *ONE]


TRACK = (
    "1.0000000000 2.0 3.0 4.0 5.0 6.0 \n2 1\nimage_id_list 3 3 \nline_id_list 8 9 \n"
    "line2d_list\n0 0 1 1 \n0 0 1 1 \nEND\n"
)


def test_limap_folder(tmp_path: Path) -> None:
    for number in (0, 10, 9):
        (tmp_path / f"track_{number}.txt").write_text(TRACK.replace("1.0000000000", str(number)))
    np.save(tmp_path / "all_2d_segs.npy", np.array({}, dtype=object), allow_pickle=True)
    lines = read_lines(tmp_path)
    assert lines.ids.tolist() == [0, 9, 10]
    assert lines.endpoints[:, 0, 0].tolist() == [0, 9, 10]
    (tmp_path / "track_3.txt").write_text("1 2 3\n")
    with pytest.raises(FormatError, match=r"track_3\.txt:1: expected a 3D segment"):
        read_lines(tmp_path)


def test_limap_single_track_and_alltracks(tmp_path: Path) -> None:
    assert segments(tmp_path / "track_4.txt", TRACK) == ONE
    tracks = "2\n0 2 2\n1 2 3\n4 5 6\n7 8 \n1 2 \n5 1 1\n1 2 3\n4 5 7\n7 \n1 \n"
    report = read_lines_report(_written(tmp_path / "alltracks.txt", tracks))
    assert report.format == "limap"
    assert report.lines.ids.tolist() == [0, 5]
    assert report.lines.endpoints.tolist() == [*ONE, [[1, 2, 3], [4, 5, 7]]]


def _written(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


PLY_VERTICES = np.array([(0, 0, 0, 9), (1, 0, 0, 9), (1, 1, 0, 9)], dtype=[(a, "f8") for a in "xyz"] + [("q", "u1")])


@pytest.mark.parametrize("layout", ["text", "<", ">"])
@pytest.mark.parametrize("element", ["edge", "face", "edge and face"])
def test_ply_as_another_program_writes_it(tmp_path: Path, layout: str, element: str) -> None:
    plyfile = pytest.importorskip("plyfile")
    edge = np.array([(0, 1, 255), (1, 2, 0)], dtype=[("vertex1", "i4"), ("vertex2", "i4"), ("red", "u1")])
    face = np.array([([0, 1, 2],), ([1, 2, 2],)], dtype=[("vertex_indices", "i4", (3,))])
    described = [plyfile.PlyElement.describe(PLY_VERTICES, "vertex")]
    if "face" in element:
        described.append(plyfile.PlyElement.describe(face, "face"))
    if "edge" in element:
        described.append(plyfile.PlyElement.describe(edge, "edge"))
    order = {"text": "="}.get(layout, layout)
    plyfile.PlyData(described, text=layout == "text", byte_order=order, comments=["by a test"]).write(
        tmp_path / "m.ply"
    )
    endpoints = read_lines(tmp_path / "m.ply").endpoints.tolist()
    assert endpoints == ([AB, BC] if element != "face" else [AB, BC, [[1, 1, 0], [0, 0, 0]]])


def test_ply_with_carriage_returns(tmp_path: Path) -> None:
    header = "ply\nformat ascii 1.0\nelement vertex 2\nproperty float x\nproperty float y\nproperty float z\n"
    body = "element edge 1\nproperty int vertex1\nproperty int vertex2\nend_header\n1 2 3\n4 5 6\n0 1\n"
    assert segments(tmp_path / "a.ply", (header + body).replace("\n", "\r\n")) == ONE
    assert segments(tmp_path / "b.ply", (header + body).replace("\n", "\r")) == ONE


def test_our_ply_is_read_by_another_program(tmp_path: Path) -> None:
    plyfile = pytest.importorskip("plyfile")
    write_lines(tmp_path / "m.ply", line_set(TWO_SEGMENTS))
    data = plyfile.PlyData.read(tmp_path / "m.ply")
    points = np.stack([data["vertex"][axis] for axis in "xyz"], axis=1)
    pairs = np.stack([data["edge"][name] for name in ("vertex1", "vertex2")], axis=1)
    np.testing.assert_array_equal(points[pairs], TWO_SEGMENTS)


def test_arrays(tmp_path: Path) -> None:
    flat = np.array([[1, 2, 3, 4, 5, 6]])
    np.save(tmp_path / "a.npy", flat.astype(">f4"))
    report = read_lines_report(tmp_path / "a.npy")
    assert report.lines.endpoints.tolist() == ONE
    assert report.notes == ("stored as >f4",)
    np.save(tmp_path / "b.npy", np.asfortranarray(flat.reshape(1, 2, 3)))
    assert read_lines(tmp_path / "b.npy").endpoints.tolist() == ONE
    for arrays in ({"lines": flat}, {"segments": flat, "x": flat}, {"whatever": flat, "score": flat[:, 0]}):
        np.savez_compressed(tmp_path / "c.npz", **arrays)
        assert read_lines(tmp_path / "c.npz").endpoints.tolist() == ONE
    np.savez(tmp_path / "d.npz", a=flat, b=flat)
    with pytest.raises(FormatError, match=r"found a \(1, 6\), b \(1, 6\)"):
        read_lines(tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", endpoints=flat, ids=np.array([1, 2]))
    with pytest.raises(FormatError, match="ids: expected 1 integers"):
        read_lines(tmp_path / "e.npz")
    np.savez(tmp_path / "f.npz", direction=flat, moment=flat)
    with pytest.raises(FormatError, match="moment and direction"):
        read_lines(tmp_path / "f.npz")


@pytest.fixture
def drawing() -> Any:
    return pytest.importorskip("ezdxf").new(units=4)


def dxf_segments(drawing: Any, path: Path) -> list[Any]:
    drawing.saveas(path)
    return read_lines(path).endpoints.tolist()


def test_dxf_lines_and_polylines(tmp_path: Path, drawing: Any) -> None:
    space = drawing.modelspace()
    space.add_line((1, 2, 3), (4, 5, 6))
    space.add_polyline3d([(0, 0, 0), (1, 0, 0), (1, 1, 0)], close=True)
    space.add_polyline2d([(0, 0), (1, 0)])
    space.add_circle((0, 0), 1)
    read = dxf_segments(drawing, tmp_path / "m.dxf")
    assert sorted(read) == sorted([*ONE, AB, BC, [[1, 1, 0], [0, 0, 0]], AB])
    report = read_lines_report(tmp_path / "m.dxf")
    assert report.notes == ("skipped, not straight lines: 1 CIRCLE", "drawing unit: mm")


def test_dxf_lwpolylines_have_elevation_own_axes_and_arcs(tmp_path: Path, drawing: Any) -> None:
    space = drawing.modelspace()
    space.add_lwpolyline([(0, 0), (1, 0), (1, 1)], dxfattribs={"elevation": 7})
    space.add_lwpolyline([(0, 0, 0, 0, 1), (1, 0)], close=True)  # a bulge: half a circle, then straight
    space.add_lwpolyline([(0, 0), (2, 0)], dxfattribs={"elevation": 5, "extrusion": (0, 0, -1)})
    read = np.array(dxf_segments(drawing, tmp_path / "m.dxf"))
    expected = [[[0, 0, 7], [1, 0, 7]], [[1, 0, 7], [1, 1, 7]], [[1, 0, 0], [0, 0, 0]], [[0, 0, -5], [-2, 0, -5]]]
    np.testing.assert_allclose(read, expected, atol=1e-12)


def test_dxf_faces_give_visible_edges_once(tmp_path: Path, drawing: Any) -> None:
    space = drawing.modelspace()
    space.add_3dface([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)])
    space.add_3dface([(1, 1, 0), (0, 1, 0), (0, 1, 1)], dxfattribs={"invisible_edges": 2})
    read = dxf_segments(drawing, tmp_path / "m.dxf")
    assert read == [AB, BC, CD, DA, [[0, 1, 1], [1, 1, 0]]]


def test_dxf_blocks_are_placed(tmp_path: Path, drawing: Any) -> None:
    inner = drawing.blocks.new("inner")
    inner.add_line((0, 0, 0), (1, 0, 0))
    outer = drawing.blocks.new("outer")
    outer.add_blockref("inner", (0, 0, 1))
    drawing.modelspace().add_blockref("outer", (10, 0, 0), dxfattribs={"rotation": 90})
    drawing.modelspace().add_blockref("inner", (0, 0), dxfattribs={"row_count": 2, "row_spacing": 5})
    read = np.array(dxf_segments(drawing, tmp_path / "m.dxf"))
    expected = [[[10, 0, 1], [10, 1, 1]], [[0, 0, 0], [1, 0, 0]], [[0, 5, 0], [1, 5, 0]]]
    np.testing.assert_allclose(read, expected, atol=1e-12)


def test_dxf_blocks_that_contain_themselves(tmp_path: Path, drawing: Any) -> None:
    block = drawing.blocks.new("loop")
    block.add_line((0, 0, 0), (1, 0, 0))
    block.add_blockref("loop", (0, 0, 1))
    drawing.modelspace().add_blockref("loop", (0, 0, 0))
    drawing.saveas(tmp_path / "m.dxf")
    with contextlib.suppress(FormatError):
        assert len(read_lines(tmp_path / "m.dxf")) < 100


def test_dxf_without_ezdxf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_lines(tmp_path / "m.dxf", line_set(TWO_SEGMENTS))
    monkeypatch.setitem(__import__("sys").modules, "ezdxf", None)
    with pytest.raises(MissingDependencyError, match=r"plueckernet\[io\]"):
        read_lines(tmp_path / "m.dxf")


def city(*objects: tuple[str, dict[str, Any]], **entries: Any) -> str:
    square = [[0, 0, 0], [1000, 0, 0], [1000, 1000, 0], [0, 1000, 0]]
    document = {"type": "CityJSON", "version": "2.0", "CityObjects": dict(objects), "vertices": square}
    document["transform"] = {"scale": [0.001] * 3, "translate": [0, 0, 0]}
    return json.dumps(document | entries)


def surface(lod: Any, *rings: list[int]) -> dict[str, Any]:
    return {"type": "MultiSurface", "lod": lod, "boundaries": [[ring] for ring in rings]}


def test_cityjson_edges_are_shared_and_transformed(tmp_path: Path) -> None:
    house = ("a", {"type": "Building", "geometry": [surface("2", [0, 1, 2], [0, 2, 3])]})
    assert len(segments(tmp_path / "m.json", city(house))) == 5
    moved = {"scale": [0.001] * 3, "translate": [85000.123, 446000.5, -0.25]}
    read = np.array(segments(tmp_path / "m.json", city(house, transform=moved)))
    assert read[0].tolist() == [[85000.123, 446000.5, -0.25], [85001.123, 446000.5, -0.25]]
    solid = {"type": "Solid", "lod": "1", "boundaries": [[[[0, 1, 2, 3]]]]}
    lines = {"type": "MultiLineString", "lod": "1", "boundaries": [[0, 1, 2]]}
    points = {"type": "MultiPoint", "lod": "1", "boundaries": [0, 1]}
    assert segments(tmp_path / "m.json", city(("a", {"geometry": [solid, points]}))) == [AB, BC, CD, DA]
    assert segments(tmp_path / "m.json", city(("a", {"geometry": [lines]}))) == [AB, BC]


def test_cityjson_version_1_0_may_have_no_transform(tmp_path: Path) -> None:
    document = json.loads(city(("a", {"geometry": [surface(2.2, [0, 1, 2])]}), version="1.0"))
    del document["transform"]
    assert segments(tmp_path / "m.json", json.dumps(document), lod=2.2)[0] == [[0, 0, 0], [1000, 0, 0]]


def test_cityjson_levels_of_detail(tmp_path: Path) -> None:
    detailed = ("a", {"geometry": [surface("1.2", [0, 1, 2, 3]), surface("2.2", [0, 1, 2])]})
    low = ("b", {"geometry": [surface("1.2", [0, 2, 3])]})
    path = _written(tmp_path / "m.json", city(detailed, low))
    assert read_lines_report(path).notes == ("levels of detail: 1.2, 2.2; the highest of each object was read",)
    assert len(read_lines(path)) == 5
    assert len(read_lines(path, lod=1.2)) == 5
    report = read_lines_report(path, lod="2.20")
    assert len(report.lines) == 3
    assert report.notes == ("1 of 2 objects have no level 2.20",)
    with pytest.raises(FormatError, match=r"no geometry of level of detail 3; available: 1\.2, 2\.2"):
        read_lines(path, lod="3")
    with pytest.raises(InputError, match="expected a number"):
        read_lines(path, lod="fine")


def test_cityjson_parts_belong_to_their_building(tmp_path: Path) -> None:
    footprint = ("a", {"type": "Building", "children": ["p"], "geometry": [surface("0", [1, 2, 3])]})
    wing = ("p", {"type": "BuildingPart", "parents": ["a"], "geometry": [surface("2.2", [0, 1, 2])]})
    assert AB in segments(tmp_path / "m.json", city(footprint, wing))
    assert CD not in segments(tmp_path / "m.json", city(footprint, wing))


def test_cityjson_templates_are_placed(tmp_path: Path) -> None:
    matrix = [2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 5, 0, 0, 0, 1]
    instance = {"type": "GeometryInstance", "template": 0, "boundaries": [2], "transformationMatrix": matrix}
    template = {"type": "MultiSurface", "lod": "2", "boundaries": [[[0, 1, 2]]]}
    templates = {"templates": [template], "vertices-templates": [[0, 0, 0], [1, 0, 0], [0, 1, 0]]}
    content = city(("tree", {"geometry": [instance]}), **{"geometry-templates": templates})
    assert segments(tmp_path / "m.json", content)[0] == [[1, 1, 5], [3, 1, 5]]


def test_cityjson_index_out_of_range(tmp_path: Path) -> None:
    for index in (4, -1, 1.5, "0", True):
        with pytest.raises(FormatError, match="malformed CityJSON"):
            segments(tmp_path / "m.json", city(("a", {"geometry": [surface("2", [0, 1, index])]})))


def test_lod_is_for_cityjson(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lod is for CityJSON and CityGML; this is txt"):
        segments(tmp_path / "m.txt", "1 2 3 4 5 6\n", lod="2")


def test_everything_is_float64(tmp_path: Path) -> None:
    for suffix in (".obj", ".npy", ".npz", ".csv"):
        write_lines(tmp_path / f"m{suffix}", line_set(TWO_SEGMENTS).to(torch.float32))
        assert read_lines(tmp_path / f"m{suffix}").endpoints.dtype == torch.float64
