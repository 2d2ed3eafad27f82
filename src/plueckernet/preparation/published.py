"""The datasets that can be prepared, by name, and the units of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from plueckernet.data.datasets import (
    CloudFrame,
    MissingFrame,
    SensorFrame,
    apollo_sequences,
    cell_frame,
    house_frame,
    open_sequence,
    read_authors_pairs,
    read_structured3d,
    semantic3d_census,
    semantic3d_clouds,
    split_into_cells,
    structured3d_scenes,
)
from plueckernet.data.datasets.authors import authors_folders
from plueckernet.data.datasets.semantic3d import CELL_SIZE, MIN_CELL_LINES
from plueckernet.data.prepared import PairEntry
from plueckernet.preparation.units import Dataset, LinesOf, Scene, Unit, UnitResult

_HOUSES = 3500  # of Structured3D


def _structured3d(source: Path, _lines_of: LinesOf) -> list[Unit]:
    return [Unit(path.parent.name, partial(_house, path)) for path in structured3d_scenes(source)]


def _house(path: Path) -> UnitResult:
    lines = read_structured3d(path)
    world_T_scene = house_frame(lines)
    return UnitResult([Scene(path.parent.name, world_T_scene.inverse() @ lines, world_T_scene=world_T_scene)])


def _structured3d_census(source: Path) -> str:
    return f"found {len(structured3d_scenes(source)):,} of {_HOUSES:,} published houses"


def _semantic3d(source: Path, lines_of: LinesOf) -> list[Unit]:
    clouds = semantic3d_clouds(source)
    return [Unit(station, partial(_scan, station, path, lines_of)) for station, path in clouds.items()]


def _scan(station: str, path: Path, lines_of: LinesOf) -> UnitResult:
    """The cells of a scan, each in its own frame."""
    lines = lines_of(CloudFrame(station, 0.0, path, viewpoint=None))
    result = UnitResult()
    for (column, row), cell in split_into_cells(lines, CELL_SIZE, MIN_CELL_LINES) if len(lines) else ():
        world_T_scene = cell_frame((column, row), CELL_SIZE)
        local = world_T_scene.inverse() @ cell
        result.scenes.append(Scene(f"{station}_{column}_{row}", local, world_T_scene=world_T_scene))
    return result


def _authors(source: Path, _lines_of: LinesOf, dataset: str | None = None) -> list[Unit]:
    return [Unit(folder.name, partial(_recorded, folder)) for folder in authors_folders(source, dataset)]


def _recorded(folder: Path) -> UnitResult:
    """The two sides of each pair as scenes, and the pair."""
    result = UnitResult()
    for entry in read_authors_pairs(folder):
        sides = f"{entry.name}_source", f"{entry.name}_target"
        result.scenes.extend(
            Scene(name, lines, entry.split)
            for name, lines in zip(sides, (entry.pair.source, entry.pair.target), strict=True)
        )
        pose, matches = entry.pair.target_T_source.matrix().tolist(), entry.pair.matches.tolist()
        result.pairs.append(PairEntry(*sides, entry.split, pose, matches))
    return result


def _apollo(source: Path, lines_of: LinesOf) -> list[Unit]:
    return [
        unit
        for name, frames in apollo_sequences(source).items()
        for unit in _frames(name.replace("/", "_").replace(" ", "_"), frames, lines_of)
    ]


def _apollo_census(source: Path) -> str:
    frames = [frame for sequence in apollo_sequences(source).values() for frame in sequence]
    missing = sum(isinstance(frame, MissingFrame) for frame in frames)
    return f"found {len(frames) - missing:,} of {len(frames):,} frames; {missing:,} lack an image"


def _sequence(layout: str) -> Callable[[Path, LinesOf], list[Unit]]:
    def units(source: Path, lines_of: LinesOf) -> list[Unit]:
        return _frames(source.resolve().name, open_sequence(source, layout), lines_of)

    return units


def _frames(sequence: str, frames: Sequence[SensorFrame | MissingFrame], lines_of: LinesOf) -> list[Unit]:
    names = [f"{sequence}__{frame.name}" for frame in frames]
    return [Unit(name, partial(_frame, name, frame, lines_of)) for name, frame in zip(names, frames, strict=True)]


def _frame(name: str, frame: SensorFrame | MissingFrame, lines_of: LinesOf) -> UnitResult:
    """One scene; frames without lines or without an image are dropped and listed by name."""
    if isinstance(frame, MissingFrame):
        return UnitResult(dropped={name: frame.reason})
    lines = lines_of(frame)
    if len(lines) == 0:
        return UnitResult(dropped={name: "no lines found"})
    return UnitResult([Scene(name, lines, "test", frame.world_T_sensor)])


_PAIRS = "the pairs published with the paper, from *_train and *_valid/*.pkl"
DATASETS: dict[str, Dataset] = {
    "structured3d": Dataset("houses, from scene_*/annotation_3d.json", _structured3d, census=_structured3d_census),
    "semantic3d": Dataset(
        "10 m cells of scanned towns, from *_intensity_rgb.txt", _semantic3d, census=semantic3d_census
    ),
    "apollo": Dataset(
        "frames of ApolloScape roads such as road02_ins, from ColorImage, Depth and Pose",
        _apollo,
        consecutive=True,
        census=_apollo_census,
    ),
    "authors-structured3d": Dataset(f"{_PAIRS}: houses", partial(_authors, dataset="structured3d")),
    "authors-semantic3d": Dataset(f"{_PAIRS}: cells", partial(_authors, dataset="semantic3d")),
    "authors-apollo": Dataset(f"{_PAIRS}: frames", partial(_authors, dataset="apollo")),
    "authors": Dataset(f"{_PAIRS} of a single dataset", _authors),
    "tum": Dataset("frames of a TUM RGB-D sequence", _sequence("tum"), consecutive=True),
    "7scenes": Dataset("frames of a 7-Scenes sequence", _sequence("7scenes"), consecutive=True),
    "kitti": Dataset("scans of a KITTI odometry sequence", _sequence("kitti"), consecutive=True),
}
