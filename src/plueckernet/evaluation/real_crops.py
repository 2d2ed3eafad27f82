"""Pairs cut from real line maps, beside the neighbouring crops of :mod:`plueckernet.evaluation.crop_pairs`.

A sparse map against a dense one, a small piece in a large one, tiny maps and unrelated maps. Each maker takes a seeded
generator and makes one attempt: it returns None where the place that it drew does not show enough lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from plueckernet.data.scan import Fragments, Survey, survey, surveyed_matches
from plueckernet.evaluation.crop_pairs import (
    TRANSLATION,
    around_place,
    crop_pair_once,
    fraction_in_common,
    longest,
    rounded,
    square,
)
from plueckernet.evaluation.crop_results import OVERLAPS, band_name
from plueckernet.evaluation.protocols import LabelledPair
from plueckernet.geometry import LineSet, Pose

MAX_DENSE = 800  # lines of the denser or the larger map
MIN_SPARSE = 12  # lines of the sparser map
MIN_PIECE = 20  # lines of a piece of a map
MIN_COMMON = 6  # lines in common, of the side that has fewer
TINY = (6.0, 25.0)  # lines of a tiny map
TINY_COMMON = (0.3, 0.9)
UNRELATED = (8.0, 400.0)  # lines
_HALVINGS = 10


@dataclass(frozen=True, eq=False)
class View:
    """The two maps of a pair in one frame, and where they come from."""

    source: Fragments
    target: Fragments
    places: tuple[str, ...]
    band: str
    related: bool = True


def placed(view: View, generator: torch.Generator, family: Pose | None = None) -> LabelledPair:
    """The source about its centre, the target anywhere and any way round, directions at random.

    ``family`` are the motions of the common frame that change neither map.
    """
    lines = [
        side.lines().flipped(torch.rand(len(side), generator=generator) < 0.5) for side in (view.source, view.target)
    ]
    frame_T_source = Pose(torch.eye(3, dtype=torch.float64), lines[0].centre())
    target_T_frame = Pose.random(generator=generator, translation=TRANSLATION)
    matches = surveyed_matches(view.source, view.target) if view.related else torch.zeros(0, 2, dtype=torch.int64)
    return LabelledPair(
        source=rounded(lines[0].shifted(frame_T_source.translation)),
        target=rounded(target_T_frame @ lines[1]),
        target_T_source=target_T_frame @ frame_T_source,
        matches=matches,
        places=view.places,
        band=view.band,
        related=view.related,
        family=None if family is None else target_T_frame @ family @ frame_T_source,
    )


def neighbours(scene: LineSet, place: str, generator: torch.Generator) -> LabelledPair | None:
    """Neighbouring crops of 10 m with a tenth to four fifths of their lines in common."""
    low, high = OVERLAPS[drawn_integer(generator, len(OVERLAPS))]
    pair = crop_pair_once(scene, (low, high), generator, _neighbouring_survey(generator))
    if pair is None:
        return None
    return LabelledPair(pair.source, pair.target, pair.target_T_source, pair.matches, (place,), band_name(low, high))


def sparse_and_dense(scene: LineSet, place: str, generator: torch.Generator) -> LabelledPair | None:
    """Two surveys of one place, of which one keeps the longest 10 to 50 % of its lines only."""
    side, kept, offset = between(generator, 8.0, 20.0), between(generator, 0.1, 0.5), between(generator, 0.0, 0.2)
    turn, heading = (math.tau * torch.rand(2, generator=generator)).tolist()
    around = around_place(scene, side, generator)
    dense = longest(square(survey(around, drawn_survey(generator), generator), side, turn), MAX_DENSE)
    whole = square(survey(around, drawn_survey(generator), generator), side, turn, heading, offset * side)
    sparse = longest(whole, min(round(kept * len(whole)), MAX_DENSE))
    if len(sparse) < MIN_SPARSE or len(dense) < 2 * len(sparse) or _common_lines(sparse, dense) < MIN_COMMON:
        return None
    ratio = len(dense) / len(sparse)
    band = "2 to 4 times as dense" if ratio < 4 else "4 to 7 times as dense" if ratio < 7 else "denser by 7 and more"
    return placed(View(*_in_either_order(sparse, dense, generator), (place,), band), generator)


def piece_and_whole(scene: LineSet, place: str, generator: torch.Generator) -> LabelledPair | None:
    """A square of 6 to 12 m in one of 25 to 50 m, each surveyed for itself."""
    small, large = between(generator, 6.0, 12.0), between(generator, 25.0, 50.0)
    turn, other_turn, heading = (math.tau * torch.rand(3, generator=generator)).tolist()
    offset = between(generator, 0.0, (large - math.sqrt(2) * small) / 2)
    around = around_place(scene, large, generator)
    piece = longest(square(survey(around, drawn_survey(generator), generator), small, turn), MAX_DENSE)
    whole = square(survey(around, drawn_survey(generator), generator), large, other_turn, heading, offset)
    whole = longest(whole, 4 * MAX_DENSE)
    enough = len(piece) >= MIN_PIECE and len(whole) >= 2 * len(piece)
    if not enough or _common_lines(piece, whole) < MIN_COMMON:
        return None
    ratio = len(whole) / len(piece)
    band = "2 to 5 times as many lines" if ratio < 5 else "5 to 10 times as many" if ratio < 10 else "10 and more"
    return placed(View(*_in_either_order(piece, whole, generator), (place,), band), generator)


def tiny(scene: LineSet, place: str, generator: torch.Generator) -> LabelledPair | None:
    """Overlapping crops so small that they have 6 to 25 lines."""
    low, high = TINY
    wanted, common = round(log_between(generator, low, high)), between(generator, *TINY_COMMON)
    turn, heading = (math.tau * torch.rand(2, generator=generator)).tolist()
    around = around_place(scene, 5.0, generator)
    surveys = [survey(around, drawn_survey(generator), generator) for _ in range(2)]
    side = _side_for(surveys[0], wanted, turn)
    lower, upper = 0.0, math.sqrt(2) * side
    for _ in range(_HALVINGS):
        distance = (lower + upper) / 2
        crops = [square(surveys[i], side, turn, heading, (i - 0.5) * distance) for i in (0, 1)]
        matches = surveyed_matches(*crops)
        lower, upper = (distance, upper) if fraction_in_common(crops, matches) > common else (lower, distance)
    fits = all(low <= len(crop) <= high for crop in crops)
    if not fits or not TINY_COMMON[0] <= fraction_in_common(crops, matches) < TINY_COMMON[1]:
        return None
    return placed(View(crops[0], crops[1], (place,), _size_band(min(map(len, crops)))), generator)


def unrelated(
    scenes: tuple[LineSet, LineSet],
    places: tuple[str, str],
    generator: torch.Generator,
    lines: tuple[float, float] = UNRELATED,
) -> LabelledPair | None:
    """Crops of two maps, or whole maps where these are small, of so many lines each."""
    low, high = lines
    crops = []
    for scene in scenes:
        wanted, turn = round(log_between(generator, low, high)), between(generator, 0.0, math.tau)
        around = around_place(scene, 20.0, generator)
        surveyed = survey(around, drawn_survey(generator), generator)
        crops.append(longest(square(surveyed, _side_for(surveyed, wanted, turn), turn), int(high)))
    if min(map(len, crops)) < low:
        return None
    return placed(View(crops[0], crops[1], places, _size_band(min(map(len, crops))), related=False), generator)


def _neighbouring_survey(generator: torch.Generator) -> Survey:
    """Of lines that are whole or broken, with their ends and places more or less exact, whichever the others are.

    Every other survey shows much that another one does not, as a model of another level of detail does.
    """
    distortion = log_between(generator, 0.25, 1.0)
    whole, other_detail = (torch.rand(2, generator=generator) < 0.5).tolist()
    return Survey(
        missing=between(generator, 0.3, 0.6) if other_detail else between(generator, 0.1, 0.3),
        spurious=between(generator, 0.0, 0.3 if other_detail else 0.1),
        piece=math.inf if whole else log_between(generator, 3.0, 12.0),
        endpoint=log_between(generator, 0.03, 0.3),
        position=0.04 * distortion,
        direction=1.5 * distortion,
    )


def drawn_survey(generator: torch.Generator) -> Survey:
    """From a photo reconstruction to a model: distortions of a tenth of the usual ones up to these."""
    distortion = log_between(generator, 0.1, 1.0)
    return Survey(
        missing=between(generator, 0.05, 0.25),
        spurious=0.1 * distortion,
        piece=3.0 / distortion,
        gap=0.1 * distortion,
        endpoint=0.05 * distortion,
        position=0.04 * distortion,
        direction=1.5 * distortion,
    )


def _side_for(fragments: Fragments, lines: int, turn: float) -> float:
    """Side in metres of the square about the origin that shows about that many lines."""
    low, high = 0.1, 40.0
    for _ in range(_HALVINGS):
        side = math.sqrt(low * high)
        low, high = (low, side) if len(square(fragments, side, turn)) > lines else (side, high)
    return low


def _size_band(lines: int) -> str:
    limits = (8, 12, 25, 50, 100, 200)
    index = sum(lines >= limit for limit in limits)
    bounds = (int(TINY[0]), *limits, int(UNRELATED[1]) + 1)
    return f"{bounds[index]} to {bounds[index + 1] - 1} lines"


def _common_lines(source: Fragments, target: Fragments) -> int:
    matches = surveyed_matches(source, target)
    return min(len(matches[:, side].unique()) for side in (0, 1))


def _in_either_order(first: Fragments, second: Fragments, generator: torch.Generator) -> tuple[Fragments, Fragments]:
    return (first, second) if torch.rand((), generator=generator) < 0.5 else (second, first)


def between(generator: torch.Generator, low: float, high: float) -> float:
    """A number drawn evenly."""
    return low + (high - low) * float(torch.rand((), generator=generator))


def log_between(generator: torch.Generator, low: float, high: float) -> float:
    """A number drawn evenly on a logarithmic scale."""
    return math.exp(between(generator, math.log(low), math.log(high)))


def drawn_integer(generator: torch.Generator, count: int) -> int:
    """From 0 and below ``count``."""
    return int(torch.randint(count, (), generator=generator))
