"""The bar of a slow command."""

from __future__ import annotations

import pytest
from tests.cli.helpers import FRIDAY, MONDAY, run

import plueckernet.cli.progress as progress
from plueckernet.stages import STAGES


def test_the_bar_names_each_stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.progress import Progress

    shown: list[str] = []
    update = Progress.update

    def recorded(bar: Progress, *place: object, **values: object) -> None:
        shown.append(str(values.get("description")))
        update(bar, *place, **values)
        bar.refresh()

    monkeypatch.setattr(Progress, "update", recorded)
    monkeypatch.setattr(progress, "_BAR_DELAY", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    assert run("register", MONDAY, FRIDAY, "--quiet") == 0
    assert [f"registering 509 to 404 lines: {stage}" for stage in STAGES[:3]] == [
        text for text in dict.fromkeys(shown) if text.startswith("registering")
    ][:3]
    assert f"registering 509 to 404 lines: {STAGES[1]}" in capsys.readouterr().err


def test_a_fast_command_shows_no_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.slow_bar("reading") as report:
        report(0.5)
    assert "reading" not in capsys.readouterr().err
