"""`plueckernet prepare`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.helpers import run
from tests.data.datasets import published


def test_prepare_reports_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published.structured3d(tmp_path / "s", count=3)
    assert run("prepare", "structured3d", tmp_path / "s", "--out", tmp_path / "out") == 0
    messages = capsys.readouterr().err
    assert "2 training scenes and 1 test scenes, 0 pairs" in messages
    assert "lines per scene: 12 to 12, median 12" in messages
    assert run("info", next((tmp_path / "out" / "train").glob("*.npz"))) == 0


def test_prepare_names_the_broken_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = published.structured3d(tmp_path / "s")
    path.write_text("{")
    assert run("prepare", "structured3d", tmp_path / "s", "--out", tmp_path / "out") == 2
    assert f"\nerror: {path}:1: not JSON" in capsys.readouterr().err


def test_prepare_says_how_many_published_files_there_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published.semantic3d(tmp_path, "bildstein_station1")  # a box: too few lines for a cell
    assert run("prepare", "semantic3d", tmp_path, "--out", tmp_path / "out", "--workers", 2) == 2
    said = capsys.readouterr().err
    assert "found 1 of 30 published scans; missing: bildstein_station3_xyz_intensity_rgb.txt, " in said
    assert "sg27_station10_intensity_rgb.txt" in said
