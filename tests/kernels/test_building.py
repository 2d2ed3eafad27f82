"""Kernels are compiled where there is a compiler, and only those of the present sources are used."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels.helpers import needs_kernels

import plueckernet
from plueckernet.kernels import building

SOURCES = Path(plueckernet.__file__).parents[1]
LOADED = "from plueckernet.kernels.library import compiled; print(compiled())"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the C sources without libraries, which are then built there."""
    for path in [*building.FOLDER.glob("*.c"), *building.FOLDER.glob("*.h")]:
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(building, "FOLDER", tmp_path)
    return tmp_path


@needs_kernels
def test_libraries_of_all_variants_are_built_and_not_built_again(folder: Path) -> None:
    libraries = building.build()
    times = [path.stat().st_mtime_ns for path in libraries]
    assert [path.name for path in libraries] == [building.library_path(variant).name for variant in building.variants()]
    assert building.build() == libraries
    assert [path.stat().st_mtime_ns for path in libraries] == times
    assert not list(folder.glob("unfinished-*"))


@needs_kernels
def test_other_sources_have_another_library_and_the_old_one_is_removed(folder: Path) -> None:
    before = building.build()
    source = folder / "distinct.c"
    source.write_text(source.read_text() + "\n/* changed */\n")
    after = building.build()
    assert not set(before) & set(after)
    assert not any(path.exists() for path in before)
    assert all(path.exists() for path in after)


@pytest.mark.usefixtures("folder")
def test_a_compiler_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -c 'raise SystemExit(1)'")
    assert building.build() == []


@pytest.mark.usefixtures("folder")
def test_without_a_compiler_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(building.shutil, "which", lambda _: None)
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda _: None)
    assert building.compiler() is None
    assert building.build() == []


def _printed(**variables: str) -> str:
    environment = {"PYTHONPATH": str(SOURCES), **variables}
    command = [sys.executable, "-c", LOADED]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


@needs_kernels
def test_the_environment_switches_kernels_off() -> None:
    assert _printed() == "True"
    assert _printed(PLUECKERNET_KERNELS="off") == "False"
