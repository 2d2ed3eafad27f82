"""Prepared datasets: a folder of line files and an index.

``train/`` and ``test/`` hold one ``.npz`` for each scene, which :func:`plueckernet.read_lines` reads; ``index.json``
has the number of lines of each scene, its pose if it is known, and the pairs of scenes with a known relative pose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from plueckernet.data.protocols import LinePair
from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.io.atomic import atomic_write
from plueckernet.io.files import read_json
from plueckernet.io.reading import read_lines

INDEX_SCHEMA = 1
INDEX = "index.json"
SPLITS = ("train", "test")
MatrixRows = list[list[float]]


@dataclass(frozen=True)
class SceneEntry:
    """One scene of the index."""

    name: str
    split: str  # train or test; the file is SPLIT/NAME.npz
    lines: int
    world_T_scene: MatrixRows | None = None

    @property
    def file(self) -> str:
        """Its path relative to the index."""
        return f"{self.split}/{self.name}.npz"


@dataclass(frozen=True)
class PairEntry:
    """Two scenes and the pose between them."""

    source: str  # names of scenes
    target: str
    split: str
    target_T_source: MatrixRows
    matches: list[list[int]] | None = None  # rows of source and target, where they are known


@dataclass(frozen=True)
class PreparedIndex:
    """The contents of a prepared folder."""

    dataset: str
    settings: dict[str, Any]
    scenes: list[SceneEntry]
    pairs: list[PairEntry]
    dropped: dict[str, str] = field(default_factory=dict)  # inputs that gave no scene, and why

    def of_split(self, split: str) -> list[SceneEntry]:
        """The scenes of ``train`` or ``test``."""
        if split not in SPLITS:
            raise InputError(f"split: expected {' or '.join(SPLITS)}, got {split!r}")
        return [scene for scene in self.scenes if scene.split == split]


def write_index(folder: Path, index: PreparedIndex) -> None:
    """Write ``index.json`` atomically."""
    with atomic_write(folder / INDEX) as stream:
        stream.write(json.dumps({"schema": INDEX_SCHEMA, **asdict(index)}, indent=1, allow_nan=False) + "\n")


def read_index(folder: str | Path) -> PreparedIndex:
    """Read the ``index.json`` of a prepared folder."""
    path = Path(folder) / INDEX
    try:
        content = read_json(path)
        if content.pop("schema") != INDEX_SCHEMA:
            raise FormatError(path, f"expected schema {INDEX_SCHEMA}; prepare the dataset again")
        content["scenes"] = [SceneEntry(**entry) for entry in content["scenes"]]
        content["pairs"] = [PairEntry(**entry) for entry in content["pairs"]]
        return _checked(PreparedIndex(**content), path)
    except (AttributeError, KeyError, TypeError) as error:
        raise FormatError(path, f"not the index of a prepared dataset: {error}") from error


def _checked(index: PreparedIndex, path: Path) -> PreparedIndex:
    """Raise unless every scene is a file of this folder and every pair is of two scenes."""
    names = {scene.name for scene in index.scenes}
    for scene in index.scenes:
        name: object = scene.name  # whatever the file has
        plain = isinstance(name, str) and name not in ("", ".", "..") and not set(name) & set("/\\\0")
        if not plain or scene.split not in SPLITS or type(scene.lines) is not int:
            raise FormatError(path, f"not a scene of the folder: {scene.name!a:.60}")
        if scene.world_T_scene is not None:
            _pose(scene.world_T_scene, path)
    for pair in index.pairs:
        if pair.source not in names or pair.target not in names or pair.split not in SPLITS:
            raise FormatError(path, f"a pair of unknown scenes: {pair.source!a:.60} and {pair.target!a:.60}")
        _pose(pair.target_T_source, path)
    return index


def prepared_scenes(folder: str | Path, split: str) -> Iterator[LineSet]:
    """The scenes of one split, in the order of the index."""
    for scene in read_index(folder).of_split(split):
        yield read_lines(Path(folder) / scene.file)


def prepared_pairs(folder: str | Path, split: str) -> Iterator[LinePair]:
    """The pairs of one split, in the order of the index; ``matches`` is empty where they are not known."""
    index = read_index(folder)
    files = {scene.name: Path(folder) / scene.file for scene in index.scenes}
    for pair in index.pairs:
        if pair.split == split:
            source, target = read_lines(files[pair.source]), read_lines(files[pair.target])
            yield LinePair(
                source=source,
                target=target,
                target_T_source=_pose(pair.target_T_source, Path(folder) / INDEX),
                matches=_matches(pair, (len(source), len(target)), Path(folder) / INDEX),
            )


def _matches(pair: PairEntry, counts: tuple[int, int], path: Path) -> Int64[Tensor, "k 2"]:
    """The rows of both maps that match; rows that they do not have raise."""
    try:
        matches = torch.tensor(pair.matches or [], dtype=torch.int64).reshape(-1, 2)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise FormatError(path, f"not matches of {pair.source!a:.60} and {pair.target!a:.60}: {error}") from error
    if bool(((matches < 0) | (matches >= torch.tensor(counts))).any()):
        raise FormatError(path, f"matches of lines that {pair.source!a:.60} and {pair.target!a:.60} do not have")
    return matches


def _pose(matrix: MatrixRows, path: Path) -> Pose:
    try:
        return Pose.from_matrix(torch.tensor(matrix, dtype=torch.float64))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise FormatError(path, f"not the matrix of a pose: {error}") from error
