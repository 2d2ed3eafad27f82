"""Scenes to evaluate on: the stand-ins that come with the package, or a prepared dataset on disk."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from plueckernet.data.scenes import make_scene
from plueckernet.errors import FormatError, InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.io import read_lines
from plueckernet.io.registry import format_of_suffix

FIRST_SEED = 2_000_000  # of scenes that neither scenes nor weights nor confidence were tuned on
PAPER_DATASETS = {"indoor": "Structured3D", "outdoor": "Semantic3D"}


@dataclass(frozen=True)
class StandIn:
    """Synthetic scenes of one kind, held out from training by their seeds."""

    name: str  # kind of :data:`plueckernet.data.scenes.SCENES`

    @property
    def label(self) -> str:
        """For tables and figures."""
        dataset = PAPER_DATASETS.get(self.name)
        return self.name if dataset is None else f"{self.name} (stand-in for {dataset})"

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        return {"scenes": self.name, "first_seed": FIRST_SEED}

    def size(self) -> int | None:
        """As many as one likes."""
        return None

    def scene(self, index: int) -> LineSet:
        """One scene as segments in metres."""
        return make_scene(self.name, FIRST_SEED + index)


@dataclass(frozen=True)
class Prepared:
    """The test scenes of a folder of line maps; ``split.json`` in it says which are for testing."""

    name: str
    folder: Path

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"{self.folder.name} ({self.name})"

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        names = "\n".join(path.name for path in _test_files(self.folder))
        return {"prepared": self.folder.name, "files": hashlib.sha256(names.encode()).hexdigest()[:16]}

    def size(self) -> int | None:
        """Number of test scenes."""
        return len(_test_files(self.folder))

    def scene(self, index: int) -> LineSet:
        """One scene; lines need not be segments."""
        return read_lines(_test_files(self.folder)[index])


Dataset = StandIn | Prepared


def open_datasets(prepared: dict[str, Path]) -> dict[str, Dataset]:
    """The two datasets of the paper and the stand-in for its drives, some of them replaced by prepared ones."""
    names = (*PAPER_DATASETS, "block")
    unknown = sorted(set(prepared) - set(names))
    if unknown:
        raise InputError(f"unknown dataset {unknown[0]!r}; there are {', '.join(names)}")
    return {name: Prepared(name, prepared[name]) if name in prepared else StandIn(name) for name in names}


@cache
def _test_files(folder: Path) -> tuple[Path, ...]:
    """All line maps of the test split, in the order of their names."""
    if not folder.is_dir():
        raise FormatError(folder, "expected the folder of a prepared dataset")
    split = _split(folder)
    files = sorted(path for path in folder.iterdir() if path.is_file() and format_of_suffix(path) is not None)
    tested = tuple(path for path in files if split.get(path.stem) == "test")
    if not tested:
        raise FormatError(folder, "no line map in it belongs to the test split")
    return tested


def _split(folder: Path) -> dict[str, str]:
    path = folder / "split.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(path, f"no readable split: {error}") from error
    if not isinstance(content, dict):
        raise FormatError(path, "expected an object of names and 'train' or 'test'")
    return {str(name): str(part) for name, part in content.items()}
