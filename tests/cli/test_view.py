"""`plueckernet view`: how to get to it, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.helpers import MONDAY, run
from tests.cli.test_register import hide

from plueckernet.cli.view import directions


def test_this_machine_only_and_how_to_come_from_another() -> None:
    here, over_ssh = directions("127.0.0.1", 8081)
    assert "http://127.0.0.1:8081" in here
    assert "ssh -L 8081:127.0.0.1:8081" in over_ssh


def test_an_open_door_is_pointed_out() -> None:
    there, warning = directions("0.0.0.0", 8080)
    assert "http://0.0.0.0:8080" in there
    assert "no password" in warning


def test_it_needs_viser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    hide(monkeypatch, "viser")
    assert run("view") == 2
    assert "pip install 'plueckernet[view]'" in capsys.readouterr().err


def test_a_bad_file_on_the_command_line_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("1 2 three\n")
    assert run("view", MONDAY, bad) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {bad}:1: ")
    assert captured.out == ""
