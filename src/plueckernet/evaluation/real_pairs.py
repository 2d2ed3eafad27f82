"""Pairs of real maps by kind, as datasets: number and seed fix a pair, which any process makes for itself.

Kinds are neighbouring crops, sparse against dense, a piece in a whole, tiny maps, maps that repeat themselves, with and
without distinct details, and unrelated maps. Every pair names the places that it shows, so that a calibration can leave
them out.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from plueckernet.errors import InputError
from plueckernet.evaluation.protocols import EvaluationProtocol, LabelledPair
from plueckernet.evaluation.real_crops import neighbours, piece_and_whole, sparse_and_dense, tiny, unrelated
from plueckernet.evaluation.real_maps import place_of, read_maps, read_roofs
from plueckernet.evaluation.repetition import SHAPES, symmetric, with_details
from plueckernet.evaluation.sources import file_hash
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.upright import turn_about

CALIBRATION_SEED = 910_000_000
ATTEMPTS = 12  # places tried on each map
ROOF_FRACTION = 0.15  # of the sides of unrelated pairs
MEASURED_ONLY = frozenset({"fzk_house", "icl_office"})  # folders of whole maps that are measured, not calibrated on


class PairKind(enum.StrEnum):
    """How a pair is made."""

    NEIGHBOURS = "neighbours"
    SPARSE = "sparse-dense"
    PIECE = "piece-whole"
    TINY = "tiny"
    SYMMETRIC = "symmetric"
    DETAILS = "repetition-details"
    UNRELATED = "unrelated"


_Maker = Callable[[LineSet, str, torch.Generator], LabelledPair | None]
_CUT: Mapping[PairKind, _Maker] = {
    PairKind.NEIGHBOURS: neighbours,
    PairKind.SPARSE: sparse_and_dense,
    PairKind.PIECE: piece_and_whole,
    PairKind.TINY: tiny,
}
_REPEATED: Mapping[PairKind, Callable[[str, torch.Generator], LabelledPair]] = {
    PairKind.SYMMETRIC: symmetric,
    PairKind.DETAILS: with_details,
}


@dataclass(frozen=True)
class RealPairs:
    """Pairs of one kind, made of the maps in some folders."""

    kind: PairKind
    folders: tuple[Path, ...] = ()  # not needed by maps that repeat themselves, which are synthetic
    first_seed: int = CALIBRATION_SEED
    upright: bool = False  # z is vertical in both maps of a pair
    infinite: bool = False  # the lines of both have no ends
    recorded = True

    @property
    def name(self) -> str:
        """The kind and the first seed, and whether pairs are upright or infinite."""
        return "-".join([*self._special, str(self.kind), str(self.first_seed)])

    @property
    def label(self) -> str:
        """For tables and figures."""
        return str(self.kind).replace("-", " ")

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        files = _files_hash(self.folders) if self.kind not in _REPEATED else ""
        config = {"pairs": str(self.kind), "first_seed": self.first_seed, "maps": files}
        return config | dict.fromkeys(self._special, True)

    def size(self, _protocol: EvaluationProtocol) -> int | None:
        """There is no end to them."""
        return None

    def pair(self, _protocol: EvaluationProtocol, index: int) -> LabelledPair:
        """The pair of that number."""
        return self.labelled(index)

    def labelled(self, index: int) -> LabelledPair:
        """The pair of that number: of one map after the other, or of one shape after the other."""
        generator = torch.Generator().manual_seed(
            self.first_seed + _SEEDS_APART * list(PairKind).index(self.kind) + index
        )
        pair = self._drawn(index, generator)
        pair = _stood_up(pair, generator) if self.upright else pair
        if not self.infinite:
            return pair
        return replace(pair, source=pair.source.infinite(), target=pair.target.infinite())

    @property
    def _special(self) -> list[str]:
        """What is not as usual."""
        return [name for name in ("upright", "infinite") if getattr(self, name)]

    def _drawn(self, index: int, generator: torch.Generator) -> LabelledPair:
        if self.kind in _REPEATED:
            return _REPEATED[self.kind](list(SHAPES)[index % len(SHAPES)], generator)
        if self.kind is PairKind.UNRELATED:
            return _unrelated(_maps(self.folders), _roofs(self.folders), generator)
        return _cut(_CUT[self.kind], _maps(self.folders), index, generator)


_SEEDS_APART = 1_000_000  # of two kinds


def _stood_up(pair: LabelledPair, generator: torch.Generator) -> LabelledPair:
    """The same maps with the target turned until z is its vertical, too, and then about that at random."""
    if pair.family is not None:
        raise InputError("maps that repeat themselves are not drawn upright: not every pose of their family is a turn")
    angle = math.tau * torch.rand((), generator=generator, dtype=torch.float64)
    turn = turn_about(torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), angle)
    motion = Pose(turn @ pair.target_T_source.rotation.mT, torch.zeros(3, dtype=torch.float64))
    return replace(pair, target=motion @ pair.target, target_T_source=motion @ pair.target_T_source)


def _cut(make: _Maker, maps: Mapping[str, LineSet], index: int, generator: torch.Generator) -> LabelledPair:
    """Of the map whose turn it is; of the next ones where it has no such place."""
    names = list(maps)
    for turn in range(len(names)):
        name = names[(index + turn) % len(names)]
        for _ in range(ATTEMPTS):
            pair = make(maps[name], place_of(name), generator)
            if pair is not None:
                return pair
    raise InputError(f"no map has a place for {make.__name__}")


def _unrelated(maps: Mapping[str, LineSet], roofs: Mapping[str, LineSet], generator: torch.Generator) -> LabelledPair:
    """Of two maps or roofs that show different places."""
    while True:
        chosen = [_drawn_map(maps, roofs, generator) for _ in range(2)]
        places = (place_of(chosen[0][0]), place_of(chosen[1][0]))
        if places[0] == places[1]:
            continue
        pair = unrelated((chosen[0][1], chosen[1][1]), places, generator)
        if pair is not None:
            return pair


def _drawn_map(
    maps: Mapping[str, LineSet], roofs: Mapping[str, LineSet], generator: torch.Generator
) -> tuple[str, LineSet]:
    pool = roofs if roofs and torch.rand((), generator=generator) < ROOF_FRACTION else maps
    name = list(pool)[int(torch.randint(len(pool), (), generator=generator))]
    return name, pool[name]


@cache
def _maps(folders: tuple[Path, ...]) -> dict[str, LineSet]:
    """All maps that are large enough to cut crops from; reading them takes about a second."""
    maps = {name: lines for folder in folders for name, lines in read_maps(folder).items()}
    maps = {name: lines for name, lines in maps.items() if name.partition("/")[0] not in MEASURED_ONLY}
    if len({place_of(name) for name in maps}) < 2:
        raise InputError(
            f"expected line maps of two places or more below {', '.join(map(str, folders)) or 'no folder'}"
        )
    return maps


@cache
def _roofs(folders: tuple[Path, ...]) -> dict[str, LineSet]:
    return read_roofs(folders)


@cache
def _files_hash(folders: tuple[Path, ...]) -> str:
    """Of the names and the bytes of all maps, wherever the folders are."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(folder).as_posix()} {file_hash(path)}\n".encode())
    return digest.hexdigest()[:16]
