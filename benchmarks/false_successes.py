"""Wrong poses that are called a success, where that is easiest: ``python -m benchmarks.false_successes FOLDER …``.

The folders hold line maps of real places, and small wireframes in folders named ``roofs``. Four kinds of pairs:

* all ordered pairs of different roofs, as the files have them;
* tiny maps of 6 to 25 lines, of one place and of different places;
* the same without the ends of their lines;
* crops of one place and of different places, far from the origin, to which one map has a stray line: at the origin, at
  1e12, or from the map to the origin.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.harness import progress, save
from plueckernet.estimation.strays import KeptLines
from plueckernet.evaluation.documents import TableRow
from plueckernet.evaluation.outcomes import FALSE_SUCCESS, is_right
from plueckernet.evaluation.protocols import LabelledPair
from plueckernet.evaluation.real_crops import TINY, unrelated
from plueckernet.evaluation.real_maps import place_of, read_maps, read_roofs
from plueckernet.evaluation.real_pairs import PairKind, RealPairs
from plueckernet.geometry import LineSet, Pose
from plueckernet.registration import register

_SEED = 90_000_000  # of pairs that nothing was fitted to
_OFFSET = torch.tensor([3.2e5, 5.6e6, 120.0], dtype=torch.float64)  # m, as in a projected system of coordinates
_STRAYS = ("at the origin", "at 1e12", "from the map to the origin")


def main() -> None:
    """Count, and write ``results/false_successes.json``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", help="folders of line maps")
    parser.add_argument("--tiny", type=int, default=500, help="tiny pairs")
    parser.add_argument("--stray", type=int, default=200, help="pairs with a stray line")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    folders = tuple(options.folders)
    kinds = {
        "roofs": roof_pairs(folders),
        "tiny": itertools.islice(tiny_pairs(folders), options.tiny),
        "infinite": map(without_ends, itertools.islice(tiny_pairs(folders), options.tiny)),
        "stray": itertools.islice(stray_pairs(folders), options.stray),
    }
    counts = {}
    with ProcessPoolExecutor(options.processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for kind, pairs in kinds.items():
            listed = list(pairs)
            answers = progress(pool.map(answer, listed), kind, len(listed))
            counts[kind] = counted(listed, list(answers))
    save("false_successes", {**counts, "table": _table(counts)}, ["invariant"])


def roof_pairs(folders: tuple[Path, ...]) -> Iterator[LabelledPair]:
    """Every roof with every other, in either order."""
    for (name, source), (other, target) in itertools.permutations(read_roofs(folders).items(), 2):
        yield _unrelated_pair(source, target, (name, other))


def tiny_pairs(folders: tuple[Path, ...]) -> Iterator[LabelledPair]:
    """Alternately of one place and of two."""
    maps = {name: lines for folder in folders for name, lines in read_maps(folder).items()}
    related = RealPairs(PairKind.TINY, folders, _SEED)
    for index in itertools.count():
        yield related.labelled(index)
        generator = torch.Generator().manual_seed(_SEED + index)
        pair = None
        while pair is None:
            names = [list(maps)[int(row)] for row in torch.randint(len(maps), (2,), generator=generator)]
            places = place_of(names[0]), place_of(names[1])
            if places[0] != places[1]:
                pair = unrelated((maps[names[0]], maps[names[1]]), places, generator, TINY)
        yield pair


def without_ends(pair: LabelledPair) -> LabelledPair:
    """The same maps, of infinite lines."""
    return replace(pair, source=pair.source.infinite(), target=pair.target.infinite())


def stray_pairs(folders: tuple[Path, ...]) -> Iterator[LabelledPair]:
    """Alternately of one place and of two; kinds of stray lines take turns, and so do the maps that have one."""
    kinds = RealPairs(PairKind.NEIGHBOURS, folders, _SEED), RealPairs(PairKind.UNRELATED, folders, _SEED)
    for index in itertools.count():
        pair = kinds[index % 2].labelled(index)
        stray, side = _STRAYS[index // 2 % 3], index // 6 % 2
        moved = Pose(torch.eye(3, dtype=torch.float64), _OFFSET)
        source, target = pair.source.shifted(-_OFFSET), pair.target.shifted(-_OFFSET)
        truth = moved @ pair.target_T_source @ moved.inverse()
        sides = [with_stray(source, stray), target] if side == 0 else [source, with_stray(target, stray)]
        yield replace(pair, source=sides[0], target=sides[1], target_T_source=truth, band=stray)


def with_stray(lines: LineSet, kind: str) -> LineSet:
    """The map with a stray line more."""
    end = torch.tensor([1.0, 0.5, 0.2], dtype=torch.float64)
    start = {
        "at the origin": torch.zeros(3, dtype=torch.float64),
        "at 1e12": torch.full((3,), 1e12, dtype=torch.float64),
        "from the map to the origin": lines.centre(),
    }[kind]
    stop = torch.zeros_like(end) if kind == "from the map to the origin" else start + end
    endpoints = lines.endpoints
    assert endpoints is not None
    return LineSet.from_segments(torch.cat([endpoints, torch.stack([start, stop])[None]]))


def answer(pair: LabelledPair) -> tuple[bool, bool, int]:
    """Whether a pose was called a success, whether it was right, and its number of inliers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = register(pair.source, pair.target)
    if not result or result.target_T_source is None:
        return False, False, 0
    return True, _is_right(pair, result.target_T_source), len(result.inliers)


def _is_right(pair: LabelledPair, pose: Pose) -> bool:
    """Below the limits at the centre of the source, wherever the origin is."""
    if not pair.related:
        return False
    truths = pair.target_T_source if pair.family is None else pair.family
    centre = KeptLines.of(pair.source).lines.centre()[None]
    shift = (pose.act(centre) - truths.act(centre)).norm()
    return is_right((float(pose.angle_to(truths).rad2deg()), float(shift)))


def counted(pairs: list[LabelledPair], answers: list[tuple[bool, bool, int]]) -> dict[str, int]:
    """How many pairs there are, of one place and of two, and how many were called, rightly and wrongly."""
    wrong = [inliers for called, right, inliers in answers if called and not right]
    return {
        "pairs": len(pairs),
        "related": sum(pair.related for pair in pairs),
        "right_and_called": sum(right for _, right, _ in answers),
        "wrong_and_called": len(wrong),
        "unrelated_called": sum(
            called and not pair.related for pair, (called, _, _) in zip(pairs, answers, strict=True)
        ),
    }


def _table(counts: dict[str, dict[str, int]]) -> list[TableRow]:
    names = {
        "roofs": "ordered pairs of different roofs",
        "tiny": "tiny maps, 6 to 25 lines, half of them of two places",
        "infinite": "the same without the ends of their lines",
        "stray": "crops with a stray line, half of them of two places",
    }
    return [
        TableRow(f"{names[kind]}: {FALSE_SUCCESS}", f"{count['wrong_and_called']} of {count['pairs']}", "none")
        for kind, count in counts.items()
    ]


def _unrelated_pair(source: LineSet, target: LineSet, places: tuple[str, str]) -> LabelledPair:
    nothing = torch.zeros(0, 2, dtype=torch.int64)
    return LabelledPair(source, target, Pose.identity(), nothing, places, "roofs", related=False)


if __name__ == "__main__":
    main()
