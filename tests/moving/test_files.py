"""Moved files hold the moved points and everything else as it was."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.io.samples import line_set
from tests.io.test_limap2 import TRACKS, model

from plueckernet.errors import FormatError, InputError
from plueckernet.extraction.clouds import read_points
from plueckernet.geometry import Pose, Similarity
from plueckernet.io import read_lines, write_lines
from plueckernet.io.limap2 import read_tracks
from plueckernet.io.source import Source
from plueckernet.io.trajectories import (
    Trajectory,
    read_kitti_trajectory,
    read_tum_trajectory,
    write_kitti_trajectory,
    write_tum_trajectory,
)
from plueckernet.moving import move_file

POSE = Pose.random(generator=torch.Generator().manual_seed(0))
TO_MAP = Pose(POSE.rotation, torch.tensor([458870.25, 5438250.5, 110.125], dtype=torch.float64))
ENDS = np.random.default_rng(0).normal(size=(9, 2, 3))
POINTS = np.random.default_rng(1).normal(size=(50, 3)) * 20


@pytest.mark.parametrize("pose", [POSE, TO_MAP], ids=["near", "map"])
@pytest.mark.parametrize("suffix", ["obj", "ply", "npy", "npz", "csv", "txt", "dxf"])
def test_lines(tmp_path: Path, suffix: str, pose: Pose) -> None:
    write_lines(tmp_path / f"a.{suffix}", ENDS)
    assert move_file(tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", pose) == []
    back = read_lines(tmp_path / f"b.{suffix}")
    np.testing.assert_allclose(back.endpoints, (pose @ line_set(ENDS)).endpoints, rtol=0, atol=1e-8)
    move_file(tmp_path / f"b.{suffix}", tmp_path / f"c.{suffix}", pose.inverse())
    np.testing.assert_allclose(read_lines(tmp_path / f"c.{suffix}").endpoints, ENDS, rtol=0, atol=1e-8)


def test_noise_and_ids_stay_with_lines(tmp_path: Path) -> None:
    lines = line_set(ENDS).replaced(sigma=torch.linspace(1, 2, 9, dtype=torch.float64), ids=torch.arange(9) + 4)
    write_lines(tmp_path / "a.npz", lines)
    move_file(tmp_path / "a.npz", tmp_path / "b.npz", POSE)
    back = read_lines(tmp_path / "b.npz")
    assert torch.equal(back.ids, lines.ids)
    assert torch.equal(back.sigma, lines.sigma)


def test_what_supports_a_line_stays(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("2 0 0 0 1 0 0 2 0 0 3 0 0 1 7 8 10.5 11 12 13\n1 5 5 5 6 6 6 0\n")
    move_file(tmp_path / "a.txt", tmp_path / "b.txt", POSE)
    rows = [row.split() for row in (tmp_path / "b.txt").read_text().splitlines()]
    assert rows[0][13:] == ["1", "7", "8", "10.5", "11", "12", "13"]
    expected = POSE @ np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0.0]])
    np.testing.assert_allclose(np.array(rows[0][1:13], float).reshape(-1, 3), expected)
    (tmp_path / "tracks.txt").write_text("1\n4 2 1\n0 0 0\n1 0 0\n5 6\n7 8\n")
    move_file(tmp_path / "tracks.txt", tmp_path / "moved.txt", POSE)
    moved = (tmp_path / "moved.txt").read_text().splitlines()
    assert moved[:2] == ["1", "4 2 1"]
    assert moved[4:] == ["5 6", "7 8"]
    np.testing.assert_allclose([float(word) for word in moved[3].split()], POSE @ [1.0, 0, 0])


def test_a_folder_of_tracks(tmp_path: Path) -> None:
    (tmp_path / "tracks").mkdir()
    (tmp_path / "tracks" / "track_3.txt").write_text("0 0 0 1 0 0\n1 1\nimage_id_list 4\n")
    move_file(tmp_path / "tracks", tmp_path / "moved", POSE)
    text = (tmp_path / "moved" / "track_3.txt").read_text()
    assert text.splitlines()[1:] == ["1 1", "image_id_list 4"]
    np.testing.assert_allclose(np.array(text.split()[3:6], float), POSE @ [1.0, 0, 0])


@pytest.mark.parametrize("suffix", [".bin", ".txt"])
def test_lines_of_limap(tmp_path: Path, suffix: str) -> None:
    folder = model(tmp_path / "model", suffix)
    move_file(folder, tmp_path / "moved", Similarity.from_pose(POSE, 2.0))
    moved = read_tracks(Source(tmp_path / "moved" / "structures" / f"lines3D{suffix}"))
    assert [track.support for track in moved] == [track.support for track in TRACKS]
    assert [track.uncertainty for track in moved] == [0.5, -1.0, 1.5]
    np.testing.assert_allclose(moved[0].ends[3:], Similarity.from_pose(POSE, 2.0) @ [1.0, 2.0, 3.0])


@pytest.mark.parametrize("pose", [POSE, TO_MAP], ids=["near", "map"])
@pytest.mark.parametrize("suffix", ["las", "laz"])
def test_las_keeps_attributes_and_precision(tmp_path: Path, suffix: str, pose: Pose) -> None:
    laspy = pytest.importorskip("laspy")
    cloud = laspy.create(point_format=3, file_version="1.2")
    cloud.header.scales, cloud.header.offsets = [0.0001] * 3, [0.0] * 3
    cloud.xyz, cloud.intensity = POINTS, np.arange(50)
    cloud.write(tmp_path / f"a.{suffix}")
    assert move_file(tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", pose) == []
    back = laspy.read(tmp_path / f"b.{suffix}")
    np.testing.assert_allclose(back.xyz, pose @ cloud.xyz, rtol=0, atol=0.00006)
    np.testing.assert_array_equal(back.intensity, np.arange(50))
    np.testing.assert_allclose(back.header.offsets, (pose @ POINTS).mean(0), atol=60)


def test_e57_keeps_points_in_the_frame_of_their_scan(tmp_path: Path) -> None:
    pye57 = pytest.importorskip("pye57")
    file = pye57.E57(str(tmp_path / "a.e57"), mode="w")
    columns = {f"cartesian{axis}": POINTS[:, place] for place, axis in enumerate("XYZ")}
    columns["intensity"] = np.linspace(0, 1, 50)
    file.write_scan_raw(columns, rotation=POSE.quaternion().numpy(), translation=POSE.translation.numpy())
    file.close()
    assert move_file(tmp_path / "a.e57", tmp_path / "b.e57", TO_MAP) == []
    np.testing.assert_allclose(read_points(tmp_path / "b.e57"), TO_MAP @ (POSE @ POINTS), rtol=0, atol=1e-5)
    raw = pye57.E57(str(tmp_path / "b.e57")).read_scan_raw(0)
    np.testing.assert_allclose(raw["intensity"], np.linspace(0, 1, 50), atol=1e-6)


PLY = """ply
format {kind} 1.0
element vertex 50
property {type} x
property {type} y
property {type} z
property float nx
property float ny
property float nz
property uchar red
element face 1
property list uchar int vertex_indices
end_header
"""


@pytest.mark.parametrize("kind", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("pose", [POSE, TO_MAP], ids=["near", "map"])
def test_ply_keeps_faces_and_turns_normals(tmp_path: Path, kind: str, pose: Pose) -> None:
    plyfile = pytest.importorskip("plyfile")
    order = ">" if "big" in kind else "<"
    layout = [(name, order + "f4") for name in ("x", "y", "z", "nx", "ny", "nz")] + [("red", "u1")]
    table = np.zeros(50, layout)
    for place, axis in enumerate("xyz"):
        table[axis], table["n" + axis] = POINTS[:, place], [0.0, 0.6, 0.8][place]
    table["red"] = np.arange(50)
    header = PLY.format(kind=kind, type="float")
    if kind == "ascii":
        rows = "".join(" ".join(f"{float(v):.9g}" for v in list(row)[:-1]) + f" {row['red']}\n" for row in table)
        (tmp_path / "a.ply").write_text(header + rows + "3 0 1 2\n")
    else:
        face = bytes([3]) + np.array([0, 1, 2], order + "i4").tobytes()
        (tmp_path / "a.ply").write_bytes(header.encode() + table.tobytes() + face)
    assert move_file(tmp_path / "a.ply", tmp_path / "b.ply", pose) == []
    back = plyfile.PlyData.read(tmp_path / "b.ply")
    expected = pose @ np.stack([table[axis] for axis in "xyz"], axis=1).astype(float)
    if kind != "ascii":  # plyfile reads the rows of ASCII as the type of the header says, which stays float
        moved = np.stack([back["vertex"][axis] for axis in "xyz"], axis=1).astype(float)
        np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-5 if pose is POSE else 1e-7)
    np.testing.assert_allclose(read_points(tmp_path / "b.ply"), expected, rtol=0, atol=1e-5)
    normal = np.array([back["vertex"][axis][0] for axis in ("nx", "ny", "nz")])
    np.testing.assert_allclose(normal, pose.rotation @ torch.tensor([0.0, 0.6, 0.8]).double(), atol=1e-6)
    np.testing.assert_array_equal(back["vertex"]["red"], np.arange(50))
    assert back["face"]["vertex_indices"][0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["ascii", "binary"])
@pytest.mark.parametrize("pose", [POSE, TO_MAP], ids=["near", "map"])
def test_pcd_moves_points_and_viewpoint(tmp_path: Path, kind: str, pose: Pose) -> None:
    head = (
        "# .PCD v0.7\nVERSION 0.7\nFIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\n"
        f"WIDTH 50\nHEIGHT 1\nVIEWPOINT 1 2 3 1 0 0 0\nPOINTS 50\nDATA {kind}\n"
    )
    rows = np.concatenate([POINTS, np.arange(50.0)[:, None]], axis=1).astype("<f4")
    body = (
        rows.tobytes() if kind == "binary" else "".join(" ".join(map(repr, r)) + "\n" for r in rows.tolist()).encode()
    )
    (tmp_path / "a.pcd").write_bytes(head.encode() + body)
    assert move_file(tmp_path / "a.pcd", tmp_path / "b.pcd", pose) == []
    moved = read_points(tmp_path / "b.pcd")
    np.testing.assert_allclose(moved, pose @ rows[:, :3].astype(float), rtol=0, atol=1e-5)
    text = (tmp_path / "b.pcd").read_bytes()[:600].decode("ascii", errors="replace")
    viewpoint = next(line for line in text.splitlines() if line.startswith("VIEWPOINT")).split()[1:]
    np.testing.assert_allclose(np.array(viewpoint[:3], float), pose @ [1.0, 2.0, 3.0])
    turned = torch.tensor([float(word) for word in viewpoint[3:]], dtype=torch.float64)
    torch.testing.assert_close(turned, pose.quaternion())


@pytest.mark.parametrize(
    "text",
    ["{0} {1} {2} 7 8\n", "{0},{1},{2},7,8\n", "# a comment\n{0} {1} {2} 7 8\n", "1\n{0} {1} {2} 7 8\n"],
    ids=["blanks", "commas", "comment", "pts"],
)
def test_text_clouds_keep_other_columns(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.xyz").write_text(text.format(1.5, 2.5, 3.5))
    move_file(tmp_path / "a.xyz", tmp_path / "b.xyz", TO_MAP)
    last = (tmp_path / "b.xyz").read_text().splitlines()[-1].replace(",", " ").split()
    assert last[3:] == ["7", "8"]
    np.testing.assert_allclose(np.array(last[:3], float), TO_MAP @ [1.5, 2.5, 3.5], rtol=0, atol=1e-8)


def test_normals_of_text_clouds_turn(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,z,nx,ny,nz\n1 , 2 , 3 ,0,0.6,0.8\n")
    move_file(tmp_path / "a.csv", tmp_path / "b.csv", POSE)
    head, row = (tmp_path / "b.csv").read_text().splitlines()
    values = np.array(row.split(","), float)
    assert head == "x,y,z,nx,ny,nz"
    np.testing.assert_allclose(values[:3], POSE @ [1.0, 2, 3])
    np.testing.assert_allclose(values[3:], POSE.rotation @ torch.tensor([0, 0.6, 0.8], dtype=torch.float64))


def test_named_columns_are_moved_wherever_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,z2,x1,y1,z1,x2,y2\nwall,6,1,2,3,4,5\n")
    move_file(tmp_path / "a.csv", tmp_path / "b.csv", POSE)
    head, row = (tmp_path / "b.csv").read_text().splitlines()
    assert head == "id,z2,x1,y1,z1,x2,y2"
    assert row.startswith("wall,")
    np.testing.assert_allclose(read_lines(tmp_path / "b.csv").endpoints[0], POSE @ [[1.0, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_of_points(tmp_path: Path, kind: type) -> None:
    np.save(tmp_path / "a.npy", np.concatenate([POINTS, POINTS[:, :1]], axis=1).astype(kind))
    move_file(tmp_path / "a.npy", tmp_path / "b.npy", TO_MAP)
    back = np.load(tmp_path / "b.npy")
    assert back.dtype == np.float64
    np.testing.assert_allclose(back[:, :3], TO_MAP @ POINTS.astype(kind), rtol=0, atol=1e-8)
    np.testing.assert_array_equal(back[:, 3], POINTS[:, 0].astype(kind))


def test_kitti_scans_say_when_they_are_rounded(tmp_path: Path) -> None:
    rows = np.concatenate([POINTS, np.abs(POINTS[:, :1])], axis=1).astype("<f4")  # reflectance is not negative
    rows.tofile(tmp_path / "a.bin")
    assert move_file(tmp_path / "a.bin", tmp_path / "b.bin", POSE) == []
    assert "float32" in move_file(tmp_path / "a.bin", tmp_path / "c.bin", TO_MAP)[0]
    np.testing.assert_allclose(read_points(tmp_path / "b.bin"), POSE @ POINTS, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("write", "read"),
    [(write_tum_trajectory, read_tum_trajectory), (write_kitti_trajectory, read_kitti_trajectory)],
)
def test_trajectories(tmp_path: Path, write, read) -> None:
    poses = Pose.random(6, generator=torch.Generator().manual_seed(2))
    write(tmp_path / "a.txt", Trajectory(torch.arange(6, dtype=torch.float64), poses))
    assert move_file(tmp_path / "a.txt", tmp_path / "b.txt", TO_MAP) == []
    moved = read(tmp_path / "b.txt").world_T_sensor
    torch.testing.assert_close(moved.matrix(), (TO_MAP @ poses).matrix(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("suffix", ["stl", "glb", "off"])
def test_meshes(tmp_path: Path, suffix: str) -> None:
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.box().export(tmp_path / f"a.{suffix}")
    move_file(tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", POSE)
    original, moved = (trimesh.load(tmp_path / f"{name}.{suffix}", force="mesh") for name in "ab")
    np.testing.assert_allclose(moved.centroid, POSE.translation, atol=1e-6)
    np.testing.assert_allclose(moved.area, original.area, rtol=1e-6)


def test_faces_of_obj_stay(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text("# wall\nmtllib wall.mtl\nv 0 0 0 0.5 0.5 0.5\nv 1 0 0\nv 0 1 0\nf 1 2 3\nl 1 2\n")
    move_file(tmp_path / "a.obj", tmp_path / "b.obj", POSE)
    lines = (tmp_path / "b.obj").read_text().splitlines()
    assert lines[:2] == ["# wall", "mtllib wall.mtl"]
    assert lines[2].endswith(" 0.5 0.5 0.5")
    assert lines[5:] == ["f 1 2 3", "l 1 2"]


def test_only_the_vertices_are_promoted(tmp_path: Path) -> None:
    """Whole numbers become doubles, other elements and properties stay."""
    header = (
        "ply\nformat binary_little_endian 1.0\nelement camera 1\nproperty float x\nelement vertex 2\nproperty int x\n"
        "property int y\nproperty int z\nproperty float xy\nend_header\n"
    )
    body = np.float32(7).tobytes() + b"".join(
        np.int32(row).tobytes() + np.float32(5).tobytes() for row in np.eye(3)[:2]
    )
    (tmp_path / "a.ply").write_bytes(header.encode() + body)
    move_file(tmp_path / "a.ply", tmp_path / "b.ply", POSE)
    np.testing.assert_allclose(read_points(tmp_path / "b.ply"), POSE @ np.eye(3)[:2], atol=1e-12)
    moved = (tmp_path / "b.ply").read_bytes()
    assert b"element camera 1\nproperty float x\nelement vertex 2\nproperty double x\n" in moved
    assert moved.endswith(np.float32(5).tobytes())


def test_blank_lines_of_ply_are_no_vertices(tmp_path: Path) -> None:
    header = PLY.format(kind="ascii", type="float").replace("vertex 50", "vertex 3")
    (tmp_path / "a.ply").write_text(header + "\n" + "1 2 3 0 0 1 9\n" * 3 + "3 0 1 2\n")
    move_file(tmp_path / "a.ply", tmp_path / "b.ply", POSE)
    np.testing.assert_allclose(read_points(tmp_path / "b.ply"), POSE @ np.array([[1.0, 2, 3]] * 3), atol=1e-12)
    assert (tmp_path / "b.ply").read_text().endswith("\n3 0 1 2\n")


@pytest.mark.parametrize("name", ["a.xyz", "a.txt"])
def test_rows_that_cannot_be_moved_are_not_copied(tmp_path: Path, name: str) -> None:
    columns = 3 if name == "a.xyz" else 6
    (tmp_path / name).write_text(f"{'1 ' * columns}\n{'2 ' * columns}\n{'1,5 ' * columns}\n")
    with pytest.raises(FormatError, match=f"{name}:3: expected"):
        move_file(tmp_path / name, tmp_path / f"moved-{name}", POSE)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_folder_that_has_the_input_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a" / "a").mkdir(parents=True)
    (tmp_path / "a" / "a" / "track_3.txt").write_text("0 0 0 1 0 0\n")
    with pytest.raises(InputError, match="its own input"):
        move_file(tmp_path / "a" / "a", tmp_path / "a", POSE)


def test_what_cannot_be_moved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        move_file(tmp_path / "a.obj", tmp_path / "b.obj", POSE)
    (tmp_path / "a.json").write_text('{"type": "CityJSON"}')
    with pytest.raises(FormatError, match="cityjson can only be read"):
        move_file(tmp_path / "a.json", tmp_path / "b.json", POSE)
    with pytest.raises(InputError, match="its own input"):
        move_file(tmp_path / "a.json", tmp_path / "a.json", POSE)
    with pytest.raises(InputError, match="unknown format 'cake'; known: npy"):
        move_file(tmp_path / "a.json", tmp_path / "b.json", POSE, format="cake")
    (tmp_path / "a.las").write_bytes(b"LASF" + bytes(50))
    with pytest.raises(FormatError, match="not readable as LAS"):
        move_file(tmp_path / "a.las", tmp_path / "b.las", POSE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.las"]


def test_the_format_that_is_named_decides(tmp_path: Path) -> None:
    rows = np.arange(18.0).reshape(3, 6) + np.eye(3, 6)
    np.savetxt(tmp_path / "a.txt", rows)
    move_file(tmp_path / "a.txt", tmp_path / "lines.txt", POSE)
    move_file(tmp_path / "a.txt", tmp_path / "points.txt", POSE, "TEXT")
    lines, points = np.loadtxt(tmp_path / "lines.txt"), np.loadtxt(tmp_path / "points.txt")
    np.testing.assert_allclose(lines, (POSE @ rows.reshape(-1, 3)).reshape(-1, 6), atol=1e-12)
    np.testing.assert_allclose(points[:, :3], POSE @ rows[:, :3], atol=1e-12)
    np.testing.assert_allclose(points[:, 3:], rows[:, 3:])  # such as colours
    with pytest.raises(FormatError, match=r"a.txt:1: expected 8 numbers"):
        move_file(tmp_path / "a.txt", tmp_path / "b.txt", POSE, "tum")
