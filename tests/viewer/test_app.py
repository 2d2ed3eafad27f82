"""The text of the viewer's page, without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.cli.helpers import house

from plueckernet.estimation.judgement import Status
from plueckernet.geometry import Pose
from plueckernet.io import write_lines
from plueckernet.report.words import IN_VIEWER, verdict

pytest.importorskip("viser", reason="viser is not installed")

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    from plueckernet.viewer import Viewer

    folder: Path = tmp_path_factory.mktemp("maps")
    write_lines(folder / "a.obj", house())
    write_lines(folder / "b.txt", TRUTH @ house())
    started = Viewer(port=18180)
    started.load("source", folder / "a.obj")
    started.load("target", folder / "b.txt")
    started.register()
    yield started
    started.stop()


@pytest.mark.parametrize(
    ("status", "colour"), [("success", "#4fd6a7"), ("ambiguous", "#f0bd5a"), ("failed", "#ff8f8f")]
)
def test_the_verdict_is_the_shared_text_in_the_colour_of_the_status(viewer, monkeypatch, status, colour) -> None:
    result = replace(viewer.session.result, status=Status(status), confidence=0.72, warnings=("One is larger.",))
    monkeypatch.setattr(viewer.session, "result", result)
    page, text = viewer._verdict_html(), verdict(result, IN_VIEWER)
    assert f'<b style="color:{colour}">{text.headline}</b>' in page
    assert text.summary in page
    assert text.advice in page
    assert "One is larger." in page


def test_the_controls_show_the_result(viewer) -> None:
    assert viewer._pose.value == "registered"
    assert "pairs at most" in viewer._count.content
    assert viewer._progress.value == 1.0
