"""register() on neighbouring crops of real line maps that nothing was trained on.

``python -m benchmarks.crops --real FOLDER`` cuts pairs of 10 m crops out of every line map below the folder, puts the
target anywhere and any way round, and counts how often the pose is found (< 5° and < 0.5 m), by map and by the share of
lines in common; ``results/crops.json`` has it all. The maps do not come with the package. ``--export FILE`` writes the
pairs instead, and ``--pairs-from FILE`` takes them from there on a machine without the maps. ``--matcher FILE`` has a
network of :func:`plueckernet.models.weights.load_pretrained` propose the matches. ``--synthetic SCENES`` makes the same
crops of synthetic scenes, to tune on.
"""

from __future__ import annotations

import argparse
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path

import torch

from benchmarks.crops_pairs import FEWEST, FRAMES, CropPair, crop_pair, fingerprint, read_maps, read_pairs, write_pairs
from benchmarks.crops_table import BINS, Outcome, markdown, readme_rows, tables
from benchmarks.harness import pose_error, progress, save, succeeded
from plueckernet import Status, register
from plueckernet.data.protocols import LinePair
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet
from plueckernet.result import RegistrationResult

PAIRS = 560
FIRST_SEED = 700_000_000
SYNTHETIC_SEED = 600_000


def sampled(maps: dict[str, LineSet], pairs: int, pool: Executor) -> list[CropPair]:
    """Pairs of all maps and shares, as evenly as the maps allow."""
    crops: list[CropPair] = []
    wanted = -(-pairs // len(BINS))
    for share in range(len(BINS)):
        cells = _cells(maps, share, wanted, pool)
        in_turns = zip_longest(*([CropPair(name, share, one) for one in cell] for name, cell in cells.items()))
        crops += [crop for turn in in_turns for crop in turn if crop is not None][:wanted]
    return crops


def _cells(maps: dict[str, LineSet], share: int, wanted: int, pool: Executor) -> dict[str, list[LinePair]]:
    """Pairs of one share by map: each is asked for the same number, then those that can for what others lack."""
    each = -(-wanted // len(maps))
    cells: dict[str, list[LinePair]] = {name: [] for name in maps}
    able = list(maps)
    while able and sum(map(len, cells.values())) < wanted:
        jobs = [(name, len(cells[name]) + more) for name in able for more in range(each)]
        seeds = [FIRST_SEED + 1_000_000 * share + 10_000 * list(maps).index(name) + number for name, number in jobs]
        made = pool.map(partial(_crop_pair, BINS[share]), [maps[name] for name, _ in jobs], seeds)
        label = "pairs with {:.0%} to {:.0%} in common".format(*BINS[share])
        for (name, _), pair in zip(jobs, progress(made, label, len(jobs)), strict=True):
            cells[name] += [] if pair is None else [pair]
        most = max(map(len, cells.values()))
        able = [name for name in able if len(cells[name]) == most]  # who fell short once has no more places
    return cells


def _crop_pair(bounds: tuple[float, float], scene: LineSet, seed: int) -> LinePair | None:
    torch.set_num_threads(1)
    return crop_pair(scene, bounds, seed)


def one_pair(matcher: str, crop: CropPair) -> Outcome:
    """Register one pair and compare with the truth."""
    torch.set_num_threads(1)
    pair = crop.pair
    result = register(pair.source, pair.target, matcher=matcher)
    found = result.target_T_source
    if found is None and result.alternatives:  # the best pose comes first where none is vouched for
        found = result.alternatives[0].target_T_source
    return Outcome(
        place=crop.place,
        share=crop.share,
        right=succeeded(pose_error(found, pair.target_T_source)),
        called=result.status == Status.SUCCESS,
        in_common=min(len(pair.matches[:, side].unique()) for side in (0, 1)),
        right_matches=_right_matches(result, pair),
    )


def _right_matches(result: RegistrationResult, pair: LinePair) -> int:
    """How many of the putative matches are true."""
    number = [matches[:, 0] * len(pair.target) + matches[:, 1] for matches in (result.matches, pair.matches)]
    return int(torch.isin(number[0], number[1]).sum())


def fallen_short(crops: list[CropPair]) -> list[str]:
    """Maps that could not give their part at some share."""
    count = Counter((crop.place, crop.share) for crop in crops)
    places = sorted({crop.place for crop in crops})
    each = len(crops) // (len(BINS) * len(places))
    cells = [(place, share) for place in places for share in range(len(BINS)) if count[place, share] < each]
    return [f"{place} at {BINS[share]}: {count[place, share]}" for place, share in cells]


def main() -> None:
    """Make or read the pairs, register them, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    origin = parser.add_mutually_exclusive_group(required=True)
    origin.add_argument("--real", type=Path, help="folder of line maps")
    origin.add_argument("--pairs-from", type=Path, help="pairs that --export wrote")
    origin.add_argument("--synthetic", type=int, metavar="SCENES", help="number of scenes to take instead of maps")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="to make of the maps, at least")
    parser.add_argument("--export", type=Path, help="write the pairs to this .npz and stop")
    parser.add_argument("--matcher", default="descriptors", help="'descriptors' or a .safetensors file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with ProcessPoolExecutor() as pool:
        crops = _crops(options, pool)
        if options.export:
            return write_pairs(options.export, crops)
        made = pool.map(partial(one_pair, options.matcher), crops)
        values = tables(list(progress(made, options.matcher, len(crops))))
    about = {
        "matcher": Path(options.matcher).stem,
        "pairs": len(crops),
        "fingerprint": fingerprint(crops),
        "fewest_lines": FEWEST,
        "rescaled": {name: [frame.metres, frame.reason] for name, frame in FRAMES.items()},
        "fallen_short": fallen_short(crops),
    }
    name = "crops" if options.matcher == "descriptors" else f"crops_{Path(options.matcher).stem}"
    learned = options.matcher != "descriptors"
    rows = readme_rows(values, "with weights" if learned else "without weights", asked=learned)
    save(f"{name}_synthetic" if options.synthetic else name, {"table": rows, **about, **values})
    print("\n".join(markdown(values)))


def _crops(options: argparse.Namespace, pool: Executor) -> list[CropPair]:
    if options.pairs_from:
        return read_pairs(options.pairs_from)
    if options.real:
        return sampled(read_maps(options.real), options.pairs, pool)
    seeds = range(SYNTHETIC_SEED, SYNTHETIC_SEED + options.synthetic)
    return sampled({f"varied/{seed}": make_scene("varied", seed) for seed in seeds}, options.pairs, pool)


if __name__ == "__main__":
    main()
