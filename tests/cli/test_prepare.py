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
    assert capsys.readouterr().err.startswith(f"error: {path}:1: not JSON")
