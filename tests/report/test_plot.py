"""The picture says what it shows; SVG keeps its words beside the shapes of the letters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.cli.helpers import house

from plueckernet.errors import InputError
from plueckernet.geometry import Pose
from plueckernet.report import save_plot

TRUTH = Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)


def words(path: Path, pose: Pose | None, *after: str) -> str:
    save_plot(path, house(), TRUTH @ house(), pose, *after)
    return path.read_text(encoding="utf-8")


def test_titles_tell_a_success_from_a_doubt_and_a_failure(tmp_path: Path) -> None:
    success = words(tmp_path / "a.svg", TRUTH)
    assert "<!-- as they came, in two frames -->" in success
    assert "<!-- registered -->" in success
    doubt = words(tmp_path / "b.svg", TRUTH, "ambiguous: one of several poses")
    assert "<!-- registered -->" not in doubt
    assert "<!-- ambiguous: one of several poses -->" in doubt
    failure = words(tmp_path / "c.svg", None)
    assert "<!-- registered -->" not in failure
    assert "<!-- as they came: no pose was found -->" in failure


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        save_plot(tmp_path / "nowhere" / "p.png", house(), house(), None)
