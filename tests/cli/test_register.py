"""`plueckernet register`, from the files to the exit code."""

from __future__ import annotations

import builtins
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.cli.helpers import chaos, house, run
from tests.io.buildings import house_gml

from plueckernet.cli.maps import ReadingOptions, read_maps
from plueckernet.errors import FormatError, InputError
from plueckernet.estimation.judgement import JudgementSettings
from plueckernet.geometry import Pose, Similarity
from plueckernet.io import read_lines, write_lines

KEYS = {
    "schema", "version", "status", "reason", "confidence", "target_T_source", "covariance", "sigmas", "num_lines",
    "num_matches", "num_inliers", "score", "noise", "matches", "inliers", "residuals", "alternatives", "timings",
    "evidence", "settings", "seed", "calibrated", "matcher", "centre", "warnings", "group",
    "unobservable", "exchangeable", "scale",
}  # fmt: skip


class Files(NamedTuple):
    source: Path
    target: Path
    truth: Pose


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """A house and the same house moved, in two formats."""
    truth = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)
    write_lines(tmp_path / "a.obj", house())
    write_lines(tmp_path / "b.txt", truth @ house())
    return Files(tmp_path / "a.obj", tmp_path / "b.txt", truth)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def test_registered(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "result.json", tmp_path / "aligned.ply"
    assert run("register", files.source, files.target, "--json", out[0], "--aligned", out[1]) == 0
    shown = capsys.readouterr().out
    for text in ("Registered", "confidence", "target_T_source", "rotation", "translation", "one sigma", "segments"):
        assert text in shown
    result = load(out[0])
    assert set(result) == KEYS
    assert (result["schema"], result["status"], result["seed"]) == (2, "success", 0)
    matrix = torch.tensor(result["target_T_source"], dtype=torch.float64)
    torch.testing.assert_close(matrix, files.truth.matrix(), atol=1e-6, rtol=0)
    assert torch.tensor(result["covariance"]).shape == (6, 6)
    assert result["num_inliers"] == len(result["inliers"]) == len(result["residuals"])
    assert result["num_matches"] == len(result["matches"])
    torch.testing.assert_close(read_lines(out[1]).endpoints, read_lines(files.target).endpoints, atol=1e-6, rtol=0)


def test_not_registered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(tmp_path / "a.npy", chaos(60, seed=1))
    write_lines(tmp_path / "b.npy", chaos(60, seed=2))
    out = tmp_path / "result.json", tmp_path / "aligned.obj"
    assert run("register", tmp_path / "a.npy", tmp_path / "b.npy", "--json", out[0], "--aligned", out[1]) == 1
    captured = capsys.readouterr()
    assert "Not registered" in captured.out
    assert "No pose was accepted" in captured.out
    assert "not written: there is no pose" in captured.err
    assert not out[1].exists()
    result = load(out[0])
    assert set(result) == KEYS
    assert (result["status"], result["target_T_source"], result["covariance"]) == ("failed", None, None)
    assert result["reason"]


def test_same_seed_same_result(files: Files, tmp_path: Path) -> None:
    results = []
    for name, seed in (("1.json", 3), ("2.json", 3)):
        assert run("register", files.source, files.target, "--seed", seed, "-q", "--json", tmp_path / name) == 0
        results.append(load(tmp_path / name))
        results[-1].pop("timings")
    assert results[0] == results[1]
    assert results[0]["seed"] == 3


def test_quiet_and_settings(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--quiet", "--directed", "--inlier-threshold", 0.1, "--json", tmp_path / "r.json")
    assert run("register", files.source, files.target, *options) == 0
    assert capsys.readouterr() == ("", "")
    settings = load(tmp_path / "r.json")["settings"]
    assert settings["directed"] is True
    assert settings["inlier_distance"] == pytest.approx(0.1)


def test_json_on_standard_output(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("register", files.source, files.target, "--json", "-") == 0
    captured = capsys.readouterr()
    assert set(json.loads(captured.out)) == KEYS
    assert "Registered" in captured.err


def test_dropped_lines_are_reported(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    with files.target.open("a") as stream:
        stream.write("1 1 1 1 1 1\n")
    assert run("register", files.source, files.target) == 0
    assert "left out 1: zero length" in capsys.readouterr().out


def test_bad_files(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("1 2 3 4 5 6\n1 2 three 4 5 6\n")
    assert run("register", files.source, bad) == 2
    assert capsys.readouterr().err.startswith(f"error: {bad}:2: ")
    assert run("register", tmp_path / "missing.obj", files.target) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}/missing.obj: no such file or directory\n"
    bad.write_text("1 2 3 4 5 6\n")
    assert run("register", files.source, bad) == 2
    assert "at least three" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--inlier-threshold", "-1"], "--inlier-threshold: expected a positive length"),
        (["--inlier-threshold", "nan"], "--inlier-threshold: expected a positive length"),
        (["--device", "abacus"], "--device abacus"),
        (["--lod", "2.2"], "lod is for CityJSON"),
        (["--seed", "-1"], "seed"),
        (["--unheard-of"], "unheard-of"),
    ],
)
def test_bad_options(files: Files, options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("register", files.source, files.target, *options) == 2
    assert complaint in capsys.readouterr().err


def room_cloud(path: Path) -> Path:
    """Points of three walls, six columns as scanners write them with colours."""
    generator = np.random.default_rng(0)
    walls = [np.insert(generator.uniform(0, 2, (4000, 2)), axis, 0.0, axis=1) for axis in range(3)]
    np.savetxt(path, np.hstack([np.concatenate(walls), np.full((12000, 3), 128)]), fmt="%.4f")
    return path


def test_options_of_a_format_go_to_the_map_that_has_them(tmp_path: Path) -> None:
    city, table, cloud = tmp_path / "city.gml", tmp_path / "table.txt", room_cloud(tmp_path / "cloud.xyz")
    city.write_text(house_gml())
    table.write_text("1 2 3 4 5 6\n")
    with_level = ReadingOptions(lod="3", quiet=True)
    for other in (table, cloud):
        for paths in ((city, other), (other, city)):
            assert sorted(report.format for report in read_maps(paths, with_level))[0] == "gml"
    with pytest.raises(InputError, match=f"{table}: lod is for CityJSON"):
        read_maps((table, table), with_level)
    with pytest.raises(FormatError, match="no geometry of level of detail 2"):
        read_maps((table, city), ReadingOptions(formats=("txt", "gml"), lod="2"))
    with pytest.raises(InputError, match="one for each of the files"):
        read_maps((table, table), ReadingOptions(formats=("txt", "txt", "txt")))


def test_the_format_may_say_that_a_file_is_a_cloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cloud = room_cloud(tmp_path / "cloud.txt")  # six columns: lines, unless the user says otherwise
    lines, extracted = (read_maps([cloud], ReadingOptions(formats))[0] for formats in (None, ["text"]))
    assert lines.format == "txt"
    assert len(lines.lines) == 12000
    assert extracted.format == "point cloud"
    assert 3 <= len(extracted.lines) < 30
    assert "is a point cloud: extracting its lines first" in capsys.readouterr().err


def test_plot(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("register", files.source, files.target, "--plot", tmp_path / "p.png") == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "picture written to" in capsys.readouterr().err


def test_plot_needs_matplotlib(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "matplotlib")
    assert run("register", files.source, files.target, "--plot", tmp_path / "p.png") == 2
    assert "pip install 'plueckernet[plot]'" in capsys.readouterr().err


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """As if the package were not installed."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".")[0] == package:
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)


def test_report(files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "my report.html"
    assert run("register", files.source, files.target, "--seed", 2, "--directed", "--report", out) == 0
    assert "report written to" in capsys.readouterr().err
    page = out.read_text(encoding="utf-8")
    assert f"plueckernet register {files.source} {files.target} --seed 2 --directed --report &#x27;{out}&#x27;" in page
    assert "<title>Registered: a.obj to b.txt</title>" in page


def test_different_units_are_told_before_the_search(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    millimetres = files.source.with_name("mm.obj")
    write_lines(millimetres, Similarity.from_pose(Pose.identity(), 1000.0) @ house())
    out = files.source.with_name("mm.json")
    assert run("register", millimetres, files.target, "--json", out) == 1
    captured = capsys.readouterr()
    sentence = "The source looks about 1000 times larger than the target: is the source in millimetres"
    assert captured.err.startswith(f"warning: {sentence}")
    assert "warning" in captured.out
    assert "Check the units" in captured.out
    assert load(out)["warnings"][0].startswith(sentence)
    assert run("register", millimetres, files.target, "--quiet") == 1
    assert capsys.readouterr().err == ""


def test_the_required_confidence(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    out = files.source.with_name("strict.json")
    assert run("register", files.source, files.target, "--min-confidence", "1", "--json", out) == 1
    assert load(out)["settings"]["judgement"]["min_confidence"] == 1.0
    assert "and 1 is required" in " ".join(capsys.readouterr().out.split())
    assert run("register", files.source, files.target, "--min-confidence", "0.5", "--json", out) == 0
    assert run("register", files.source, files.target, "--json", out) == 0
    assert load(out)["settings"]["judgement"] == asdict(JudgementSettings())
    assert run("register", files.source, files.target, "--min-confidence", "1.5") == 2
