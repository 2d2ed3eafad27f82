"""`plueckernet batch`, and other commands that share work among workers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.helpers import FRIDAY, MONDAY, run
from tests.parallel.helpers import PicklingExecutor

from plueckernet.extraction import PointCloudSettings, extract_lines


def test_a_batch_of_a_good_and_a_bad_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    from plueckernet.batch import read_batch

    (tmp_path / "pairs.csv").write_text(f"source,target,name\n{MONDAY},{FRIDAY},house\nnone.obj,{FRIDAY},none\n")
    command = ("batch", tmp_path / "pairs.csv", "--out", tmp_path / "out", "--workers", 1, "--matcher", "descriptors")
    assert run(*command) == 1
    told = capsys.readouterr().err
    assert "2 pairs: 1 error, 1 success; 2 computed in this run" in told
    assert "pair 1: " in told
    assert "none.obj: no such file" in told
    assert {row.name: row.status for row in read_batch(tmp_path / "out")} == {"house": "success", "none": "error"}
    assert run(*command) == 1
    assert "0 computed in this run" in capsys.readouterr().err
    assert run(*command, "--seed", 3) == 2
    assert "another registration: seed was 0, now 3" in capsys.readouterr().err


def test_the_formats_of_sources_and_targets_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "pairs.csv").write_text(f"{MONDAY},{FRIDAY}\n")
    command = ("batch", tmp_path / "pairs.csv", "--workers", 1, "--matcher", "descriptors", "--out")
    assert run(*command, tmp_path / "out", "--from", "obj", "--from", "txt") == 0
    assert run(*command, tmp_path / "out") == 2
    assert "another list of pairs" in capsys.readouterr().err
    assert run(*command, tmp_path / "other", "--from", "txt") == 1
    assert "house_monday.obj:1: " in capsys.readouterr().err


def test_a_batch_without_its_packages_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.csv").write_text("a.obj,b.obj\n")
    command = ("batch", tmp_path / "pairs.csv", "--out", tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ray", None)
    if "pyarrow" not in sys.modules:
        monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
        assert run(*command) == 2
        assert "plueckernet[batch]" in capsys.readouterr().err
    else:
        assert run(*command, "--ray", "auto") == 2
        assert "plueckernet[cluster]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_tiles_give_the_same_lines_whoever_extracts_them() -> None:
    generator = np.random.default_rng(0)
    points = generator.uniform(-1, 1, (12_000, 3)) * [4, 3, 1.5]
    axis, side = generator.integers(0, 3, len(points)), generator.integers(0, 2, len(points))
    points[np.arange(len(points)), axis] = np.where(side == 1, 1, -1) * np.array([4, 3, 1.5])[axis]
    settings, fractions = PointCloudSettings(tile_points=5000), list[float]()
    here = extract_lines(points, settings)
    there = extract_lines(points, settings, fractions.append, executor=PicklingExecutor())
    assert len(here) > 5
    assert np.array_equal(here.endpoints, there.endpoints)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
