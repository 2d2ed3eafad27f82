"""`plueckernet apply` and `refine`, and what all commands do before they start their work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.synthetic_clouds import boxes, dense
from tests.cli.helpers import chaos, house, run

from plueckernet import RegistrationResult, register
from plueckernet.errors import FormatError
from plueckernet.geometry import Pose
from plueckernet.io import read_lines, write_lines
from plueckernet.io.matrices import read_matrix, write_matrix

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)


@pytest.fixture(scope="module")
def result() -> RegistrationResult:
    return register(house(), TRUTH @ house(), matcher="descriptors")


@pytest.fixture
def maps(tmp_path: Path, result: RegistrationResult) -> Path:
    """A folder with two maps and their result."""
    write_lines(tmp_path / "a.obj", house())
    write_lines(tmp_path / "b.txt", TRUTH @ house())
    result.save(tmp_path / "result.json")
    return tmp_path


def test_apply_moves_files_and_writes_the_matrix(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savetxt(maps / "cloud.xyz", house().midpoints().numpy())
    out = maps / "moved"
    assert run("apply", maps / "result.json", maps / "a.obj", maps / "cloud.xyz", "--out", out) == 0
    assert "the pose as a matrix" in capsys.readouterr().err
    expected = read_lines(maps / "b.txt").endpoints
    torch.testing.assert_close(read_lines(out / "a.obj").endpoints, expected, atol=1e-5, rtol=0)
    np.testing.assert_allclose(np.loadtxt(out / "cloud.xyz"), TRUTH @ house().midpoints(), atol=1e-5)
    np.testing.assert_allclose(np.loadtxt(out / "target_T_source.txt"), TRUTH.matrix(), atol=1e-5)


def test_apply_inverse_goes_back(maps: Path) -> None:
    matrix = maps / "pose.txt"
    write_matrix(matrix, TRUTH)
    assert run("apply", matrix, maps / "b.txt", "--out", maps / "back", "--inverse", "-q") == 0
    torch.testing.assert_close(read_lines(maps / "back" / "b.txt").endpoints, house().endpoints, atol=1e-9, rtol=0)
    torch.testing.assert_close(read_matrix(maps / "back" / "source_T_target.txt").matrix(), TRUTH.inverse().matrix())


def test_apply_refuses_before_it_starts(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (maps / "other").mkdir()
    write_lines(maps / "other" / "a.obj", house())
    cases = [
        ((maps / "a.obj", "--out", maps), "would replace its own input"),
        ((maps / "a.obj", maps / "other" / "a.obj", "--out", maps / "out"), "two files are named a.obj"),
        ((maps / "a.obj", maps / "missing.obj", "--out", maps / "out"), "missing.obj: no such file"),
        ((maps / "a.obj", "--out", maps / "a.obj"), "cannot be created"),
    ]
    for arguments, complaint in cases:
        assert run("apply", maps / "result.json", *arguments) == 2
        assert complaint in capsys.readouterr().err
    assert not (maps / "out").exists()


def test_a_failed_registration_has_nothing_to_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = register(chaos(30, seed=1), chaos(30, seed=2), matcher="descriptors")
    failed.save(tmp_path / "result.json")
    write_lines(tmp_path / "a.obj", house())
    assert run("apply", tmp_path / "result.json", tmp_path / "a.obj", "--out", tmp_path / "out") == 2
    assert "this registration has no pose" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 0 0 0\n0 1 0 0\n0 0 1 0\n", "four rows of four numbers"),
        ("1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 2\n", "the last of them 0 0 0 1"),
        ("2 0 0 0\n0 2 0 0\n0 0 3 0\n0 0 0 1\n", "not a rotation matrix"),
        ("1 0 0 x\n", ":1: expected a number"),
    ],
)
def test_matrices_are_checked(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "pose.txt").write_text(text)
    with pytest.raises(FormatError, match=reason):
        read_matrix(tmp_path / "pose.txt")


def test_matrices_come_back_exactly(tmp_path: Path) -> None:
    write_matrix(tmp_path / "pose.txt", TRUTH)
    assert torch.equal(read_matrix(tmp_path / "pose.txt").matrix(), TRUTH.matrix())


def test_refine_improves_a_rough_pose(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rough = Pose.exp(torch.tensor([0.003, 0.0, -0.003, 0.01, 0.01, 0.0], dtype=torch.float64)) @ TRUTH
    write_matrix(maps / "rough.txt", rough)
    options = ("--pose", maps / "rough.txt", "--json", maps / "refined.json", "--matcher", "descriptors")
    assert run("refine", maps / "a.obj", maps / "b.txt", *options) == 0
    assert "target_T_source" in capsys.readouterr().out
    refined = RegistrationResult.load(maps / "refined.json")
    torch.testing.assert_close(refined.target_T_source.matrix(), TRUTH.matrix(), atol=1e-5, rtol=0)


def test_settings_and_matcher_of_register(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("register", maps / "a.obj", maps / "b.txt", "--json", maps / "r.json", "--matcher", "descriptors", "-q")
    assert (
        run(*command, "--set", "max_lines=80", "--set", "judgement.min_inliers=7", "--set", "inlier_distance=0.2") == 0
    )
    settings = RegistrationResult.load(maps / "r.json").settings
    assert (settings["max_lines"], settings["judgement"]["min_inliers"]) == (80, 7)
    assert settings["inlier_distance"] == pytest.approx(0.2)
    for setting, complaint in [
        ("max_line=80", "unknown setting 'max_line'; available: directed, inlier_distance"),
        ("judgement=3", "judgement has settings of its own: min_confidence"),
        ("max_lines.x=3", "max_lines has no settings of its own"),
        ("max_lines=many", "expected int, got 'many'"),
        ("max_lines=2", "expected a number of at least 3"),
        ("max_lines", "expected name=value"),
    ]:
        assert run(*command, "--set", setting) == 2
        assert complaint in capsys.readouterr().err


def test_a_folder_of_weights_says_how_to_export(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (maps / "runs").mkdir()
    assert run("register", maps / "a.obj", maps / "b.txt", "--matcher", maps / "runs") == 2
    assert f"plueckernet weights export {maps / 'runs'} --out FOLDER" in capsys.readouterr().err


def test_formats_are_named_once_or_for_each_file(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("register", maps / "a.obj", maps / "b.txt", "--matcher", "descriptors", "-q")
    assert run(*command, "--from", "obj", "--from", "txt") == 0
    assert run(*command, "--from", "txt") == 2
    assert "a.obj" in capsys.readouterr().err
    assert run(*command, *["--from", "txt"] * 3) == 2
    assert "one for each of the files" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--json", "--aligned", "--report", "--plot"])
def test_outputs_are_checked_before_the_work(
    maps: Path, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("plueckernet.registration.register", lambda *_, **__: pytest.fail("the work has started"))
    command = ("register", maps / "a.obj", maps / "b.txt", option)
    for path, complaint in [
        (maps / "missing" / "out.png", "no such folder"),
        (maps, "is a directory"),
        (maps / "a.obj", "is an input; --force replaces it"),
    ]:
        assert run(*command, path) == 2
        assert complaint in capsys.readouterr().err
    if option in ("--aligned", "--plot"):
        assert run(*command, maps / "out.docx") == 2
        assert "suffix" in capsys.readouterr().err


def test_an_input_is_replaced_only_by_force(maps: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (maps / "a.obj").read_bytes()
    assert run("convert", maps / "a.obj", maps / "a.obj") == 2
    assert "is an input; --force replaces it" in capsys.readouterr().err
    assert (maps / "a.obj").read_bytes() == before
    assert run("convert", maps / "a.obj", maps / "a.obj", "--force") == 0
    command = (
        "register",
        maps / "a.obj",
        maps / "b.txt",
        "--matcher",
        "descriptors",
        "-q",
        "--aligned",
        maps / "a.obj",
    )
    assert run(*command) == 2
    assert run(*command, "--force") == 0
    torch.testing.assert_close(
        read_lines(maps / "a.obj").endpoints, read_lines(maps / "b.txt").endpoints, atol=1e-5, rtol=0
    )


def test_clouds_are_extracted_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("scipy")
    rng = np.random.default_rng(0)
    points = dense(boxes(rng, count=4, room=3.0), 0.05, 0.003, rng)
    np.savetxt(tmp_path / "a.xyz", points)
    np.savetxt(tmp_path / "b.xyz", TRUTH @ points)
    assert run("register", tmp_path / "a.xyz", tmp_path / "b.xyz", "--json", tmp_path / "r.json") == 0
    captured = capsys.readouterr()
    assert f"{tmp_path / 'a.xyz'} is a point cloud: extracting its lines first" in captured.err
    assert "the lines were extracted from a point cloud" in captured.out
    pose = RegistrationResult.load(tmp_path / "r.json").target_T_source
    torch.testing.assert_close(pose.matrix(), TRUTH.matrix(), atol=0.01, rtol=0)


@pytest.mark.parametrize("head", [b"LASF", b"ASTM-E57", b"# .PCD v0.7\n"])
def test_a_cloud_read_as_lines_names_extract(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "scan").write_bytes(head + bytes(300))
    with pytest.raises(FormatError, match="a point cloud, not lines: `plueckernet extract`"):
        read_lines(tmp_path / "scan")


@pytest.mark.parametrize("arguments", [["-h"], ["register", "-h"], ["apply", "--help"]])
def test_python_m_and_short_help(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "plueckernet", *arguments]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Usage" in shown
    assert ("--install-completion" in shown) == (arguments == ["-h"])
