"""Conversion of a published dataset to a prepared folder, in steps that can be interrupted.

A dataset is a list of units: a house, a scan or a frame. The scenes of a unit are written first, then a record that the
unit is complete. An interrupted run continues after the last record. When all units are complete, the scenes are
split into ``train`` and ``test`` and the index is written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from plueckernet.data.datasets import (
    CloudFrame,
    SensorFrame,
    apollo_sequences,
    open_sequence,
    read_authors_pairs,
    read_structured3d,
    semantic3d_clouds,
    split_into_cells,
    structured3d_scenes,
)
from plueckernet.data.datasets.authors import authors_folders
from plueckernet.data.datasets.semantic3d import CELL_SIZE, MIN_CELL_LINES
from plueckernet.data.prepared import SPLITS, MatrixRows, PairEntry, PreparedIndex, SceneEntry, write_index
from plueckernet.data.splits import split_names
from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import write_lines
from plueckernet.io.atomic import atomic_write
from plueckernet.io.files import read_json
from plueckernet.sensing import frame_lines

_WORK = ".unfinished"  # has scenes and records until the dataset is complete
_UNDECIDED = "undecided"  # split of a scene before all scenes are known

LinesOf = Callable[[SensorFrame], LineSet]


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene to be written."""

    name: str
    lines: LineSet
    split: str = _UNDECIDED
    world_T_scene: Pose | None = None


@dataclass(frozen=True, eq=False)
class UnitResult:
    """The scenes and pairs of one unit."""

    scenes: list[Scene] = field(default_factory=list)
    pairs: list[PairEntry] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A part of a dataset that is prepared in one step."""

    name: str
    make: Callable[[], UnitResult]


@dataclass(frozen=True)
class Dataset:
    """Preparation of one dataset."""

    description: str
    units: Callable[[Path, LinesOf], list[Unit]]
    consecutive: bool = False  # whether neighbouring scenes form pairs


def prepare(
    name: str,
    source: Path,
    out: Path,
    *,
    seed: int = 0,
    lines_of: LinesOf = frame_lines,
    progress: Callable[[float], None] | None = None,
) -> PreparedIndex:
    """Prepare a dataset, or continue an interrupted run.

    Args:
        name: One of :data:`DATASETS`.
        source: The folder with the files as published.
        out: The folder to write; created if it does not exist.
        seed: Seed of the split into train and test.
        lines_of: Extracts the lines of a frame or cloud.
        progress: Called with the completed fraction, in [0, 1].
    """
    if name not in DATASETS:
        raise InputError(f"unknown dataset {name!r}; available: {', '.join(DATASETS)}")
    if not source.is_dir():
        raise FormatError(source, "expected a folder")
    units = DATASETS[name].units(source, lines_of)
    settings = {"source": source.resolve().name, "seed": seed}
    work = _work_folder(out, {"dataset": name, **settings})
    for done, unit in enumerate(units, 1):
        if not _record(work, unit).exists():
            _write(work, unit)
        if progress is not None:
            progress(done / len(units))
    records = [read_json(_record(work, unit)) for unit in units]
    index = _index(name, settings, records, DATASETS[name].consecutive)
    return _finished(out, work, index)


def _work_folder(out: Path, wanted: dict[str, Any]) -> Path:
    """The folder of unfinished work; raises if it belongs to another dataset or other settings."""
    work = out / _WORK
    begun = work / "settings.json"
    if (out / "index.json").exists():
        raise InputError(f"{out}: already has a prepared dataset; remove it or choose another folder")
    if begun.exists():
        earlier = read_json(begun)
        if earlier != wanted:
            raise InputError(f"{out}: begun with {earlier}, not {wanted}; remove it or choose another folder")
        return work
    try:
        (work / "notes").mkdir(parents=True, exist_ok=True)
        (work / "scenes").mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be created: {error.strerror}") from error
    with atomic_write(begun) as stream:
        stream.write(json.dumps(wanted))
    return work


def _record(work: Path, unit: Unit) -> Path:
    return work / "notes" / f"{unit.name}.json"


def _write(work: Path, unit: Unit) -> None:
    """Write the scenes of a unit, then its record."""
    result = unit.make()
    for scene in result.scenes:
        write_lines(work / "scenes" / f"{scene.name}.npz", scene.lines)
    record = {
        "scenes": [asdict(_entry(scene)) for scene in result.scenes],
        "pairs": [asdict(pair) for pair in result.pairs],
        "dropped": result.dropped,
    }
    with atomic_write(_record(work, unit)) as stream:
        stream.write(json.dumps(record, allow_nan=False))


def _entry(scene: Scene) -> SceneEntry:
    pose = None if scene.world_T_scene is None else _matrix(scene.world_T_scene)
    return SceneEntry(scene.name, scene.split, len(scene.lines), pose)


def _index(name: str, settings: dict[str, Any], records: list[dict[str, Any]], consecutive: bool) -> PreparedIndex:
    scenes = [SceneEntry(**entry) for record in records for entry in record["scenes"]]
    drawn = split_names([scene.name for scene in scenes if scene.split == _UNDECIDED], settings["seed"])
    scenes = [SceneEntry(**asdict(scene) | {"split": drawn.get(scene.name, scene.split)}) for scene in scenes]
    pairs = [PairEntry(**entry) for record in records for entry in record["pairs"]]
    if consecutive:
        pairs += list(_consecutive(scenes))
    dropped = {what: why for record in records for what, why in record["dropped"].items()}
    if not scenes:
        raise InputError(f"{name}: no scene is left; {len(dropped)} were dropped")
    return PreparedIndex(name, settings, scenes, pairs, dropped)


def _consecutive(scenes: Sequence[SceneEntry]) -> Iterator[PairEntry]:
    """Pairs of each frame with the previous frame of the same sequence, if both poses are known."""
    for before, after in pairwise(scenes):
        same = before.name.rpartition("__")[0] == after.name.rpartition("__")[0]
        if same and before.world_T_scene is not None and after.world_T_scene is not None:
            pose = _pose(before.world_T_scene).inverse() @ _pose(after.world_T_scene)
            yield PairEntry(after.name, before.name, "test", _matrix(pose))


def _finished(out: Path, work: Path, index: PreparedIndex) -> PreparedIndex:
    """Move scenes to their splits and write the index last; an earlier run may have done some of these steps."""
    for split in SPLITS:
        (out / split).mkdir(exist_ok=True)
    for scene in index.scenes:
        unfinished = work / "scenes" / f"{scene.name}.npz"
        if unfinished.exists():
            unfinished.replace(out / scene.file)
    write_index(out, index)
    shutil.rmtree(work)
    return index


def _matrix(pose: Pose) -> MatrixRows:
    return pose.matrix().tolist()


def _pose(matrix: MatrixRows) -> Pose:
    return Pose.from_matrix(torch.tensor(matrix, dtype=torch.float64))


def _structured3d(source: Path, _lines_of: LinesOf) -> list[Unit]:
    def make(path: Path) -> UnitResult:
        return UnitResult([Scene(path.parent.name, read_structured3d(path))])

    return [Unit(path.parent.name, partial(make, path)) for path in structured3d_scenes(source)]


def _semantic3d(source: Path, lines_of: LinesOf) -> list[Unit]:
    def make(station: str, path: Path) -> UnitResult:
        lines = lines_of(CloudFrame(station, 0.0, path, viewpoint=None))
        cells = split_into_cells(lines, CELL_SIZE, MIN_CELL_LINES) if len(lines) else ()
        return UnitResult([Scene(f"{station}_{column}_{row}", cell) for (column, row), cell in cells])

    return [Unit(station, partial(make, station, path)) for station, path in semantic3d_clouds(source).items()]


def _authors(source: Path, _lines_of: LinesOf) -> list[Unit]:
    def make(folder: Path) -> UnitResult:
        result = UnitResult()
        for entry in read_authors_pairs(folder):
            sides = f"{entry.name}_source", f"{entry.name}_target"
            result.scenes.extend(
                Scene(name, lines, entry.split)
                for name, lines in zip(sides, (entry.pair.source, entry.pair.target), strict=True)
            )
            pose, matches = _matrix(entry.pair.target_T_source), entry.pair.matches.tolist()
            result.pairs.append(PairEntry(*sides, entry.split, pose, matches))
        return result

    return [Unit(folder.name, partial(make, folder)) for folder in authors_folders(source)]


def _apollo(source: Path, lines_of: LinesOf) -> list[Unit]:
    return [
        unit
        for name, frames in apollo_sequences(source).items()
        for unit in _frames(name.replace("/", "_").replace(" ", "_"), frames, lines_of)
    ]


def _sequence(layout: str) -> Callable[[Path, LinesOf], list[Unit]]:
    def units(source: Path, lines_of: LinesOf) -> list[Unit]:
        return _frames(source.resolve().name, open_sequence(source, layout), lines_of)

    return units


def _frames(sequence: str, frames: Sequence[SensorFrame], lines_of: LinesOf) -> list[Unit]:
    """One unit per frame; frames without lines are dropped and listed by name."""

    def make(name: str, frame: SensorFrame) -> UnitResult:
        lines = lines_of(frame)
        if len(lines) == 0:
            return UnitResult(dropped={name: "no lines found"})
        return UnitResult([Scene(name, lines, "test", frame.world_T_sensor)])

    names = [f"{sequence}__{frame.name}" for frame in frames]
    return [Unit(name, partial(make, name, frame)) for name, frame in zip(names, frames, strict=True)]


DATASETS: dict[str, Dataset] = {
    "structured3d": Dataset("houses, from scene_*/annotation_3d.json", _structured3d),
    "semantic3d": Dataset("10 m cells of scanned towns, from *_xyz_intensity_rgb.txt", _semantic3d),
    "apollo": Dataset(
        "frames of ApolloScape roads such as road02_ins, from ColorImage, Depth and Pose", _apollo, consecutive=True
    ),
    "authors": Dataset("the pairs published with the paper, from *_train and *_valid/*.pkl", _authors),
    "tum": Dataset("frames of a TUM RGB-D sequence", _sequence("tum"), consecutive=True),
    "7scenes": Dataset("frames of a 7-Scenes sequence", _sequence("7scenes"), consecutive=True),
    "kitti": Dataset("scans of a KITTI odometry sequence", _sequence("kitti"), consecutive=True),
}
