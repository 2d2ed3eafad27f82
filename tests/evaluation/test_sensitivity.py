"""The study of settings: what counts as an effect, and that an interrupted one goes on."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from benchmarks.sensitivity import Study, run_study

LOG = "PLUECKERNET_TEST_MEASURED"  # where the processes say what they measured


@dataclass(frozen=True)
class Settings:
    """One field that matters, one that does not, and the seed."""

    strong: float = 0.5
    idle: float = 0.5
    seed: int = 0


def measure(settings: Settings) -> dict[str, float]:
    """A metric that follows one of the fields."""
    with Path(os.environ[LOG]).open("a") as stream:
        stream.write(f"{settings}\n")
    return {"right": settings.strong}


STUDY = Study(Settings(), measure, lambda settings, seed: replace(settings, seed=seed), {"seed": "measured as noise"})


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "measured"
    monkeypatch.setenv(LOG, str(path))
    monkeypatch.setattr("benchmarks.sensitivity._basis", lambda _study: "this test")
    return path


def test_a_setting_matters_if_a_metric_follows_it(log: Path) -> None:
    fields = run_study(STUDY, "test")["fields"]
    assert {name: row["verdict"] for name, row in fields.items()} == {"strong": "matters", "idle": "does not matter"}
    assert fields["strong"]["changes"] == [{"right": -0.25}, {"right": 0.25}]


def test_an_interrupted_study_goes_on(log: Path, tmp_path: Path) -> None:
    keep = tmp_path / "kept.jsonl"
    first = run_study(STUDY, "test", keep)
    lines = keep.read_text().splitlines(keepends=True)
    keep.write_text("".join(lines[:4]) + lines[4][:9])  # killed while it wrote the fifth
    log.unlink()
    assert run_study(STUDY, "test", keep) == first
    assert len(log.read_text().splitlines()) == len(lines) - 4
    log.unlink()
    assert run_study(STUDY, "test", keep) == first
    assert not log.exists()


def test_measurements_of_other_sources_are_not_used(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = tmp_path / "kept.jsonl"
    run_study(STUDY, "test", keep)
    measured = len(log.read_text().splitlines())
    monkeypatch.setattr("benchmarks.sensitivity._basis", lambda _study: "changed")
    run_study(STUDY, "test", keep)
    assert len(log.read_text().splitlines()) == 2 * measured
