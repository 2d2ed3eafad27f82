"""Folders from strangers: an index leads to no other files, and a folder of scans may have other files in it."""

from __future__ import annotations

import json
import logging
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.cli.helpers import run
from tests.hostile.files import pcd

from plueckernet.data.datasets import CloudFrame, open_sequence
from plueckernet.data.prepared import read_index
from plueckernet.errors import FormatError
from plueckernet.io import read_lines
from plueckernet.sensing import frame_lines

EYE = np.eye(4).tolist()
SCENE = {"name": "a", "split": "train", "lines": 3}
PAIR = {"source": "a", "target": "a", "split": "train", "target_T_source": EYE}


def index_of(folder: Path, scene: dict[str, object], pair: dict[str, object]) -> Path:
    content = {"schema": 1, "dataset": "x", "settings": {}, "scenes": [SCENE | scene], "pairs": [PAIR | pair]}
    (folder / "index.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("scene", "pair"),
    [
        ({"name": "../../secret"}, {}),
        ({"name": "/etc/secret"}, {}),
        ({"name": ".."}, {}),
        ({"name": 7}, {}),
        ({"split": "../other"}, {}),
        ({"lines": "3"}, {}),
        ({"world_T_scene": [[1, 2], [3, 4]]}, {}),
        ({"world_T_scene": "x"}, {}),
        ({}, {"source": "b"}),
        ({}, {"target_T_source": (2 * np.eye(4)).tolist()}),
        ({}, {"target_T_source": 5}),
    ],
)
def test_an_index_names_only_its_own_scenes(tmp_path: Path, scene: dict[str, object], pair: dict[str, object]) -> None:
    assert len(read_index(index_of(tmp_path, {}, {})).scenes) == 1
    with pytest.raises(FormatError):
        read_index(index_of(tmp_path, scene, pair))


def room_points(count: int = 30_000) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Points on the faces of a box and of a cupboard in it, seen from the origin."""
    generator = np.random.default_rng(0)
    sides = []
    for low, high in (
        (np.array([-3, -2, -1.5]), np.array([4, 3, 1.5])),
        (np.array([2, -1, -1.5]), np.array([3, 1, 0.5])),
    ):
        points = generator.uniform(low, high, (count, 3))
        axis, side = generator.integers(0, 3, count), generator.integers(0, 2, count)
        points[np.arange(count), axis] = np.where(side == 1, high[axis], low[axis])
        sides.append(points)
    return np.concatenate(sides).astype(np.float32)


def write_scan(path: Path, points: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    body = points.astype("<f4").tobytes()
    if path.suffix == ".pcd":
        path.write_bytes(pcd("binary", body, width=f"WIDTH {len(points)}"))
    elif path.suffix == ".ply":
        header = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n"
        header += "".join(f"property float {axis}\n" for axis in "xyz") + "end_header\n"
        path.write_bytes(header.encode() + body)
    elif path.suffix == ".las":
        head = bytearray(227)
        head[:4], head[24:26] = b"LASF", b"\x01\x02"
        struct.pack_into("<HIIBHI", head, 94, 227, 227, 0, 0, 20, len(points))
        struct.pack_into("<3d", head, 131, 0.001, 0.001, 0.001)
        rows = np.zeros(len(points), {"names": ["xyz"], "formats": ["(3,)<i4"], "itemsize": 20})
        rows["xyz"] = np.round(points * 1000)
        path.write_bytes(bytes(head) + rows.tobytes())
    else:
        path.write_bytes(np.column_stack([points, np.zeros(len(points))]).astype("<f4").tobytes())


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four scans in four formats, a damaged scan, and a file that is none."""
    folder: Path = tmp_path_factory.mktemp("scans")
    points = room_points()
    for number, suffix in enumerate((".pcd", ".ply", ".las", ".bin")):
        write_scan(folder / f"{number}{suffix}", points - np.float32([0.1 * number, 0, 0]))
    (folder / "4.pcd").write_bytes(b"VERSION .7\nFIELDS x y z\n")
    (folder / "notes.md").write_text("taken on Monday")
    return folder


def test_a_folder_of_scans_is_recognised_and_other_files_are_named(
    scans: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "plueckernet"):
        frames = open_sequence(scans)
    assert [frame.name for frame in frames] == ["0", "1", "2", "3", "4"]
    assert all(isinstance(frame, CloudFrame) and frame.viewpoint == (0.0, 0.0, 0.0) for frame in frames)
    assert "1 files are no scans and are left out: notes.md" in caplog.text


def test_odometry_follows_scans_of_several_formats(
    scans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("odometry", scans, "--out", tmp_path) == 0
    captured = capsys.readouterr()
    assert f"left out {scans / '4.pcd'}" in captured.err
    assert captured.out.startswith("4 frames: ")
    steps = json.loads((tmp_path / "odometry.json").read_text())["steps"]
    assert steps[-1]["world_T_sensor"][0][3] == pytest.approx(0.3, abs=0.03)


def test_the_viewpoint_of_a_scan_reaches_the_extraction(monkeypatch: pytest.MonkeyPatch) -> None:
    import plueckernet.extraction as extraction

    seen = []
    empty = extraction.extract_lines(np.random.default_rng(0).random((50, 3)))
    monkeypatch.setattr(extraction, "extract_lines", lambda _, settings, **__: seen.append(settings.viewpoint) or empty)
    frame_lines(CloudFrame("a", 0.0, Path("a.pcd")))
    frame_lines(CloudFrame("a", 0.0, Path("a.pcd"), viewpoint=None))
    assert seen == [(0.0, 0.0, 0.0), None]


def test_a_mesh_names_only_files_of_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
    (tmp_path / "secret.bin").write_bytes(corners)
    (tmp_path / "meshes").mkdir()
    for uri, is_read in (("../secret.bin", False), (str(tmp_path / "secret.bin"), False), ("corners.bin", True)):
        (tmp_path / "meshes" / "corners.bin").write_bytes(corners)
        document = {
            "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
            "buffers": [{"uri": uri, "byteLength": len(corners)}],
            "bufferViews": [{"buffer": 0, "byteOffset": 0, "byteLength": len(corners)}],
            "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
            "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
        }  # fmt: skip
        (tmp_path / "meshes" / "a.gltf").write_text(json.dumps(document))
        if is_read:
            assert len(read_lines(tmp_path / "meshes" / "a.gltf")) == 3
        else:
            with pytest.raises(FormatError, match="is not in the folder of the mesh"):
                read_lines(tmp_path / "meshes" / "a.gltf")
