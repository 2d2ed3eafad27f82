"""COLMAP models move as COLMAP itself moves them, text and binary."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from plueckernet.errors import FormatError
from plueckernet.geometry import Pose, Similarity
from plueckernet.io.colmap_files import check_model
from plueckernet.moving import move_file

POSE = Pose.random(generator=torch.Generator().manual_seed(5), translation=100.0)
IMAGES = """# Image list
1 1 0 0 0 0.5 0 0 7 a folder/first image.png
10.5 20 3 30 40 -1
2 0.5 0.5 0.5 0.5 1 2 3 7 second.png

"""
POINTS = "# points\n3 1 2 3 255 128 0 0.25 1 0 2 5\n"


def text_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "cameras.txt").write_text("7 PINHOLE 100 100 50 50 50 50\n")
    (folder / "images.txt").write_text(IMAGES)
    (folder / "points3D.txt").write_text(POINTS)
    return folder


def test_a_text_model_keeps_all_but_coordinates(tmp_path: Path) -> None:
    assert move_file(text_model(tmp_path / "a"), tmp_path / "b", POSE) == []
    lines = (tmp_path / "b" / "images.txt").read_text().splitlines()
    assert lines[0] == "# Image list"
    assert lines[1].endswith(" 7 a folder/first image.png")
    assert lines[2] == "10.5 20 3 30 40 -1"
    assert lines[4] == ""
    points = (tmp_path / "b" / "points3D.txt").read_text().split()
    np.testing.assert_allclose(np.array(points[3:6], float), POSE @ [1.0, 2, 3])
    assert points[6:] == ["255", "128", "0", "0.25", "1", "0", "2", "5"]
    assert (tmp_path / "b" / "cameras.txt").read_text() == (tmp_path / "a" / "cameras.txt").read_text()


def test_a_damaged_model_leaves_nothing(tmp_path: Path) -> None:
    (text_model(tmp_path / "a") / "points3D.txt").write_text("3 1 2\n")
    with pytest.raises(FormatError, match=r"points3D.txt:1: expected the number of a point"):
        move_file(tmp_path / "a", tmp_path / "b", POSE)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_camera_sees_the_same(tmp_path: Path) -> None:
    move_file(text_model(tmp_path / "a"), tmp_path / "b", Similarity.from_pose(POSE, 2.5))
    views = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        row = (folder / "images.txt").read_text().splitlines()[3].split()
        point = (folder / "points3D.txt").read_text().splitlines()[1].split()
        camera_T_world = Pose.from_quaternion([float(v) for v in row[1:5]], [float(v) for v in row[5:8]])
        views.append(camera_T_world @ np.array(point[1:4], float))
    np.testing.assert_allclose(views[1], 2.5 * views[0])


def test_damaged_models_are_refused(tmp_path: Path) -> None:
    folder = text_model(tmp_path / "a")
    (folder / "images.txt").write_text("1 1 0 0 0\n\n")
    with pytest.raises(FormatError, match=r"images\.txt:1: expected a quaternion"):
        move_file(folder, tmp_path / "b", POSE)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "images.bin").write_bytes(struct.pack("<QI", 4, 1))
    (tmp_path / "c" / "points3D.bin").write_bytes(bytes(8))
    with pytest.raises(FormatError, match="ends too early"):
        move_file(tmp_path / "c", tmp_path / "d", POSE)


@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize("kind", ["binary", "text"])
def test_the_model_moves_as_colmap_moves_it(tmp_path: Path, kind: str, scale: float) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap is not installed")
    options = pycolmap.SyntheticDatasetOptions()
    options.num_cameras_per_rig, options.num_frames_per_rig, options.num_points3D = 2, 3, 40
    original = pycolmap.synthesize_dataset(options)
    (tmp_path / "a").mkdir()
    getattr(original, f"write_{kind}")(str(tmp_path / "a"))
    assert move_file(tmp_path / "a", tmp_path / "b", Similarity.from_pose(POSE, scale)) == []
    moved = pycolmap.Reconstruction(str(tmp_path / "b"))
    original.transform(pycolmap.Sim3d(scale, pycolmap.Rotation3d(POSE.rotation.numpy()), POSE.translation.numpy()))
    assert moved.num_points3D() == original.num_points3D() == 40
    for number, point in original.points3D.items():
        np.testing.assert_allclose(moved.point3D(number).xyz, point.xyz, atol=1e-9)
    for number, image in original.images.items():
        expected = image.cam_from_world().matrix()
        np.testing.assert_allclose(moved.image(number).cam_from_world().matrix(), expected, atol=1e-9)
        assert moved.image(number).name == image.name
    error = original.compute_mean_reprojection_error()
    assert moved.compute_mean_reprojection_error() == pytest.approx(error, abs=1e-6)
    for number, rig in original.rigs.items():
        for sensor, sensor_T_rig in rig.non_ref_sensors.items():
            scaled = moved.rig(number).non_ref_sensors[sensor].matrix()
            np.testing.assert_allclose(scaled, sensor_T_rig.matrix(), atol=1e-9)


def test_a_damaged_rig_is_refused(tmp_path: Path) -> None:
    (text_model(tmp_path / "a") / "rigs.txt").write_text("1 2 CAMERA 1 CAMERA 2 1 1 0 0 0 5\n")
    with pytest.raises(FormatError, match=r"rigs\.txt:1: expected a quaternion and a translation"):
        move_file(tmp_path / "a", tmp_path / "b", POSE)


def test_bytes_after_the_last_record_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "images.bin").write_bytes(bytes(8))
    (tmp_path / "a" / "points3D.bin").write_bytes(bytes(9))
    for act in (check_model, lambda folder: move_file(folder, tmp_path / "b", POSE)):
        with pytest.raises(FormatError, match=r"points3D\.bin: expected the end, found 1 more bytes"):
            act(tmp_path / "a")
