"""What to evaluate on: the stand-ins that come with the package, or a folder that `plueckernet prepare` wrote."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from plueckernet.data.prepared import PairEntry, PreparedIndex, SceneEntry, read_index
from plueckernet.data.protocols import LinePair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.protocols import EvaluationProtocol, Unrelated, draw_pair, draw_unrelated, from_recorded
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.io import read_lines

FIRST_SEED = 2_000_000  # of scenes that neither scenes nor weights nor confidence were tuned on
PAPER_DATASETS = {"indoor": "Structured3D", "outdoor": "Semantic3D", "street": "Apollo"}


@runtime_checkable
class EvaluationDataset(Protocol):
    """Pairs to evaluate on, by number."""

    @property
    def name(self) -> str:
        """Fit for a folder."""

    @property
    def label(self) -> str:
        """For tables and figures."""

    @property
    def recorded(self) -> bool:
        """Whether it has its own pairs."""

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""

    def size(self, protocol: EvaluationProtocol) -> int | None:
        """Number of pairs; None if there is no end to them."""

    def pair(self, protocol: EvaluationProtocol, index: int) -> LinePair:
        """The pair of that number."""


@dataclass(frozen=True)
class StandIn:
    """Synthetic scenes of one kind, held out from training by their seeds."""

    kind: str  # of :data:`plueckernet.data.scenes.SCENES`
    first_seed: int = FIRST_SEED  # of the scenes
    first_pair_seed: int = 0
    recorded = False  # pairs are drawn from scenes

    @property
    def name(self) -> str:
        """The kind, with the first seed where it is not the usual one."""
        return self.kind if self.first_seed == FIRST_SEED else f"{self.kind}-{self.first_seed}"

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"{self.kind} (stand-in for {PAPER_DATASETS[self.kind]})" if self.kind in PAPER_DATASETS else self.kind

    def config(self) -> dict[str, Any]:
        """What predictions depend on; generators change, and with them what a seed means."""
        seeds = {"first_seed": self.first_seed, "first_pair_seed": self.first_pair_seed}
        return {"scenes": self.kind, **seeds, "first_scene": _fingerprint(self.kind, self.first_seed)}

    def size(self, _protocol: EvaluationProtocol) -> int | None:
        """Scenes have no end."""
        return None

    def pair(self, protocol: EvaluationProtocol, index: int) -> LinePair:
        """One pair of one scene, or of two where nothing is to be found."""
        scene, seed = self.scene(index), self.first_pair_seed + index
        if isinstance(protocol, Unrelated):
            return draw_unrelated(scene, self.scene(index + protocol.seeds_apart), seed, protocol.infinite)
        return draw_pair(scene, protocol, seed)

    def scene(self, index: int) -> LineSet:
        """The scene of that number."""
        return make_scene(self.kind, self.first_seed + index)


@dataclass(frozen=True)
class Prepared:
    """The test part of a prepared dataset: scenes to draw pairs from or, in some, pairs with a known pose.

    Recorded pairs have their own noise. Where there are some, no pair is drawn from scenes and no noise is added.
    """

    name: str
    folder: Path

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"{self.folder.name} ({self.name})"

    @property
    def recorded(self) -> bool:
        """Whether it has its own pairs."""
        return bool(_tested(self.folder).pairs)

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        tested = _tested(self.folder)
        return {"prepared": tested.index.dataset, "index": tested.digest}

    def size(self, _protocol: EvaluationProtocol) -> int | None:
        """Number of test pairs or, where none are recorded, of test scenes."""
        tested = _tested(self.folder)
        return len(tested.pairs or tested.scenes)

    def pair(self, protocol: EvaluationProtocol, index: int) -> LinePair:
        """One pair, recorded or drawn from one scene."""
        pairs = _tested(self.folder).pairs
        if not pairs:
            return draw_pair(self.scene(index), protocol, index)
        entry = pairs[index]
        source, target = (self._side(name) for name in (entry.source, entry.target))
        pose = Pose.from_matrix(torch.tensor(entry.target_T_source, dtype=torch.float64))
        matches = torch.tensor(entry.matches or [], dtype=torch.int64).reshape(-1, 2)
        return from_recorded(LinePair(source, target, pose, matches), protocol, index)

    def scene(self, index: int) -> LineSet:
        """The test scene of that number."""
        return read_lines(self.folder / _tested(self.folder).scenes[index].file)

    def scene_count(self) -> int:
        """Number of test scenes."""
        return len(_tested(self.folder).scenes)

    def _side(self, name: str) -> LineSet:
        file = _tested(self.folder).files.get(name)
        if file is None:
            raise FormatError(self.folder, f"the index has no scene {name!r}")
        return read_lines(self.folder / file)


def open_datasets(prepared: dict[str, Path]) -> dict[str, StandIn | Prepared]:
    """The datasets of the paper: stand-ins, some of them replaced by prepared ones."""
    unknown = sorted(set(prepared) - set(PAPER_DATASETS))
    if unknown:
        raise InputError(f"unknown dataset {unknown[0]!r}; there are {', '.join(PAPER_DATASETS)}")
    return {name: Prepared(name, prepared[name]) if name in prepared else StandIn(name) for name in PAPER_DATASETS}


@cache
def _fingerprint(kind: str, first_seed: int) -> str:
    """Of the first scene, to a micrometre."""
    lines = make_scene(kind, first_seed).pluecker()
    return hashlib.sha256((lines * 1e6).round().long().numpy().tobytes()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class _Tested:
    """What the index says about testing."""

    index: PreparedIndex
    scenes: tuple[SceneEntry, ...]
    pairs: tuple[PairEntry, ...]
    files: dict[str, str]  # of all scenes, by name
    digest: str  # of scenes and pairs


@cache
def _tested(folder: Path) -> _Tested:
    """Read the index once: that of the authors' pairs has thousands of matches for each pair."""
    index = read_index(folder)
    scenes = tuple(index.of_split("test"))
    if not scenes:
        raise FormatError(folder, "no scene in it is for testing")
    pairs = tuple(pair for pair in index.pairs if pair.split == "test")
    content = [asdict(scene) for scene in scenes] + [asdict(pair) for pair in pairs]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    return _Tested(index, scenes, pairs, {scene.name: scene.file for scene in index.scenes}, digest)
