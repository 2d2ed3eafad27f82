"""Nothing wrong is accepted silently, and no error is somebody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.cli.helpers import MONDAY, house, run
from tests.hostile.files import pcd
from tests.training.tiny import SMALL

from plueckernet.errors import FormatError, InputError
from plueckernet.extraction import read_points
from plueckernet.extraction.extracted import SegmentArrays
from plueckernet.extraction.segments import merged
from plueckernet.geometry import LineSet
from plueckernet.io import read_lines, write_lines
from plueckernet.io.trajectories import read_kitti_trajectory, read_tum_trajectory
from plueckernet.models.weights import load_pretrained, pretrained_path
from plueckernet.registration import register

PLY = "ply\nformat binary_little_endian 1.0\nelement vertex 1\n"
POINTS = [
    ("a.pcd", pcd("ascii", b"1 2 3\n", count="COUNT 1 1 0"), "do not agree"),
    ("a.pcd", pcd("ascii", b"1 2 3\n", width="WIDTH"), "the number of points"),
    ("a.pcd", pcd("ascii", b"1 2 3\n", width="WIDTH -1"), "the number of points"),
    ("a.ply", f"{PLY}property float x\nproperty float x\nend_header\n".encode(), "for the second time"),
    ("a.ply", f"{PLY}element vertex 2\nproperty float x\nend_header\n".encode(), "for the second time"),
    ("a.ply", f"{PLY}property list float int x\nend_header\n".encode(), "length of a list"),
    ("a.vtk", b"# vtk DataFile Version 3.0\nx\nASCII\nPOINTS \xff float\n", "expected `POINTS"),
    ("a.vtk", b"# vtk DataFile Version 3.0\nx\nASCII\nPOINTS 1e3 float\n", "expected `POINTS"),
    ("a.npy", b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2,", "not an array"),
    ("a.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8',\n", "not an array"),
    ("a.xyz", b"1,5 2,5 3,5\n", "decimal commas, as in '1,5'"),
    ("a.csv", b"1.5;2.5;3,5\n", "a decimal point, not a comma"),
]


@pytest.mark.parametrize(("name", "content", "message"), POINTS)
def test_clouds_that_are_damaged(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_points(tmp_path / name)


@pytest.mark.parametrize(("content", "line"), [("# a\n1,5 2,5 3 4 5 6\n", 2), ("1,5;2,5;3,5;4,5;5,5;6,5\n", 1)])
def test_decimal_commas_are_named(tmp_path: Path, content: str, line: int) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(FormatError, match="decimal commas") as caught:
        read_lines(tmp_path / "a.txt")
    assert caught.value.line == line


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_trajectories_are_finite(tmp_path: Path, value: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(f"0 0 0 0 0 0 0 1\n1 {value} 0 0 0 0 0 1\n")
    with pytest.raises(FormatError, match=r"t\.txt:2: a number is not finite"):
        read_tum_trajectory(path)
    path.write_text(f"1 0 0 {value} 0 1 0 0 0 0 1 0\n")
    with pytest.raises(FormatError, match="not finite"):
        read_kitti_trajectory(path)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A copy of the shipped weights and their card."""
    shipped = pretrained_path("invariant")
    for suffix in (".safetensors", ".json"):
        (tmp_path / f"copy{suffix}").write_bytes(shipped.with_suffix(suffix).read_bytes())
    return tmp_path / "copy.safetensors"


def test_weights_are_finite(weights: Path) -> None:
    tensors = load_file(weights)
    next(iter(tensors.values())).view(-1)[0] = float("nan")
    save_file(tensors, weights)
    with pytest.raises(FormatError, match="not finite"):
        load_pretrained(weights)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 20_000}, "at most 64"),
        ({"layers": True}, "layers"),
        ({"layers": "12"}, "layers"),
        ({"heads": 0}, "heads"),
        ({"scale": "unknown"}, "scale"),
        ({"assignment": 3}, "assignment"),
        ({"sinkhorn": {"regularisation": -1}}, "regularisation"),
        ({"sinkhorn": 3}, "sinkhorn"),
        ({"network": "other"}, "unknown network"),
        ({"new": 1}, "new"),
    ],
)
def test_values_in_a_card_are_checked(weights: Path, change: dict[str, object], message: str) -> None:
    card = weights.with_suffix(".json")
    content = json.loads(card.read_text())
    content["architecture"] |= change
    card.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=message) as caught:
        load_pretrained(weights)
    assert caught.value.path == card


@pytest.mark.parametrize("text", ["[]", "{}", "[" * 50_000, "\xff", '{"name": 1e999}'])
def test_a_card_that_is_none(weights: Path, text: str) -> None:
    weights.with_suffix(".json").write_text(text, encoding="latin1")
    with pytest.raises(FormatError):
        load_pretrained(weights)


def test_an_error_about_a_file_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short.txt").write_text("0 0 0 1 0 0\n")
    assert run("register", tmp_path / "short.txt", MONDAY) == 2
    assert capsys.readouterr().err == f"error: {tmp_path / 'short.txt'}: it has 1 lines; at least three are needed\n"


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/map\xff.obj")
    write_lines(name, house())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8:strict"}
    report = tmp_path / "r.html"
    for arguments in (["info", name], ["register", name, name, "--report", str(report)], ["info", f"{name}x"]):
        command = [sys.executable, "-m", "plueckernet.cli", *arguments]
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        assert done.returncode == (2 if arguments[1].endswith("x") else 0), done.stderr
        assert b"Traceback" not in done.stderr
        said = b"".join(line.strip() for line in (done.stdout + done.stderr).splitlines())  # long names are wrapped
        assert b"\\udcff.obj" in said
    assert "map\\udcff.obj" in report.read_text()


def test_a_segment_without_length_is_our_error() -> None:
    lines = house()
    ends = lines.endpoints.clone()
    ends[3, 1] = ends[3, 0]
    with pytest.raises(InputError, match="source has segments without length: 1"):
        register(lines.replaced(endpoints=ends), lines)
    with pytest.raises(InputError, match="target has coordinates that are not finite"):
        register(lines, LineSet(lines.direction, lines.moment * float("nan")))


@pytest.mark.parametrize("offset", [1e10, 1e12])
def test_coordinates_far_from_the_origin_give_valid_json(tmp_path: Path, offset: float) -> None:
    shift = torch.full((3,), -offset, dtype=torch.float64)
    result = register(house().shifted(shift), house().shifted(shift))
    result.save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "success"


def test_segments_without_support_are_no_lines() -> None:
    ends = np.array([[[0, 0, 0], [1, 0, 0]], [[1.01, 0, 0], [2, 0, 0]], [[0, 5, 0], [1, 5, 0]]], dtype=np.float64)
    assert len(merged(SegmentArrays(ends, np.zeros(3, np.int64), np.ones(3)), 0.1)) == 0
    joined = merged(SegmentArrays(ends, np.array([3, 5, 0]), np.ones(3)), 0.1)
    assert joined.support.tolist() == [8]


# A limit on the size of files stands for a full disk: writing more than it fails in the same way.
FULL = """
import resource, sys
from plueckernet.cli import main
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main(sys.argv[2:])
"""


def on_full_disk(limit: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", FULL, str(limit), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a training of two steps."""
    folder: Path = tmp_path_factory.mktemp("training") / "run"
    assert run("train", "tiny", "--out", folder, "--quiet", *TINY, "--set", "train.steps=2") == 0
    return folder


TINY = [word for setting in SMALL for word in ("--set", setting)]


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, training: Path) -> None:
    kept = {path: path.read_bytes() for path in training.rglob("*.safetensors")}
    cloud = tmp_path / "cloud.npy"
    np.save(cloud, np.random.default_rng(0).random((3000, 3)))
    cases = [
        ["train", "tiny", "--out", training, "--resume", *TINY, "--set", "train.steps=3"],
        ["weights", "export", training, "--out", tmp_path / "weights"],
        ["convert", MONDAY, tmp_path / "out.obj"],
        ["extract", cloud, "--out", tmp_path / "lines.obj", "--tile-points", "10000"],
        ["reproduce", "translation", "--out", tmp_path / "results", "--limit", "1"],
    ]
    for arguments in cases:
        done = on_full_disk(1000, *arguments)
        assert done.returncode == 2, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
        assert done.stderr.splitlines()[-1].startswith("error: ")
    assert {path: path.read_bytes() for path in training.rglob("*.safetensors")} == kept
    assert not list(tmp_path.rglob("*.part"))
