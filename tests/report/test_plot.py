"""The titles of the picture; an SVG file keeps them as comments."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.cli.helpers import house

from plueckernet.errors import InputError
from plueckernet.estimation.judgement import Status
from plueckernet.geometry import Pose
from plueckernet.report import save_plot
from plueckernet.report.words import PICTURE_TITLES

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)


def svg(path: Path, pose: Pose | None, *after: str) -> str:
    save_plot(path, house(), TRUTH @ house(), pose, *after)
    return path.read_text(encoding="utf-8")


def test_titles_tell_success_ambiguity_and_failure_apart(tmp_path: Path) -> None:
    success = svg(tmp_path / "a.svg", TRUTH)
    assert "<!-- before registration, each map in its own frame -->" in success
    assert "<!-- registered -->" in success
    ambiguous = svg(tmp_path / "b.svg", TRUTH, PICTURE_TITLES[Status.AMBIGUOUS])
    assert "<!-- registered -->" not in ambiguous
    assert "<!-- ambiguous: one of several poses that fit -->" in ambiguous
    failure = svg(tmp_path / "c.svg", None)
    assert "<!-- registered -->" not in failure
    assert "<!-- not registered: no pose was accepted -->" in failure


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        save_plot(tmp_path / "nowhere" / "p.png", house(), house(), None)
