"""`plueckernet demo`, and the maps it ships."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from benchmarks.demo_maps import demo_pair
from tests.cli.helpers import DEMO, FRIDAY, MONDAY, run
from tests.cli.test_register import hide

from plueckernet.io import read_lines


def test_the_folder_is_checked_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("plueckernet.registration.register", lambda *_, **__: pytest.fail("the work has started"))
    (tmp_path / "file").touch()
    assert run("demo", "--out", tmp_path / "file") == 2
    assert "cannot be created" in capsys.readouterr().err


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demo", "--out", tmp_path / "demo") == 0
    shown = capsys.readouterr().out
    error = re.search(r"true error +(\S+)° and (\S+) mm", shown)
    assert error is not None
    assert float(error[1]) < 0.5
    assert float(error[2]) < 50
    for text in ("Registered", "covariance", "before, from above", "after, from above", "plueckernet register"):
        assert text in shown
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    files = {"house_monday.obj", "house_friday.txt", "aligned.obj", "result.json", "report.html", "picture.png"}
    assert written == files
    assert f"open {tmp_path / 'demo' / 'report.html'}" in shown.replace("\n", "")
    assert "demo --out" not in shown  # the files exist already
    assert f"register {tmp_path / 'demo' / 'house_monday.obj'} " in shown


def test_demo_without_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(monkeypatch, "matplotlib")
    assert run("demo", "--out", tmp_path) == 0
    assert "no picture: matplotlib is not installed: pip install 'plueckernet[plot]'" in capsys.readouterr().out
    assert not (tmp_path / "picture.png").exists()


def test_shipped_maps_are_what_the_generator_makes() -> None:
    """After a change of the generators: python -m benchmarks.demo_maps."""
    pair = demo_pair()
    for path, lines in ((MONDAY, pair.source), (FRIDAY, pair.target)):
        torch.testing.assert_close(read_lines(path).endpoints, lines.endpoints, atol=2e-4, rtol=0)
    truth = torch.tensor(json.loads((DEMO / "truth.json").read_text())["target_T_source"], dtype=torch.float64)
    torch.testing.assert_close(truth, pair.target_T_source.matrix())
    assert 0.6 < pair.common < 0.7
