"""From a published dataset to a prepared folder, in steps that can be interrupted.

A dataset is a list of units: a house, a scan, a frame. Each unit gives scenes, which are written at once, and then a
note that it is done; a run that was interrupted goes on after the last note. When all are done, the scenes are divided
into ``train`` and ``test`` and the index is written.
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
    Frame,
    apollo_sequences,
    open_sequence,
    read_authors_pairs,
    read_structured3d,
    semantic3d_clouds,
    split_into_cells,
    structured3d_scenes,
)
from plueckernet.data.datasets.authors import authors_folders
from plueckernet.data.datasets.semantic3d import CELL, FEWEST
from plueckernet.data.prepared import SPLITS, Matrix, PairEntry, PreparedIndex, SceneEntry, write_index
from plueckernet.data.splits import split_names
from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import write_lines
from plueckernet.io.atomic import atomic_write
from plueckernet.sensing import frame_lines

_WORK = ".unfinished"  # holds scenes and notes until all are there
_UNDECIDED = "undecided"  # the split of a scene until the number of scenes is known

LinesOf = Callable[[Frame], LineSet]


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene to be written."""

    name: str
    lines: LineSet
    split: str = _UNDECIDED
    world_T_scene: Pose | None = None


@dataclass(frozen=True, eq=False)
class Made:
    """What one unit gives."""

    scenes: list[Scene] = field(default_factory=list)
    pairs: list[PairEntry] = field(default_factory=list)
    dropped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unit:
    """A part of a dataset that is prepared in one go."""

    name: str
    make: Callable[[], Made]


@dataclass(frozen=True)
class Dataset:
    """How a dataset is prepared."""

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
    """Prepare the dataset of that name, or go on where an earlier run was interrupted.

    Args:
        name: One of :data:`DATASETS`.
        source: The folder with the files as published.
        out: The folder to write; made if it is not there.
        seed: Of the division into train and test.
        lines_of: Finds the lines of a frame or cloud.
        progress: Called with the share done, in [0, 1].
    """
    if name not in DATASETS:
        raise InputError(f"unknown dataset {name!r}; there are {', '.join(DATASETS)}")
    if not source.is_dir():
        raise FormatError(source, "expected a folder")
    units = DATASETS[name].units(source, lines_of)
    settings = {"source": source.resolve().name, "seed": seed}
    work = _work_folder(out, {"dataset": name, **settings})
    for place, unit in enumerate(units):
        if not _note(work, unit).exists():
            _write(work, unit)
        if progress is not None:
            progress((place + 1) / len(units))
    notes = [json.loads(_note(work, unit).read_text(encoding="utf-8")) for unit in units]
    index = _index(name, settings, notes, DATASETS[name].consecutive)
    return _finished(out, work, index)


def _work_folder(out: Path, wanted: dict[str, Any]) -> Path:
    """The folder of unfinished work, if it is of the same dataset and settings."""
    work = out / _WORK
    begun = work / "settings.json"
    if (out / "index.json").exists():
        raise InputError(f"{out}: there is a prepared dataset already; remove it or choose another folder")
    if begun.exists():
        earlier = json.loads(begun.read_text(encoding="utf-8"))
        if earlier != wanted:
            raise InputError(f"{out}: begun with {earlier}, not {wanted}; remove it or choose another folder")
        return work
    try:
        (work / "notes").mkdir(parents=True, exist_ok=True)
        (work / "scenes").mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made: {error.strerror}") from error
    with atomic_write(begun) as stream:
        stream.write(json.dumps(wanted))
    return work


def _note(work: Path, unit: Unit) -> Path:
    return work / "notes" / f"{unit.name}.json"


def _write(work: Path, unit: Unit) -> None:
    """The scenes of a unit, then its note."""
    made = unit.make()
    for scene in made.scenes:
        write_lines(work / "scenes" / f"{scene.name}.npz", scene.lines)
    note = {
        "scenes": [asdict(_entry(scene)) for scene in made.scenes],
        "pairs": [asdict(pair) for pair in made.pairs],
        "dropped": made.dropped,
    }
    with atomic_write(_note(work, unit)) as stream:
        stream.write(json.dumps(note, allow_nan=False))


def _entry(scene: Scene) -> SceneEntry:
    pose = None if scene.world_T_scene is None else _matrix(scene.world_T_scene)
    return SceneEntry(scene.name, scene.split, len(scene.lines), pose)


def _index(name: str, settings: dict[str, Any], notes: list[dict[str, Any]], consecutive: bool) -> PreparedIndex:
    scenes = [SceneEntry(**entry) for note in notes for entry in note["scenes"]]
    drawn = split_names([scene.name for scene in scenes if scene.split == _UNDECIDED], settings["seed"])
    scenes = [SceneEntry(**asdict(scene) | {"split": drawn.get(scene.name, scene.split)}) for scene in scenes]
    pairs = [PairEntry(**entry) for note in notes for entry in note["pairs"]]
    if consecutive:
        pairs += list(_consecutive(scenes))
    dropped = {what: why for note in notes for what, why in note["dropped"].items()}
    if not scenes:
        raise InputError(f"{name}: no scene is left; {len(dropped)} were dropped")
    return PreparedIndex(name, settings, scenes, pairs, dropped)


def _consecutive(scenes: Sequence[SceneEntry]) -> Iterator[PairEntry]:
    """Each frame with the one before it in the same sequence, where both poses are known."""
    for before, after in pairwise(scenes):
        same = before.name.rpartition("__")[0] == after.name.rpartition("__")[0]
        if same and before.world_T_scene is not None and after.world_T_scene is not None:
            pose = _pose(before.world_T_scene).inverse() @ _pose(after.world_T_scene)
            yield PairEntry(after.name, before.name, "test", _matrix(pose))


def _finished(out: Path, work: Path, index: PreparedIndex) -> PreparedIndex:
    """Scenes to their splits, the index last; each step may have been done by a run before."""
    for split in SPLITS:
        (out / split).mkdir(exist_ok=True)
    for scene in index.scenes:
        unfinished = work / "scenes" / f"{scene.name}.npz"
        if unfinished.exists():
            unfinished.replace(out / scene.file)
    write_index(out, index)
    shutil.rmtree(work)
    return index


def _matrix(pose: Pose) -> Matrix:
    return pose.matrix().tolist()


def _pose(matrix: Matrix) -> Pose:
    return Pose.from_matrix(torch.tensor(matrix, dtype=torch.float64))


def _structured3d(source: Path, _lines_of: LinesOf) -> list[Unit]:
    def make(path: Path) -> Made:
        return Made([Scene(path.parent.name, read_structured3d(path))])

    return [Unit(path.parent.name, partial(make, path)) for path in structured3d_scenes(source)]


def _semantic3d(source: Path, lines_of: LinesOf) -> list[Unit]:
    def make(station: str, path: Path) -> Made:
        lines = lines_of(CloudFrame(station, 0.0, path))
        cells = split_into_cells(lines, CELL, FEWEST) if len(lines) else ()
        return Made([Scene(f"{station}_{column}_{row}", cell) for (column, row), cell in cells])

    return [Unit(station, partial(make, station, path)) for station, path in semantic3d_clouds(source).items()]


def _authors(source: Path, _lines_of: LinesOf) -> list[Unit]:
    def make(folder: Path) -> Made:
        made = Made()
        for one in read_authors_pairs(folder):
            sides = f"{one.name}_source", f"{one.name}_target"
            made.scenes.extend(
                Scene(name, lines, one.split)
                for name, lines in zip(sides, (one.pair.source, one.pair.target), strict=True)
            )
            pose, matches = _matrix(one.pair.target_T_source), one.pair.matches.tolist()
            made.pairs.append(PairEntry(*sides, one.split, pose, matches))
        return made

    return [Unit(folder.name, partial(make, folder)) for folder in authors_folders(source)]


def _apollo(source: Path, lines_of: LinesOf) -> list[Unit]:
    return [
        unit
        for place, frames in apollo_sequences(source).items()
        for unit in _frames(place.replace("/", "_").replace(" ", "_"), frames, lines_of)
    ]


def _sequence(layout: str) -> Callable[[Path, LinesOf], list[Unit]]:
    def units(source: Path, lines_of: LinesOf) -> list[Unit]:
        return _frames(source.resolve().name, open_sequence(source, layout), lines_of)

    return units


def _frames(sequence: str, frames: Sequence[Frame], lines_of: LinesOf) -> list[Unit]:
    """A unit a frame; a frame without lines is dropped by name."""

    def make(name: str, frame: Frame) -> Made:
        lines = lines_of(frame)
        if len(lines) == 0:
            return Made(dropped={name: "no lines found"})
        return Made([Scene(name, lines, "test", frame.world_T_sensor)])

    names = [f"{sequence}__{frame.name}" for frame in frames]
    return [Unit(name, partial(make, name, frame)) for name, frame in zip(names, frames, strict=True)]


DATASETS: dict[str, Dataset] = {
    "structured3d": Dataset("houses, from scene_*/annotation_3d.json", _structured3d),
    "semantic3d": Dataset("10 m cells of scanned towns, from *_xyz_intensity_rgb.txt", _semantic3d),
    "apollo": Dataset("frames of road02_ins and the like, from ColorImage, Depth and Pose", _apollo, consecutive=True),
    "authors": Dataset("the pairs published with the paper, from *_train and *_valid/*.pkl", _authors),
    "tum": Dataset("frames of a TUM RGB-D sequence", _sequence("tum"), consecutive=True),
    "7scenes": Dataset("frames of a 7-Scenes sequence", _sequence("7scenes"), consecutive=True),
    "kitti": Dataset("scans of a KITTI odometry sequence", _sequence("kitti"), consecutive=True),
}
