"""`plueckernet view`: how to open the page, and bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.helpers import MONDAY, run
from tests.cli.test_register import hide

from plueckernet.cli.view import access_hints


def test_local_address_and_how_to_forward_the_port() -> None:
    local, over_ssh = access_hints("127.0.0.1", 8081, "http://127.0.0.1:8081/token/")
    assert "http://127.0.0.1:8081/token/" in local
    assert "ssh -L 8081:127.0.0.1:8081" in over_ssh


def test_a_public_address_has_a_warning() -> None:
    address, warning = access_hints("192.0.2.7", 8080, "http://192.0.2.7:8080/token/")
    assert "http://192.0.2.7:8080/token/" in address
    assert "not encrypted" in warning


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
