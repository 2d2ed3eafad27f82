"""`plueckernet align` from files to files: the only test of many maps with real registrations."""

import json

import pytest
import torch
from tests.cli.helpers import chaos, house, run

from plueckernet.geometry import Pose
from plueckernet.io import read_lines, write_lines

TRUTH = [Pose.random(generator=torch.Generator().manual_seed(seed), translation=10.0) for seed in range(3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three moved pieces of a house, aligned, with control points."""
    folder = tmp_path_factory.mktemp("align")
    order = house().midpoints()[:, 0].argsort()
    for number, pose in enumerate(TRUTH):
        rows = order[10 * number : 10 * number + 70]
        write_lines(folder / f"m{number}.npz", pose @ house()[rows].replaced(ids=None))
    points = torch.tensor([[0, 0, 0], [5, 0, 0], [0, 5, 0], [2, 2, 3]], dtype=torch.float64)
    world = points + torch.tensor([4.0e5, 5.0e6, 300.0], dtype=torch.float64)
    rows = [
        f"P{row},m0,{','.join(map(repr, (TRUTH[0] @ points)[row].tolist()))},{','.join(map(repr, world[row].tolist()))}"
        for row in range(4)
    ]
    (folder / "points.csv").write_text("\n".join(rows))
    files = [folder / f"m{number}.npz" for number in range(3)]
    code = run("align", *files, "--out", folder / "out", "--matcher", "descriptors", "--control", folder / "points.csv")
    assert code == 0
    return folder


def test_poses_are_right(folder):
    document = json.loads((folder / "out" / "align.json").read_text())
    poses = {int(name[-5]): torch.tensor(matrix).double() for name, matrix in document["groups"][0]["maps"].items()}
    for number in (1, 2):
        estimated = torch.linalg.inv(poses[0]) @ poses[number]
        truth = (TRUTH[0] @ TRUTH[number].inverse()).matrix()
        assert torch.allclose(estimated, truth, atol=1e-3)
    assert all(edge["accepted"] for edge in document["edges"])


def test_the_merged_map_is_the_house_in_the_world(folder):
    lines = read_lines(folder / "out" / "group_1" / "merged_world.npz")
    expected = house()[house().midpoints()[:, 0].argsort()]
    middle = expected.midpoints().mean(0) + torch.tensor([4.0e5, 5.0e6, 300.0], dtype=torch.float64)
    assert len(lines) <= 1.1 * len(expected)
    assert float((lines.midpoints().mean(0) - middle).norm()) < 0.2
    world = json.loads((folder / "out" / "align.json").read_text())["groups"][0]["world"]
    assert world["rms"] < 1e-6
    assert [point["name"] for point in world["points"]] == ["P0", "P1", "P2", "P3"]


def test_the_report_has_the_graph(folder):
    page = (folder / "out" / "report.html").read_text()
    assert page.count('class="accepted"') == 3
    assert "3 maps in one frame" in page
    assert "http" not in page.replace("http-equiv", "")


def test_a_single_map_is_tied_to_the_world(folder, tmp_path):
    code = run("align", folder / "m0.npz", "--out", tmp_path, "--control", folder / "points.csv", "--no-report", "-q")
    assert code == 0
    assert (tmp_path / "group_1" / "merged_world.npz").exists()


def test_maps_apart_end_with_one_and_say_so(tmp_path, capsys):
    for seed in range(2):
        write_lines(tmp_path / f"{seed}.npz", chaos(8, seed))
    files = [tmp_path / f"{seed}.npz" for seed in range(2)]
    assert run("align", *files, "--out", tmp_path / "out", "--matcher", "descriptors") == 1
    assert "2 maps in 2 groups" in capsys.readouterr().out


def test_the_format_of_all_maps_can_be_given(tmp_path, capsys):
    write_lines(tmp_path / "a.npz", chaos(8, 0))
    assert run("align", tmp_path / "a.npz", "--out", tmp_path / "out", "--from", "obj") == 2
    assert "a.npz" in capsys.readouterr().err
    assert run("align", tmp_path / "a.npz", "--out", tmp_path / "out", "--from", "npz", "--no-report", "-q") == 0


def test_bad_input_ends_with_two(tmp_path, capsys):
    write_lines(tmp_path / "a.npz", chaos(8, 0))
    assert run("align", tmp_path / "a.npz", tmp_path / "a.npz", "--out", tmp_path) == 2
    assert "is given twice" in capsys.readouterr().err
    (tmp_path / "points.csv").write_text("P,1,2,3,4,5,6\n")
    assert run("align", tmp_path / "a.npz", "--out", tmp_path, "--control", tmp_path / "points.csv") == 2
    assert "at least three are needed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "problem", "aligned"),
    [
        ("P{0},b.npz,1,2,3,4,5,{0}\n", "no map is named 'b.npz'", False),  # found before the work
        ("P{0},{0},0,0,{0},0,0\n", "group 1: control points: in the map all 3 are on one line", True),
    ],
)
def test_bad_control_points_do_not_lose_the_alignment(tmp_path, capsys, row, problem, aligned):
    write_lines(tmp_path / "a.npz", chaos(8, 0))
    (tmp_path / "points.csv").write_text("".join(row.format(number) for number in range(3)))
    out = tmp_path / "out"
    assert run("align", tmp_path / "a.npz", "--out", out, "--control", tmp_path / "points.csv") == 2
    assert problem in capsys.readouterr().err
    assert (out / "align.json").exists() == aligned
