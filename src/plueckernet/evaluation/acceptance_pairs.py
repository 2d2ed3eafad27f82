"""Pairs that acceptance is measured on: a file of crops, and whole maps of one place at different levels of detail.

The folder has ``crops/pairs.npz``, ``lines/`` and ``more_lines/``, the latter two with a folder for each origin of
maps. It does not come with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.crop_pairs import UNIT
from plueckernet.evaluation.crop_results import OVERLAPS, band_name
from plueckernet.evaluation.crops import CropFile, crops_of
from plueckernet.evaluation.protocols import EvaluationProtocol, LabelledPair
from plueckernet.evaluation.sources import file_hash
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import read_lines

REPETITIONS = 3  # poses of the source, for each case
FIRST_SEED = 930_000_000
KEPT_EDGES = 0.15  # of a house, the longest
BUILDINGS = 20  # in the street
MIN_BUILDING = 300  # lines
BUILDING_NOISE = 0.02  # m, one sigma of the end points on each axis
_CROP_KEYS = {"source", "source_count", "target", "target_count", "target_T_source", "place", "share_low", "share_high"}
_OFFICE = ((0.0, 0.0, 0.0), (0.338, 0.469, -1.739), (-0.040, 0.464, 0.125), (-0.048, 0.465, -1.737))  # from the first
_FZK = {"ade20": 112.0, "multizone": 110.0, "v2": 0.0}  # m above the third


@dataclass(frozen=True)
class CropArchive:
    """The crops of a file that knows no matches."""

    file: Path
    recorded = True

    @property
    def name(self) -> str:
        """That of the file."""
        return f"archive-{self.file.stem}"

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"crops of {self.file.name}"

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        return {"archive": file_hash(self.file)}

    def size(self, _protocol: EvaluationProtocol) -> int | None:
        """Number of pairs."""
        return len(_archive(self.file)["place"])

    def pair(self, _protocol: EvaluationProtocol, index: int) -> LabelledPair:
        """The pair of that number, its source about its centre."""
        arrays = _archive(self.file)
        source, target = (_rows(arrays, side, index) for side in ("source", "target"))
        pose = Pose.from_matrix(torch.from_numpy(arrays["target_T_source"][index]))
        band = band_name(float(arrays["share_low"][index]), float(arrays["share_high"][index]))
        return _about_centre(source, target, pose, str(arrays["place"][index]), band)


class LabelledCrops(CropFile):
    """The crops of a file that ``plueckernet evaluate crops`` wrote, by band."""

    @property
    def name(self) -> str:
        """That of the file."""
        return f"labelled-{self.file.stem}"

    def pair(self, _protocol: EvaluationProtocol, index: int) -> LabelledPair:
        """The pair of that number."""
        crop = crops_of(self.file)[index]
        band, pair = band_name(*OVERLAPS[crop.overlap]), crop.pair
        return LabelledPair(pair.source, pair.target, pair.target_T_source, pair.matches, (crop.place,), band)


@cache
def _archive(file: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(file, allow_pickle=False) as content:
            arrays = dict(content)
    except (OSError, ValueError) as error:
        raise FormatError(file, f"no readable pairs: {error}") from error
    if not set(arrays) >= _CROP_KEYS:
        raise FormatError(file, f"no pairs: missing {', '.join(sorted(_CROP_KEYS - set(arrays)))}")
    return arrays


def _rows(arrays: Mapping[str, np.ndarray], side: str, index: int) -> LineSet:
    first = int(arrays[f"{side}_count"][:index].sum())
    rows = arrays[side][first : first + int(arrays[f"{side}_count"][index])]
    return LineSet.from_segments(torch.from_numpy(rows.astype(np.float64)) * UNIT)


def _about_centre(source: LineSet, target: LineSet, pose: Pose, place: str, band: str) -> LabelledPair:
    """The error of a pose is that at the source's centre if this is the origin."""
    centre = source.centre()
    shift = Pose(torch.eye(3, dtype=torch.float64), centre)
    return LabelledPair(source.shifted(centre), target, pose @ shift, torch.zeros(0, 2).long(), (place,), band)


@dataclass(frozen=True, eq=False)
class MapCase:
    """Two maps of one place, each in its own frame."""

    name: str
    source: LineSet
    target: LineSet
    target_T_source: Pose


@dataclass(frozen=True)
class MapCases:
    """Whole maps of one group, each source turned at random several times."""

    folder: Path
    group: str  # of :data:`GROUPS`
    recorded = True

    @property
    def name(self) -> str:
        """The group, fit for a folder."""
        return self.group.replace(",", "").replace(" ", "-")

    @property
    def label(self) -> str:
        """For tables and figures."""
        return self.group

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        return {"group": self.group, "files": [file_hash(path) for path in _files(self.folder, self.group)]}

    def size(self, _protocol: EvaluationProtocol) -> int | None:
        """Number of pairs."""
        return REPETITIONS * len(_cases(self.folder, self.group))

    def pair(self, _protocol: EvaluationProtocol, index: int) -> LabelledPair:
        """One pose of one case after the other."""
        cases = _cases(self.folder, self.group)
        case, generator = cases[index % len(cases)], torch.Generator().manual_seed(FIRST_SEED + index)
        centre = case.source.centre()
        turn = Pose.random(generator=generator, translation=0.0)  # about the centre, which becomes the origin
        source_T_centred = Pose(torch.eye(3, dtype=torch.float64), centre)
        pose = case.target_T_source @ source_T_centred @ turn.inverse()
        source = turn @ case.source.shifted(centre)
        return LabelledPair(source, case.target, pose, torch.zeros(0, 2).long(), (case.name,), self.group)


@cache
def _cases(folder: Path, group: str) -> tuple[MapCase, ...]:
    return GROUPS[group](folder)


def _files(folder: Path, group: str) -> list[Path]:
    """The maps that a group reads."""
    names = {FZK: "fzk_house", FZK_ROUGH: "fzk_house", CITY: "cityjson", OFFICE: "icl_office", BIM: "bim"}
    name = names.get(group, "ingolstadt")
    paths = sorted(path for path in folder.rglob(f"{name}/*") if path.is_file())
    if not paths:
        raise InputError(f"{folder}: expected a folder {name} below it")
    return paths


def _shift(*offset: float) -> Pose:
    return Pose(torch.eye(3, dtype=torch.float64), torch.tensor(offset, dtype=torch.float64))


def _house(folder: Path) -> tuple[MapCase, ...]:
    """Exports of one house at LoD 3, which differ in height only."""
    maps = {name: read_lines(_file(folder, FZK, f"fzk_lod3_{name}")) for name in _FZK}
    return tuple(
        MapCase(f"{a} in {b}", maps[a], maps[b], _shift(0.0, 0.0, _FZK[b] - _FZK[a])) for a, b in combinations(_FZK, 2)
    )


def _rough_house(folder: Path) -> tuple[MapCase, ...]:
    """LoD 2, which fits in two ways, in each export at LoD 3."""
    rough = read_lines(_file(folder, FZK, "fzk_lod2"))
    maps = {name: read_lines(_file(folder, FZK, f"fzk_lod3_{name}")) for name in _FZK}
    return tuple(MapCase(f"LoD 2 in {name}", rough, maps[name], _shift(0.0, 0.0, _FZK[name])) for name in maps)


def _city(folder: Path) -> tuple[MapCase, ...]:
    path = _file(folder, CITY, "multi_lod")
    return (MapCase("LoD 1.2 in 2.2", read_lines(path, lod="1.2"), read_lines(path, lod="2.2"), Pose.identity()),)


def _office(folder: Path) -> tuple[MapCase, ...]:
    maps = [read_lines(_file(folder, OFFICE, f"office{i}")) for i in range(len(_OFFICE))]
    return tuple(
        MapCase(
            f"session {i} in {j}",
            maps[i],
            maps[j],
            _shift(*(b - a for a, b in zip(_OFFICE[i], _OFFICE[j], strict=True))),
        )
        for i, j in combinations(range(len(maps)), 2)
    )


def _bim(folder: Path) -> tuple[MapCase, ...]:
    cases = []
    for path in _files(folder, BIM):
        house = read_lines(path).replaced(ids=None)
        rows = house.lengths().topk(round(KEPT_EDGES * len(house))).indices
        cases.append(MapCase(f"longest edges of {path.stem}", house[rows].replaced(ids=None), house, Pose.identity()))
    return tuple(cases)


def _street(folder: Path) -> tuple[MapCase, ...]:
    """Buildings in their street, spread evenly over those with enough lines."""
    (path,) = _files(folder, STREET)
    with np.load(path, allow_pickle=False) as content:
        endpoints = torch.from_numpy(content["endpoints"].astype(np.float64))
        building = torch.from_numpy(content["building"].astype(np.int64))
    street = LineSet.from_segments(endpoints)
    able = [number for number in range(int(building.max()) + 1) if int((building == number).sum()) >= MIN_BUILDING]
    chosen = [able[i * len(able) // BUILDINGS] for i in range(min(BUILDINGS, len(able)))]
    return tuple(
        MapCase(f"building {number}", _noisy(endpoints[building == number], number), street, Pose.identity())
        for number in dict.fromkeys(chosen)
    )


def _noisy(endpoints: Float[Tensor, "n 2 3"], seed: int) -> LineSet:
    noise = torch.randn(
        endpoints.shape, generator=torch.Generator().manual_seed(FIRST_SEED + seed), dtype=torch.float64
    )
    return LineSet.from_segments(endpoints + BUILDING_NOISE * noise)


def _file(folder: Path, group: str, stem: str) -> Path:
    path = next((path for path in _files(folder, group) if path.stem == stem), None)
    if path is None:
        raise InputError(f"{folder}: expected a map {stem}")
    return path


FZK, FZK_ROUGH = "FZK house, LoD 3", "FZK house, LoD 2 in LoD 3"
CITY, OFFICE, BIM, STREET = "CityJSON, LoD 1.2 in 2.2", "ICL office", "BIM houses", "Ingolstadt buildings"
GROUPS: dict[str, Callable[[Path], tuple[MapCase, ...]]] = {
    FZK: _house,
    CITY: _city,
    OFFICE: _office,
    BIM: _bim,
    STREET: _street,
    FZK_ROUGH: _rough_house,
}
