"""Readers of published datasets give the right lines, poses and matches."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.datasets import published

from plueckernet.data.datasets import (
    apollo_sequences,
    kitti_sequence,
    open_sequence,
    read_authors_pairs,
    read_structured3d,
    semantic3d_clouds,
    seven_scenes_sequence,
    split_into_cells,
    structured3d_scenes,
    tum_sequence,
)
from plueckernet.data.datasets.authors import authors_folders
from plueckernet.data.datasets.frames import MissingFrame
from plueckernet.data.protocols import AnyProtocol, sample_pair
from plueckernet.data.splits import split_names
from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import LineSet
from plueckernet.io import write_lines


def test_structured3d_is_the_room_in_metres(tmp_path: Path) -> None:
    published.structured3d(tmp_path / "Structured3D", count=2)
    first, second = structured3d_scenes(tmp_path)
    assert (first.parent.name, second.parent.name) == ("scene_00000", "scene_00001")
    room = read_structured3d(first)
    assert len(room) == 12  # lines without two junctions are skipped
    assert room.lengths().sort().values.tolist() == pytest.approx([2.5] * 4 + [3.0] * 4 + [4.0] * 4)
    assert room.endpoints.amax((0, 1)).tolist() == pytest.approx([4.0, 3.0, 2.5])


def test_structured3d_scenes_make_pairs(tmp_path: Path) -> None:
    (path,) = published.structured3d(tmp_path)
    pair = sample_pair(read_structured3d(path), AnyProtocol(keep=1.0), 3)
    assert len(pair.matches) == 12


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda scene: scene.pop("junctions"), "no junctions"),
        (lambda scene: scene["junctions"].pop(), "expected 8 columns"),
        (lambda scene: scene["junctions"][0].update(coordinate=[0, 0]), "junctions"),
        (lambda scene: scene["junctions"][0].update(coordinate=[0, 0, float("nan")]), "finite"),
        (lambda scene: scene["lineJunctionMatrix"][0].pop(), "rows of equal length"),
        (lambda scene: scene.update(lineJunctionMatrix=[[0] * 9]), "two distinct junctions"),
    ],
)
def test_broken_structured3d_files_are_reported(tmp_path: Path, change, complaint: str) -> None:
    (path,) = published.structured3d(tmp_path)
    scene = json.loads(path.read_text())
    change(scene)
    path.write_text(json.dumps(scene))
    with pytest.raises(FormatError, match=complaint):
        read_structured3d(path)


def test_structured3d_with_invalid_json_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "annotation_3d.json"
    path.write_text('{"junctions":\n]')
    with pytest.raises(FormatError, match=r"annotation_3d.json:2: not JSON"):
        read_structured3d(path)
    with pytest.raises(FormatError, match="no scene_"):
        structured3d_scenes(tmp_path)


def test_semantic3d_clouds_by_station(tmp_path: Path) -> None:
    (tmp_path / "a.7z").touch()
    with pytest.raises(FormatError, match=r"unpack its 1 \.7z files"):
        semantic3d_clouds(tmp_path)
    for station in ("untermaederbrunnen_station1", "bildstein_station1"):
        (tmp_path / f"{station}_xyz_intensity_rgb.txt").touch()
        (tmp_path / f"{station}_xyz_intensity_rgb.labels").touch()
    assert list(semantic3d_clouds(tmp_path)) == ["bildstein_station1", "untermaederbrunnen_station1"]


def test_cells_hold_every_line_once(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    middle, arm = torch.randn(2, 400, 1, 3, generator=generator, dtype=torch.float64)
    lines = LineSet.from_segments(torch.cat([15 * middle - arm, 15 * middle + arm], 1))
    everything = list(split_into_cells(lines, 10.0, 1))
    assert sum(len(cell) for _, cell in everything) == 400
    for (column, row), cell in everything:
        place = cell.midpoints()[:, :2] / 10
        assert bool(((place >= torch.tensor([column, row])) & (place < torch.tensor([column + 1, row + 1]))).all())
    kept = list(split_into_cells(lines, 10.0, 20))
    assert [len(cell) for _, cell in kept] == [len(cell) for _, cell in everything if len(cell) >= 20]
    with pytest.raises(InputError, match="positive"):
        list(split_into_cells(lines, 0.0, 20))


def test_the_split_has_the_papers_sizes_and_depends_on_the_seed_alone() -> None:
    houses = [f"scene_{number:05d}" for number in range(3500)]
    split = split_names(houses, seed=0)
    assert list(split.values()).count("test") == 525
    assert list(split_names(houses[:1981], seed=0).values()).count("test") == 298
    assert split_names(houses[::-1], seed=0) == split
    assert split_names(houses, seed=1) != split


def test_apollo_frames_have_depth_and_pose(tmp_path: Path) -> None:
    published.apollo(tmp_path)
    ((name, frames),) = apollo_sequences(tmp_path).items()
    assert name == "Record001/Camera 5"
    assert [frame.depth.exists() for frame in frames] == [True] * 3
    assert frames[1].time - frames[0].time == pytest.approx(1.0)
    first, second = (frame.world_T_sensor for frame in frames[:2])
    assert (first.inverse() @ second).translation.tolist() == pytest.approx([0, 0, 1])  # forward
    assert (1 / frames[0].depth_unit, frames[0].intrinsics[0]) == (200, pytest.approx(2304.548, abs=1e-3))


def test_apollo_without_depth_or_with_a_broken_pose(tmp_path: Path) -> None:
    published.apollo(tmp_path)
    poses = next(tmp_path.glob("**/pose.txt"))
    whole = poses.read_text()
    poses.write_text(whole.replace("-1.000000", "-7.000000", 1))
    with pytest.raises(FormatError, match=r"pose.txt:1: .* rotation"):
        apollo_sequences(tmp_path)
    poses.write_text("1 2 3\n")
    with pytest.raises(FormatError, match=r"pose.txt:1: expected sixteen"):
        apollo_sequences(tmp_path)
    poses.write_text(whole)
    next(tmp_path.glob("**/*.png")).unlink()
    (frames,) = apollo_sequences(tmp_path).values()
    assert frames[0] == MissingFrame("170927_063811892_Camera_5", "no depth image")
    shutil.rmtree(tmp_path / "road02_ins_depth")
    with pytest.raises(FormatError, match="neither road02_ins/Depth nor road02_ins_depth/Depth"):
        apollo_sequences(tmp_path)
    shutil.copytree(tmp_path / "road02_ins", tmp_path / "road03_ins")
    with pytest.raises(FormatError, match="name one of road02_ins, road03_ins"):
        apollo_sequences(tmp_path)


@pytest.mark.parametrize("listed", [True, False])
def test_tum_frames_are_associated_in_time(tmp_path: Path, listed: bool) -> None:
    folder = published.tum(tmp_path / "rgbd_dataset_freiburg1_desk", listed)
    frames = tum_sequence(folder)
    assert [(frame.colour.name, frame.depth.name) for frame in frames] == [("0.png", "0.png"), ("1.png", "1.png")]
    assert frames[0].intrinsics == (517.3, 516.5, 318.6, 255.3)
    # Interpolated between two recorded poses.
    assert frames[1].world_T_sensor.translation.tolist() == pytest.approx([10.033, 2, 3])
    shifted = tum_sequence(folder, time_offset=-0.004)
    assert shifted[1].world_T_sensor.translation.tolist() == pytest.approx([10.029, 2, 3])
    assert frames[0].world_T_sensor.rotation[1, 0] == pytest.approx(1.0)  # qz = qw: a quarter turn about z


def test_tum_frames_outside_the_recorded_times_have_no_pose(tmp_path: Path) -> None:
    folder = published.tum(tmp_path, listed=True)
    (folder / "groundtruth.txt").write_text("10.0 0 0 0 0 0 0 1\n")
    assert [frame.world_T_sensor is None for frame in tum_sequence(folder)] == [False, True]
    (folder / "groundtruth.txt").unlink()
    assert [frame.world_T_sensor for frame in tum_sequence(folder)] == [None, None]


def test_seven_scenes_frames(tmp_path: Path) -> None:
    frames = seven_scenes_sequence(published.seven_scenes(tmp_path))
    assert [frame.time for frame in frames] == [0.0, 1.0]
    assert float(frames[0].world_T_sensor.angle_to(frames[1].world_T_sensor)) == pytest.approx(0.1, abs=1e-6)
    (tmp_path / "camera-intrinsics.txt").write_text("500 0 300\n0 510 200\n0 0 1\n")
    assert seven_scenes_sequence(tmp_path)[0].intrinsics == (500, 510, 300, 200)
    (tmp_path / "frame-000001.color.png").unlink()
    with pytest.raises(FormatError, match=r"no frame-000001.color"):
        seven_scenes_sequence(tmp_path)


def test_kitti_scans_are_where_the_scanner_was(tmp_path: Path) -> None:
    frames = kitti_sequence(published.kitti(tmp_path))
    assert [frame.time for frame in frames] == pytest.approx([0, 0.1, 0.2])
    # Forward is z of the camera and x of the scanner; the pose of the scanner is that of the camera times Tr.
    step = frames[0].world_T_sensor.inverse() @ frames[1].world_T_sensor
    assert step.translation.tolist() == pytest.approx([1, 0, 0])
    assert frames[0].world_T_sensor.translation.tolist() == pytest.approx([0.1, -0.2, -0.3])


def test_kitti_with_too_few_poses(tmp_path: Path) -> None:
    sequence = published.kitti(tmp_path)
    poses = tmp_path / "poses" / "07.txt"
    poses.write_text(poses.read_text().splitlines()[0])
    with pytest.raises(FormatError, match="expected 3 poses, found 1"):
        kitti_sequence(sequence)
    poses.unlink()
    assert [frame.world_T_sensor for frame in kitti_sequence(sequence)] == [None] * 3


def test_the_layout_is_recognised_from_the_files(tmp_path: Path) -> None:
    published.tum(tmp_path / "tum", listed=False)
    (tmp_path / "7s").mkdir()
    published.seven_scenes(tmp_path / "7s")
    sequence = published.kitti(tmp_path)
    (tmp_path / "maps").mkdir()
    endpoints = torch.rand(3, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name in ("b", "a"):
        write_lines(tmp_path / "maps" / f"{name}.npz", LineSet.from_segments(endpoints))
    kinds = [type(open_sequence(folder)[0]).__name__ for folder in (tmp_path / "tum", tmp_path / "7s", sequence)]
    assert kinds == ["CameraFrame", "CameraFrame", "CloudFrame"]
    assert [frame.name for frame in open_sequence(tmp_path / "maps")] == ["a", "b"]
    with pytest.raises(FormatError, match="no frames"):
        open_sequence(tmp_path / "tum" / "rgb")
    with pytest.raises(InputError, match="unknown layout"):
        open_sequence(tmp_path, "rosbag")


def test_authors_pairs_are_consistent(tmp_path: Path) -> None:
    published.authors(tmp_path / "structured3D_train")
    published.authors(tmp_path / "structured3D_valid", count=1)
    train, valid = authors_folders(tmp_path)
    pairs = read_authors_pairs(train)
    assert [entry.name for entry in pairs] == [f"structured3D_train_{place:05d}" for place in range(3)]
    assert ({entry.split for entry in pairs}, read_authors_pairs(valid)[0].split) == ({"train"}, "test")
    for pair in (entry.pair for entry in pairs):
        moved = pair.target_T_source @ pair.source[pair.matches[:, 0]]
        torch.testing.assert_close(moved.pluecker(), pair.target[pair.matches[:, 1]].pluecker(), atol=1e-5, rtol=0)


def test_authors_pairs_in_parts(tmp_path: Path) -> None:
    folder = published.authors(tmp_path / "scenecity3D_train", count=2)
    for path in list(folder.glob("*.pkl")):
        for place, array in enumerate(pickle.loads(path.read_bytes())):
            (folder / f"{path.stem}_part{place + 1}.pkl").write_bytes(pickle.dumps([array]))
        path.unlink()
    assert len(read_authors_pairs(folder)) == 2


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("plucker1", lambda arrays: [array[:, [3, 4, 5, 0, 1, 2]] for array in arrays], r"found \(direction, moment\)"),
        ("plucker2", lambda arrays: [2 * array for array in arrays], "not of unit length"),
        ("plucker2", lambda arrays: [array[:, :5] for array in arrays], r"expected \(n, 6\)"),
        ("matches", lambda arrays: [array + 5 for array in arrays], "out of range"),
        ("matches", lambda arrays: [array.T for array in arrays], r"expected row numbers \(2, k\)"),
        ("R_gt", lambda arrays: [-array for array in arrays], "rotation"),
        ("t_gt", lambda arrays: arrays[:1], "lists of equal length"),
    ],
)
def test_inconsistent_authors_pairs_are_refused(tmp_path: Path, name: str, change, complaint: str) -> None:
    folder = published.authors(tmp_path / "semantic3D_valid", count=2)
    path = folder / f"{name}.pkl"
    path.write_bytes(pickle.dumps(change([np.asarray(array) for array in pickle.loads(path.read_bytes())])))
    with pytest.raises(FormatError, match=complaint):
        read_authors_pairs(folder)


@pytest.mark.parametrize("name", ["/etc/hostname", "../other.png", "a/../../b.png"])
def test_a_list_of_images_does_not_lead_to_other_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "associations.txt").write_text(f"0 rgb/a.png 0 {name}\n")
    with pytest.raises(FormatError, match="not in the folder"):
        tum_sequence(tmp_path)
    (tmp_path / "associations.txt").write_text("nan rgb/a.png 0 depth/a.png\n")
    with pytest.raises(FormatError, match="time in seconds"):
        tum_sequence(tmp_path)
