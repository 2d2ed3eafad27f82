"""register() on neighbouring 10 m crops of real line maps that nothing was trained on.

The maps do not come with the package. Pairs are cut once and kept in a file, from which any method can be measured; the
same crops of synthetic scenes serve to tune on.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from plueckernet.data.protocols import LinePair
from plueckernet.data.scenes import make_scene
from plueckernet.evaluation.crop_pairs import CropPair, crop_pair, fingerprint, read_pairs
from plueckernet.evaluation.crop_results import OVERLAPS, CropOutcome, CropValues, crop_values
from plueckernet.evaluation.documents import ResultDocument
from plueckernet.evaluation.methods import register_method
from plueckernet.evaluation.predictions import Cell
from plueckernet.evaluation.protocols import EvaluationProtocol, Recorded
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.runner import Runner
from plueckernet.geometry import LineSet

PAIRS = 560
FIRST_SEED = 700_000_000
SYNTHETIC_SEED = 600_000


@dataclass(frozen=True)
class CropFile:
    """The pairs of a file as a dataset."""

    file: Path
    recorded = True

    @property
    def name(self) -> str:
        """That of the file."""
        return f"crops-{self.file.stem}"

    @property
    def label(self) -> str:
        """For tables and figures."""
        return f"crops of {self.file.name}"

    def config(self) -> dict[str, Any]:
        """What predictions depend on."""
        return {"crops": fingerprint(crops_of(self.file))}

    def size(self, _protocol: EvaluationProtocol) -> int | None:
        """Number of pairs."""
        return len(crops_of(self.file))

    def pair(self, _protocol: EvaluationProtocol, index: int) -> LinePair:
        """The pair of that number."""
        return crops_of(self.file)[index].pair


@cache
def crops_of(file: Path) -> list[CropPair]:
    """The pairs of a file, read once."""
    return read_pairs(file)


def evaluate_crops(file: Path, matcher: str, runner: Runner) -> ResultDocument[CropValues]:
    """Measure one matcher on the pairs of a file."""
    method, crops = register_method(matcher), crops_of(file)
    (predictions,) = runner.run([Cell(CropFile(file), Recorded(), method)], len(crops))
    outcomes = [
        CropOutcome(crop.place, crop.overlap, prediction.outcome())
        for crop, prediction in zip(crops, predictions, strict=False)
    ]
    values = crop_values(Path(matcher).stem, fingerprint(crops), outcomes)
    weights = [] if method.weights is None else [method.weights]
    sources = provenance("plueckernet.evaluation.crops", weights, device=runner.settings.device)
    return ResultDocument(f"crops_{Path(matcher).stem}", sources.to_dict(), values)


def synthetic_maps(scenes: int) -> dict[str, LineSet]:
    """Scenes of every kind, by name, to tune on."""
    seeds = range(SYNTHETIC_SEED, SYNTHETIC_SEED + scenes)
    return {f"varied/{seed}": make_scene("varied", seed) for seed in seeds}


def sample_crops(
    maps: dict[str, LineSet],
    pairs: int,
    pool: Executor,
    on_pair: Callable[[], None] = lambda: None,
    first_seed: int = FIRST_SEED,
) -> list[CropPair]:
    """Pairs of all maps and overlaps, as evenly as the maps allow; another first seed gives another draw."""
    crops: list[CropPair] = []
    wanted = -(-pairs // len(OVERLAPS))
    for overlap in range(len(OVERLAPS)):
        cells = _cells(maps, overlap, wanted, pool, on_pair, first_seed)
        in_turns = zip_longest(*([CropPair(name, overlap, pair) for pair in cell] for name, cell in cells.items()))
        crops += [crop for turn in in_turns for crop in turn if crop is not None][:wanted]
    return crops


def _cells(
    maps: dict[str, LineSet], overlap: int, wanted: int, pool: Executor, on_pair: Callable[[], None], first_seed: int
) -> dict[str, list[LinePair]]:
    """Pairs of one overlap by map: each is asked for the same number, then those that can for what others lack."""
    each = -(-wanted // len(maps))
    cells: dict[str, list[LinePair]] = {name: [] for name in maps}
    able = list(maps)
    while able and sum(map(len, cells.values())) < wanted:
        jobs = [(name, len(cells[name]) + more) for name in able for more in range(each)]
        seeds = [first_seed + 1_000_000 * overlap + 10_000 * list(maps).index(name) + number for name, number in jobs]
        made = pool.map(partial(_crop_pair, OVERLAPS[overlap]), [maps[name] for name, _ in jobs], seeds)
        for (name, _), packed in zip(jobs, made, strict=True):
            cells[name] += [] if packed is None else [pickle.loads(packed)]
            on_pair()
        most = max(map(len, cells.values()))
        able = [name for name in able if len(cells[name]) == most]  # a map that fell short once has no more places
    return cells


def _crop_pair(bounds: tuple[float, float], scene: LineSet, seed: int) -> bytes | None:
    """A pair as bytes: each tensor of another process would keep a file open, and a system allows a thousand."""
    torch.set_num_threads(1)
    pair = crop_pair(scene, bounds, seed)
    return None if pair is None else pickle.dumps(pair)


def fallen_short(crops: list[CropPair]) -> list[str]:
    """Maps that could not give their number of pairs at some overlap."""
    count = Counter((crop.place, crop.overlap) for crop in crops)
    places = sorted({crop.place for crop in crops})
    each = len(crops) // (len(OVERLAPS) * max(1, len(places)))
    cells = [(place, overlap) for place in places for overlap in range(len(OVERLAPS)) if count[place, overlap] < each]
    return [f"{place} at {OVERLAPS[overlap]}: {count[place, overlap]}" for place, overlap in cells]
