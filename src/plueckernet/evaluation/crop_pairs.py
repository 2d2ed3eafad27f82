"""Neighbouring crops of real line maps: how the pairs are made, written to one file and read back.

Two surveys record the same 10 m by 10 m of a map, of any height, and then places that lie further and further apart,
until the fraction of lines in common is the wanted one. Each survey misses a fifth of the lines, breaks and cuts the
others and displaces them (:class:`plueckernet.data.scan.Survey`); the target is then put anywhere, any way round.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.data.protocols import LinePair
from plueckernet.data.scan import Fragments, Survey, survey, surveyed_matches
from plueckernet.geometry import LineSet, Pose

SIDE = 10.0  # m of a crop
SURVEY = Survey(missing=0.2)
TRANSLATION = 10.0  # m
MIN_LINES = 25  # of a crop
MAX_LINES = 600  # of a crop: the longest, of maps that show every edge twice or more
ATTEMPTS = 60  # places tried for one pair
HALVINGS = 10  # of the distance between crops: 14 m to 1 cm
UNIT = 1e-4  # m; coordinates are rounded to it, so that pairs take little room


@dataclass(frozen=True, eq=False)
class CropPair:
    """One pair and where it comes from."""

    place: str  # name of the map
    overlap: int  # row of :data:`plueckernet.evaluation.crop_results.OVERLAPS`
    pair: LinePair


def crop_pair(scene: LineSet, overlap: tuple[float, float], seed: int, how: Survey = SURVEY) -> LinePair | None:
    """Two neighbouring crops with about that fraction in common; None where no place of the map has them."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(ATTEMPTS):
        pair = crop_pair_once(scene, overlap, generator, how)
        if pair is not None:
            return pair
    return None


def crop_pair_once(
    scene: LineSet, overlap: tuple[float, float], generator: torch.Generator, how: Survey = SURVEY
) -> LinePair | None:
    """One attempt: two crops on either side of a place close to a random line."""
    low, high = overlap
    wanted = low + (high - low) * float(torch.rand((), generator=generator))
    around = around_place(scene, SIDE, generator)
    surveys = [survey(around, how, generator) for _ in range(2)]
    turn, heading = (math.tau * torch.rand(2, generator=generator)).tolist()
    lower, upper = 0.0, math.sqrt(2) * SIDE  # bounds of the distance between the crops
    for _ in range(HALVINGS):
        distance = (lower + upper) / 2
        crops = [
            square(fragments, SIDE, turn, heading, side * distance / 2)
            for fragments, side in zip(surveys, (-1, 1), strict=True)
        ]
        crops = [longest(crop, MAX_LINES) for crop in crops]
        matches = surveyed_matches(*crops)
        lower, upper = (distance, upper) if fraction_in_common(crops, matches) > wanted else (lower, distance)
    if min(len(crop) for crop in crops) < MIN_LINES or not low <= fraction_in_common(crops, matches) < high:
        return None
    target_T_source = Pose.random(generator=generator, translation=TRANSLATION)
    source, target = (crop.lines().flipped(torch.rand(len(crop), generator=generator) < 0.5) for crop in crops)
    return LinePair(rounded(source), rounded(target_T_source @ target), target_T_source, matches)


def around_place(scene: LineSet, side: float, generator: torch.Generator) -> LineSet:
    """The lines near a random place, which becomes the origin: all that a square of that side can show."""
    middles, half_lengths = scene.midpoints(), scene.lengths() / 2
    row = int(torch.randint(len(scene), (), generator=generator))
    jitter = torch.rand(2, generator=generator, dtype=torch.float64) - 0.5
    centre = middles[row].clone()
    centre[:2] += side / 2 * jitter
    near = (middles - centre)[:, :2].norm(dim=-1) < half_lengths + 2 * side
    return scene[near].replaced(ids=None).shifted(centre)


def square(
    fragments: Fragments, side: float, turn: float = 0.0, heading: float = 0.0, offset: float = 0.0
) -> Fragments:
    """Lines in a square turned by ``turn``, its middle ``offset`` from the origin in the direction ``heading``."""
    for angle in (turn, turn + math.pi / 2):
        axis = torch.tensor([math.cos(angle), math.sin(angle), 0.0], dtype=torch.float64)
        middle = offset * math.cos(heading - angle)
        fragments = fragments.within(axis, middle - side / 2, middle + side / 2)
    return fragments[fragments.recorded()]


def longest(fragments: Fragments, count: int) -> Fragments:
    """The longest, in their order."""
    length = fragments.span[:, 1] - fragments.span[:, 0]
    return fragments[length.topk(min(count, len(length))).indices.sort().values]


def fraction_in_common(crops: list[Fragments], matches: Tensor) -> float:
    """Of the lines of both crops, those that have a match."""
    matched = sum(len(matches[:, side].unique()) for side in (0, 1))
    return matched / max(1, sum(len(crop) for crop in crops))


def rounded(lines: LineSet) -> LineSet:
    """To :data:`UNIT`."""
    return LineSet.from_segments((segments(lines) / UNIT).round() * UNIT)


def segments(lines: LineSet) -> Float[Tensor, "n 2 3"]:
    """End points; none for lines without."""
    return torch.empty(0, 2, 3) if lines.endpoints is None else lines.endpoints


def write_pairs(path: Path, crops: list[CropPair]) -> None:
    """All pairs in one compressed file, readable without any of the maps."""
    pairs = [crop.pair for crop in crops]
    sides = {"source": [pair.source for pair in pairs], "target": [pair.target for pair in pairs]}
    arrays = {
        "place": np.array([crop.place for crop in crops]),
        "overlap": np.array([crop.overlap for crop in crops], dtype=np.int8),
        "target_T_source": torch.stack([pair.target_T_source.matrix() for pair in pairs]).numpy(),
        "matches": torch.cat([pair.matches for pair in pairs]).numpy().astype(np.int16),
        "matches_count": np.array([len(pair.matches) for pair in pairs]),
    }
    for side, sets in sides.items():
        rows = torch.cat([segments(lines) for lines in sets])
        arrays[side] = (rows / UNIT).round().numpy().astype(np.int32)
        arrays[f"{side}_count"] = np.array([len(lines) for lines in sets])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        np.savez_compressed(stream, allow_pickle=False, **arrays)


def read_pairs(path: Path) -> list[CropPair]:
    """What :func:`write_pairs` wrote."""
    with np.load(path) as file:
        arrays = dict(file)

    def split(name: str) -> list[Tensor]:
        borders = arrays[f"{name}_count"].cumsum()[:-1]
        return [torch.from_numpy(chunk) for chunk in np.split(arrays[name], borders)]

    source, target = ([LineSet.from_segments(rows * UNIT) for rows in split(side)] for side in ("source", "target"))
    poses = [Pose.from_matrix(torch.from_numpy(matrix)) for matrix in arrays["target_T_source"]]
    pairs = map(LinePair, source, target, poses, (rows.long() for rows in split("matches")))
    rows = zip(arrays["place"].tolist(), arrays["overlap"].tolist(), pairs, strict=True)
    return [CropPair(place, overlap, pair) for place, overlap, pair in rows]


def fingerprint(crops: list[CropPair]) -> str:
    """Tells whether two results are about the same pairs."""
    digest = hashlib.sha256()
    for crop in crops:
        for lines in (crop.pair.source, crop.pair.target):
            digest.update((segments(lines) / UNIT).round().numpy().astype(np.int32).tobytes())
    return digest.hexdigest()[:16]
