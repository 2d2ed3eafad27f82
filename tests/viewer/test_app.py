"""What the viewer tells its page, without a browser."""

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
from plueckernet.viewer import Viewer

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder: Path = tmp_path_factory.mktemp("maps")
    write_lines(folder / "a.obj", house())
    write_lines(folder / "b.txt", TRUTH @ house())
    started = Viewer(port=18180)
    started.load("source", folder / "a.obj")
    assert started.state()["maps"]["target"] is None
    assert started.session.drawing() is not None
    started.load("target", folder / "b.txt")
    started.register()
    yield started
    started.stop()


@pytest.mark.parametrize("status", ["success", "ambiguous", "failed"])
def test_the_verdict_is_the_shared_text(viewer, monkeypatch, status) -> None:
    result = replace(viewer.session.result, status=Status(status), confidence=0.72, warnings=("One is larger.",))
    monkeypatch.setattr(viewer.session, "result", result)
    state, text = viewer.state(), verdict(result, IN_VIEWER)
    assert state["status"] == status  # the class that gives badge and bar their colour
    for words in (text.headline, text.summary, text.advice, "One is larger."):
        assert words in state["cards"]


def test_the_state_has_the_result(viewer) -> None:
    state, count = viewer.state(), len(viewer.session.result.inliers)
    assert state["poses"][0] == "registered"
    assert state["ready"]
    assert f"{count} lines coincide" in state["cards"]
    assert f"<td class=number>{count:,}</td>" in state["cards"]
    assert len(viewer.session.shown[0].pairs) == count  # what the page counts


def test_news_are_sent_once_and_end_with_the_viewer() -> None:
    viewer, sent = Viewer(port=18185), []

    def send(content: bytes) -> None:
        sent.append(content)
        if len(sent) == 1:
            viewer._tell_stage("match")
        if len(sent) == 2:
            viewer.stop()

    viewer._events(send)
    assert b'"stage": null' in sent[0]
    assert b'"stage": "match"' in sent[1]
    assert len(sent) <= 3
