"""What to evaluate on: the stand-ins that come with the package, or a folder that `plueckernet prepare` wrote."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from plueckernet.data.prepared import PairEntry, SceneEntry, read_index
from plueckernet.data.protocols import LinePair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.protocols import Protocol, Recorded, draw_pair
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.io import read_lines

FIRST_SEED = 2_000_000  # of scenes that neither scenes nor weights nor confidence were tuned on
PAPER_DATASETS = {"indoor": "Structured3D", "outdoor": "Semantic3D", "block": "Apollo"}


@dataclass(frozen=True)
class StandIn:
    """Synthetic scenes of one kind, held out from training by their seeds."""

    name: str  # kind of :data:`plueckernet.data.scenes.SCENES`
    recorded = False  # pairs are drawn from scenes

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"{self.name} (stand-in for {PAPER_DATASETS[self.name]})"

    def config(self) -> dict[str, Any]:
        """What predictions depend on; generators change, and with them what a seed means."""
        return {"scenes": self.name, "first_seed": FIRST_SEED, "first_scene": _fingerprint(self.name)}

    def size(self, _protocol: Protocol) -> int | None:
        """As many as one likes."""
        return None

    def pair(self, protocol: Protocol, index: int) -> LinePair:
        """One pair of one scene."""
        return draw_pair(make_scene(self.name, FIRST_SEED + index), protocol, index)


@dataclass(frozen=True)
class Prepared:
    """The test part of a prepared dataset: scenes to draw pairs from and, in some, pairs with a known pose."""

    name: str
    folder: Path

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"{self.folder.name} ({self.name})"

    @property
    def recorded(self) -> bool:
        """Whether it has pairs of its own."""
        return bool(_test_pairs(self.folder))

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        content = [asdict(scene) for scene in _test_scenes(self.folder)]
        content += [asdict(pair) for pair in _test_pairs(self.folder)]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        return {"prepared": read_index(self.folder).dataset, "index": digest}

    def size(self, protocol: Protocol) -> int | None:
        """Number of test pairs or scenes."""
        return len(_test_pairs(self.folder) if isinstance(protocol, Recorded) else _test_scenes(self.folder))

    def pair(self, protocol: Protocol, index: int) -> LinePair:
        """One pair, recorded or drawn from one scene."""
        if not isinstance(protocol, Recorded):
            return draw_pair(read_lines(self.folder / _test_scenes(self.folder)[index].file), protocol, index)
        entry = _test_pairs(self.folder)[index]
        source, target = (self._side(name) for name in (entry.source, entry.target))
        pose = Pose.from_matrix(torch.tensor(entry.target_T_source, dtype=torch.float64))
        return LinePair(source, target, pose, torch.tensor(entry.matches or [], dtype=torch.int64).reshape(-1, 2))

    def _side(self, name: str) -> LineSet:
        scene = next((one for one in read_index(self.folder).scenes if one.name == name), None)
        if scene is None:
            raise FormatError(self.folder, f"the index has no scene {name!r}")
        return read_lines(self.folder / scene.file)


Dataset = StandIn | Prepared


def open_datasets(prepared: dict[str, Path]) -> dict[str, Dataset]:
    """The datasets of the paper: stand-ins, some of them replaced by prepared ones."""
    unknown = sorted(set(prepared) - set(PAPER_DATASETS))
    if unknown:
        raise InputError(f"unknown dataset {unknown[0]!r}; there are {', '.join(PAPER_DATASETS)}")
    return {name: Prepared(name, prepared[name]) if name in prepared else StandIn(name) for name in PAPER_DATASETS}


@cache
def _fingerprint(kind: str) -> str:
    """Of the first scene, to a micrometre."""
    lines = make_scene(kind, FIRST_SEED).pluecker()
    return hashlib.sha256((lines * 1e6).round().long().numpy().tobytes()).hexdigest()[:16]


@cache
def _test_scenes(folder: Path) -> tuple[SceneEntry, ...]:
    scenes = tuple(read_index(folder).of_split("test"))
    if not scenes:
        raise FormatError(folder, "no scene in it is for testing")
    return scenes


@cache
def _test_pairs(folder: Path) -> tuple[PairEntry, ...]:
    return tuple(pair for pair in read_index(folder).pairs if pair.split == "test")
