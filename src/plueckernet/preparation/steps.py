"""Conversion of a published dataset to a prepared folder, in steps that can be interrupted.

A dataset is a list of units: a house, a scan or a frame. The scenes of a unit are written first, then a record that the
unit is complete. An interrupted run continues after the last record. When all units are complete, the scenes are
split into ``train`` and ``test`` and the index is written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from plueckernet.data.prepared import SPLITS, MatrixRows, PairEntry, PreparedIndex, SceneEntry, write_index
from plueckernet.data.splits import split_names
from plueckernet.errors import FormatError, InputError
from plueckernet.geometry import Pose
from plueckernet.io import write_lines
from plueckernet.io.atomic import atomic_write
from plueckernet.io.files import read_json
from plueckernet.parallel import Executor, InlineExecutor, ProcessExecutor
from plueckernet.preparation.published import DATASETS
from plueckernet.preparation.units import UNDECIDED, Dataset, LinesOf, Scene, Unit
from plueckernet.sensing import frame_lines

_WORK = ".unfinished"  # has scenes and records until the dataset is complete
Record = dict[str, Any]  # of a complete unit: its scenes, its pairs, what it dropped


def census(name: str, source: Path) -> str:
    """How much of what is published the folder has, in words; empty if that is not known for the dataset."""
    count = _dataset(name, source).census
    return "" if count is None else count(source)


def prepare(
    name: str,
    source: Path,
    out: Path,
    *,
    seed: int = 0,
    lines_of: LinesOf = frame_lines,
    workers: int | Executor = 1,
    progress: Callable[[float], None] | None = None,
) -> PreparedIndex:
    """Prepare a dataset, or continue an interrupted run.

    Args:
        name: One of :data:`DATASETS`.
        source: The folder with the files as published.
        out: The folder to write; created if it does not exist.
        seed: Seed of the split into train and test.
        lines_of: Extracts the lines of a frame or cloud.
        workers: Number of processes that prepare units at the same time, or an executor. On a cluster, all nodes have
            to share both folders.
        progress: Called with the completed fraction, in [0, 1].
    """
    dataset = _dataset(name, source)
    units = dataset.units(source, lines_of)
    settings = {"source": source.resolve().name, "seed": seed}
    work = _work_folder(out, {"dataset": name, **settings})
    missing = [unit for unit in units if not _record(work, unit).exists()]
    for done, _ in enumerate(_written(work, missing, workers), 1 + len(units) - len(missing)):
        if progress is not None:
            progress(done / len(units))
    records = [read_json(_record(work, unit)) for unit in units]
    return _finished(out, work, _index(name, settings, records, dataset.consecutive))


def _dataset(name: str, source: Path) -> Dataset:
    if name not in DATASETS:
        raise InputError(f"unknown dataset {name!r}; available: {', '.join(DATASETS)}")
    if not source.is_dir():
        raise FormatError(source, "expected a folder")
    return DATASETS[name]


def _written(work: Path, units: Sequence[Unit], workers: int | Executor) -> Iterator[None]:
    """Write each unit, with several workers in any order; after an error no new unit is started."""
    if isinstance(workers, int):
        workers = InlineExecutor() if workers <= 1 or len(units) <= 1 else ProcessExecutor(workers)
    with closing(workers.run(partial(_write, work.absolute()), units)) as outcomes:
        for outcome in outcomes:
            outcome.result()
            yield


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


def _index(name: str, settings: dict[str, Any], records: list[Record], consecutive: bool) -> PreparedIndex:
    scenes = [SceneEntry(**entry) for record in records for entry in record["scenes"]]
    drawn = split_names([scene.name for scene in scenes if scene.split == UNDECIDED], settings["seed"])
    scenes = [SceneEntry(**asdict(scene) | {"split": drawn.get(scene.name, scene.split)}) for scene in scenes]
    pairs = [PairEntry(**entry) for record in records for entry in record["pairs"]]
    if consecutive:
        pairs += list(_consecutive(records))
    dropped = {what: why for record in records for what, why in record["dropped"].items()}
    if not scenes:
        raise InputError(f"{name}: no scene is left; {len(dropped)} were dropped")
    return PreparedIndex(name, settings, scenes, pairs, dropped)


def _consecutive(records: Sequence[Record]) -> Iterator[PairEntry]:
    """Pairs of each frame with the previous frame of the same sequence, if both poses are known.

    A frame that was dropped has a record without a scene, so that its neighbours are no pair.
    """
    for before, after in pairwise(records):
        for target, source in zip(before["scenes"], after["scenes"], strict=False):
            same = target["name"].rpartition("__")[0] == source["name"].rpartition("__")[0]
            if same and target["world_T_scene"] is not None and source["world_T_scene"] is not None:
                pose = _pose(target["world_T_scene"]).inverse() @ _pose(source["world_T_scene"])
                yield PairEntry(source["name"], target["name"], "test", _matrix(pose))


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
