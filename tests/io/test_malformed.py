"""Malformed files give an error with file and line; unusable lines are skipped and counted."""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io.samples import TWO_SEGMENTS, line_set

from plueckernet.errors import FormatError, InputError, PlueckernetError
from plueckernet.io import FORMATS, read_lines, read_lines_report, write_lines

PLY = "ply\nformat ascii 1.0\nelement vertex 2\nproperty double x\nproperty double y\nproperty double z\n"
PLY_EDGE = "element edge 1\nproperty int vertex1\nproperty int vertex2\nend_header\n"

# format, content, line, part of the message
BAD_TEXT = [
    ("txt", "1 2 3 4 5 6\n1 2 3 4 5\n", 2, "expected 6 columns, found 5"),
    ("txt", "1 2 3 4 5 6 7\n", 1, "expected 6 columns, found 7"),
    ("txt", "# c\n\n1 2 3 4 5 x\n", 3, "expected a number, found 'x'"),
    ("txt", "1 2 3 4 5 6\n1 2 3 4 5 \udcff\n", 2, "expected a number"),
    ("txt", "# only a comment\n", None, "no usable lines: none at all"),
    ("txt", "\n\n", None, "no usable lines"),
    ("csv", "x1,y1,z1,x2,y2,z2\n", None, "no usable lines"),
    ("csv", "1,2,3,4,5,6\n1,2,,4,5,6\n", 2, "expected a number, found ''"),
    ("csv", "a,b,c,d,e,f\r\n1,2,3,4,5,6\r\n1,2,3\r\n", 3, "expected 6 columns, found 3"),
    ("csv", "1,5;2,5;3,5;4,5;5,5;6,5\n", 1, "decimal commas, as in '1,5'"),
    ("csv", "id,x1,y1,z1,x2,y2,z2\n1,2,3,4,5,6\n", 2, "expected 7 columns"),
    ("obj", "v 0 0 0\nv 1 0 0\nl 1 3\n", 3, "vertex 3 of 2 vertices"),
    ("obj", "v 0 0 0\nv 1 0 0\nl 0 1\n", 3, "vertex index '0'"),
    ("obj", "v 0 0 0\nv 1 0 0\nl -3 1\n", 3, "vertex index '-3'"),
    ("obj", "v 0 0 0\nv 1 0\nl 1 2\n", 2, "three coordinates"),
    ("obj", "v 0 0 0\nv 1 0 zero\nl 1 2\n", 2, "found 'zero'"),
    ("obj", "v 0 0 0\nv 1 0 0\nl 1\n", 3, "two vertices"),
    ("obj", "v 0 0 0\nv 1 0 0\nl 1 b\n", 3, "expected a vertex index"),
    ("obj", "v 0 0 0\nv 1 0 0\nl 1 " + "9" * 30 + "\n", 3, "vertex index"),
    ("obj", "v 0 0 0\nv 1 0 0\n", None, "no usable lines"),
    ("line3dpp", "1 0 0 0 1 0 0 0\n2 0 0 0 1 0 0 0\n", 2, "2 3D segments need 14 columns"),
    ("line3dpp", "1 0 0 0 1 0 0 0\n1 0 0 0 1 0 0 2 1 1\n", 2, "need 20 columns, found 10"),
    ("line3dpp", "1 0 0 0 1 0 0 0\n1 0 0 0 1 0 0 0.5\n", 2, "number of 2D segments"),
    ("line3dpp", "1 0 0 0 1 0 0 0\nx 0 0 0 1 0 0 0\n", 2, "number of 3D segments"),
    ("line3dpp", "1 0 0 0 1 0 0 0\n1 0 0 0 1 0 y 0\n", 2, "found 'y'"),
    ("limap", "2\n0 0 0\n0 0 0\n1 0 0\n\n\n", None, "ends within track 2 of 2"),
    ("limap", "1\n0 2 1\n0 0 0\n1 0 0\n", None, "ends within track 1 of 1"),
    ("limap", "1\n0 2 1\n0 0 0\n1 0 0\n4 5\n4\n", 6, "expected 2 ids, found 1"),
    ("limap", "1\n0 0 0\n0 0 0\n1 0 0\n\n\n9 0 0\n", 7, "end after 1 tracks"),
    ("limap", "2\n0 0 0\n0 0 0\n1 0 0\n\n\na 0 0\n0 0 0\n1 0 0\n", 7, "expected `id segments images`"),
    ("limap", "2\n0 0 0\n0 0 0\n1 0 0\n\n\n1 0 0\n0 0\n1 0 0\n", 8, "three columns, found 2"),
    ("limap", "999999999999\n0 0 0\n0 0 0\n1 0 0\n\n\n", None, "ends within track 2"),
    ("ply", PLY, None, "ends within the header"),
    ("ply", PLY.replace("double x", "quad x") + PLY_EDGE, 4, "unknown type 'quad'"),
    ("ply", PLY + PLY_EDGE + "0 0 0\n", None, "after 1 of 2 vertex"),
    ("ply", PLY + PLY_EDGE + "0 0 0\n1 0\n0 1\n", 12, "columns of the header"),
    ("ply", PLY + PLY_EDGE + "0 0 0\n1 0 q\n0 1\n", 12, "found 'q'"),
    ("ply", PLY + PLY_EDGE + "0 0 0\n1 0 0\n0 2\n", None, "of 2 vertices"),
    ("ply", PLY + PLY_EDGE + "0 0 0\n1 0 0\n0 nan\n", None, "of 2 vertices"),
    ("ply", PLY + "end_header\n0 0 0\n1 0 0\n", None, "a point cloud, not lines"),
    ("ply", PLY.replace("ascii", "utf8"), 2, "not a line of a PLY header"),
    ("ply", PLY.replace("double z", "double w") + PLY_EDGE + "0 0 0\n1 0 0\n0 1\n", None, "x, y, z"),
    ("cityjson", '{"type": "CityJSON",\n "vertices": [}', 2, "not JSON"),
    ("cityjson", '{"type": "FeatureCollection"}', None, "found 'FeatureCollection'"),
    ("cityjson", '{"type": "CityJSON"}', None, "malformed CityJSON"),
    ("cityjson", '{"type": "CityJSON", "CityObjects": {}, "vertices": []}', None, "no city object"),
    ("cityjson", "[" * 100_000, None, "not JSON"),
    ("dxf", "0\nSECTION\n2\nENTITIES\n0\nLINE\n10\nx\n0\nENDSEC\n0\nEOF\n", None, "no usable lines"),
    ("dxf", "0\nSECTION\n2\nENTITIES\n0\nENDSEC\n0\nEOF\n", None, "no usable lines"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "line", "message"), BAD_TEXT)
def test_bad_text_is_named_with_its_line(
    tmp_path: Path, name: str, content: str, line: int | None, message: str
) -> None:
    path = tmp_path / "map"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(FormatError) as caught:
        read_lines(path, format=name)
    assert caught.value.path == path
    assert caught.value.line == line
    assert message in str(caught.value)
    str(caught.value).encode()  # it can be printed


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
@pytest.mark.parametrize(
    "content",
    [b"", b"\0\1\2garbage" * 50, b"\xff\xfe1\0 \0", "1 2 3".encode("utf-16"), b"\x93NUMPY", b"PK\x03\x04", b"ply\n"],
)
def test_garbage_is_our_error_in_every_format(tmp_path: Path, known: object, content: bytes) -> None:
    path = tmp_path / "map"
    path.write_bytes(content)
    with pytest.raises(FormatError):
        read_lines(path, format=known.name)


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_missing_files_and_wrong_folders(tmp_path: Path, known: object) -> None:
    with pytest.raises(FormatError, match="no such file"):
        read_lines(tmp_path / "missing", format=known.name)
    with pytest.raises(FormatError):
        read_lines(tmp_path, format=known.name)


def test_unknown_content_and_names(tmp_path: Path) -> None:
    path = tmp_path / "map.what"
    path.write_text("once upon a time\n")
    with pytest.raises(FormatError, match="unrecognised text; known formats: npy"):
        read_lines(path)
    path.write_bytes(b"\0\0\0")
    with pytest.raises(FormatError, match="unrecognised binary"):
        read_lines(path)
    with pytest.raises(InputError, match="unknown format 'las'"):
        read_lines(path, format="las")
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="the file is empty"):
        read_lines(path)


@pytest.mark.parametrize(
    "known", [f for f in FORMATS if f.write and f.name not in ("npz", "dxf")], ids=lambda f: f.name
)
def test_skipped_lines_are_counted_and_ids_are_kept(
    tmp_path: Path, known: object, caplog: pytest.LogCaptureFixture
) -> None:
    endpoints = np.concatenate([TWO_SEGMENTS, TWO_SEGMENTS, TWO_SEGMENTS])
    endpoints[0, 1] = endpoints[0, 0]
    endpoints[2, 0, 1] = np.nan
    endpoints[4, 1, 2] = -np.inf
    path = tmp_path / "map"
    known.write(path, endpoints)
    report = read_lines_report(path, format=known.name)
    assert report.dropped == {"not finite": 2, "zero length": 1}
    assert report.lines.ids.tolist() == [1, 3, 5]
    np.testing.assert_array_equal(report.lines.endpoints, endpoints[[1, 3, 5]])
    with caplog.at_level(logging.WARNING, logger="plueckernet"):
        read_lines(path, format=known.name)
    assert [record.args[1:] for record in caplog.records] == [(2, "not finite"), (1, "zero length")]


def test_overflowing_and_underflowing_lengths_are_cleaned_up(tmp_path: Path) -> None:
    rows = ["1e308 0 0 -1e308 0 0", "1e200 0 0 0 0 0", "0 0 0 1e-200 0 0", "0 0 0 1e-100 0 0"]
    (tmp_path / "map.txt").write_text("\n".join(rows))
    report = read_lines_report(tmp_path / "map.txt")
    assert report.dropped == {"not finite": 2, "zero length": 1}
    assert report.lines.ids.tolist() == [3]


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "map.txt").write_text("nan 0 0 1 1 1\n1 1 1 1 1 1\n")
    with pytest.raises(FormatError, match="no usable lines: 1 not finite, 1 zero length"):
        read_lines(tmp_path / "map.txt")


@pytest.mark.parametrize("array", [np.zeros((3, 5)), np.zeros(6), np.zeros((2, 6), complex), np.array([["a"] * 6])])
def test_arrays_of_another_kind(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", endpoints=array)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FormatError, match="expected"):
            read_lines(tmp_path / name)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    objects = np.array([[{}] * 6], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", endpoints=objects)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(FormatError, match="damaged or unsupported"):
            read_lines(tmp_path / name)


@pytest.mark.parametrize("name", ["npy", "npz", "ply", "dxf"])
def test_truncation_anywhere_is_our_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / "map"
    write_lines(path, line_set(TWO_SEGMENTS), format=name)
    whole = path.read_bytes()
    for size in range(0, len(whole) - 12, max(1, len(whole) // 40)):
        path.write_bytes(whole[:size])
        try:
            lines = read_lines(path, format=name)
        except PlueckernetError:
            continue
        assert name == "dxf"  # the recovering reader repairs some files
        assert len(lines) <= 2


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_bytes_raise_nothing_but_our_errors(tmp_path: Path, known: object, data: st.DataObject) -> None:
    path = tmp_path / "map"
    if known.write is None or data.draw(st.booleans()):
        seed = _seed(known.name)
    else:
        known.write(path, TWO_SEGMENTS)
        seed = path.read_bytes()
    start = data.draw(st.integers(0, len(seed)))
    noise = data.draw(st.binary(max_size=12) | st.text('0123456789-.einfl/v \n\t{}[]"', max_size=12).map(str.encode))
    path.write_bytes(seed[:start] + noise + seed[start + data.draw(st.integers(0, 12)) :])
    for name in (known.name, None):
        with contextlib.suppress(PlueckernetError):
            read_lines_report(path, format=name)


def _seed(name: str) -> bytes:
    if name == "cityjson":
        geometry = {"type": "MultiSurface", "lod": "2", "boundaries": [[[0, 1, 2]]]}
        city = {
            "type": "CityJSON",
            "version": "2.0",
            "CityObjects": {"a": {"type": "Building", "geometry": [geometry]}},
        }
        city |= {
            "transform": {"scale": [1, 1, 1], "translate": [0, 0, 0]},
            "vertices": [[0, 0, 0], [1, 0, 0], [0, 1, 0]],
        }
        return json.dumps(city).encode()
    return b"v 0 0 0\nv 1 0 0\nv 1 1 0\nl 1 2 3\nf 1 2 2\n" if name == "obj" else b""
