"""Crops of real maps whose lines are whole, as those of a model are: ``python -m benchmarks.whole_crops FOLDER``.

The crops of ``plueckernet evaluate crops`` come from surveys that break lines every few metres and see some that are
not there, as photo reconstructions do. Here lines are missing, displaced and cut at the border of a crop, and nothing
else. Rooms and flats that were built alike are then alike line by line.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from benchmarks.harness import RESULTS, progress
from plueckernet.data.scan import Survey
from plueckernet.evaluation.crop_pairs import crop_pair
from plueckernet.evaluation.crop_results import OVERLAPS, CropOutcome, CropValues, crop_values
from plueckernet.evaluation.documents import ResultDocument, read_result, write_result
from plueckernet.evaluation.metrics import pose_error
from plueckernet.evaluation.outcomes import Outcome
from plueckernet.evaluation.paper_noise import best_pose
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.real_maps import read_maps
from plueckernet.evaluation.reliability import Reliability, measured_reliability
from plueckernet.evaluation.result_rows import combined
from plueckernet.geometry import LineSet
from plueckernet.registration import register

SURVEY = Survey(missing=0.2, spurious=0.0, piece=math.inf, gap=0.0)
FIRST_SEED = 880_000_000
PAIRS = 30  # of each map and overlap, where the map has as many
HOUSES = "bim/"  # the maps of houses with rooms and flats that are built alike

Job = tuple[Path, str, int, int]  # folder, map, overlap, seed


@dataclass(frozen=True)
class WholeCropValues:
    """What became of the pairs, and how far the confidence is true."""

    crops: CropValues
    reliability: Reliability


@cache
def _maps(folder: Path) -> dict[str, LineSet]:
    return read_maps(folder)


def answer(job: Job) -> tuple[CropOutcome, float] | None:
    """What became of a pair, and its confidence."""
    folder, name, overlap, seed = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = crop_pair(_maps(folder)[name], OVERLAPS[overlap], seed, SURVEY)
        if pair is None:
            return None
        result = register(pair.source, pair.target)
    common = min(len(column.unique()) for column in pair.matches.T)
    outcome = Outcome(pose_error(best_pose(result), pair.target_T_source), result.ok, common)
    return CropOutcome(name, overlap, outcome), result.confidence


def main() -> None:
    """Register all pairs, and write ``results/whole_crops.json``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of line maps")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of each map and overlap")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    jobs = [
        (options.folder, name, overlap, FIRST_SEED + 1_000_000 * overlap + 10_000 * row + number)
        for row, name in enumerate(_maps(options.folder))
        for overlap in range(len(OVERLAPS))
        for number in range(options.pairs)
    ]
    with ProcessPoolExecutor(options.processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        answers = [row for row in progress(pool.map(answer, jobs, chunksize=4), "whole crops", len(jobs)) if row]
    outcomes = [outcome for outcome, _ in answers]
    right = np.array([crop.outcome.right for crop in outcomes])
    reliability = measured_reliability(np.array([confidence for _, confidence in answers]), right)
    values = WholeCropValues(crop_values("default", "", outcomes), reliability)
    sources = provenance("benchmarks.whole_crops", ["invariant"])
    write_result(RESULTS / "whole_crops.json", ResultDocument("whole_crops", sources.to_dict(), values))
    print("\n".join(table()))


def table() -> Iterator[str]:
    """By the fraction of lines in common, for the houses and for all other maps."""
    values = read_result(RESULTS / "whole_crops.json", "whole_crops", WholeCropValues).values
    yield "| maps | in common | right | right and called a success | wrong and called a success |"
    yield "|:---|:---|---:|---:|---:|"
    cells = {True: "houses with rooms built alike", False: "all others"}
    for is_house, label in cells.items():
        rows = [cell for cell in values.crops.maps if (cell.place or "").startswith(HOUSES) is is_house]
        for low, high in OVERLAPS:
            summary = combined([cell.summary for cell in rows if cell.overlap == (low, high)])
            counts = f"{summary.right} | {summary.right_and_accepted} | {summary.false_success_text}"
            yield f"| {label} | {low:g} to {high:g} | {counts} |"
    total, error = combined([cell.summary for cell in values.crops.totals]), 100 * values.reliability.ece
    yield f"| all | all | {total.right} | {total.right_and_accepted} | {total.false_success_text} |"
    yield ""
    yield f"The expected calibration error of all is {error:.1f} %."


if __name__ == "__main__":
    main()
