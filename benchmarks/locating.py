"""Parts of large maps, found again: ``python -m benchmarks.locating campus``, or ``ingolstadt=street.npz``.

A part is what lies within 12 m of a random line: each line is kept with a probability of 70 %, at most 300 of them at
random, their ends get noise of 2 cm, and the part is moved at random. Parts of fewer than 100 lines are drawn again. A
pose is right if it is within 5 degrees and, at the centre of the part, within 0.5 m. Times are CPU seconds of one
thread. Each map gives ``results/locating_NAME.json``.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import plueckernet as pn
from benchmarks.harness import progress, save
from plueckernet.data.campus import campus

RADIUS, KEEP, MAX_LINES, MIN_LINES, NOISE = 12.0, 0.7, 300, 100, 0.02  # m, fraction, lines, lines, m
MAX_DEGREES, MAX_METRES = 5.0, 0.5
_CAMPUS_LINES = 100_000


@dataclass(frozen=True)
class Outcome:
    """One part."""

    seed: int
    lines: int
    status: str
    confidence: float
    right: bool
    first_place_right: bool  # whether the best of the voted places is the right one
    degrees: float | None
    metres: float | None
    seconds: float


def random_part(whole: pn.LineSet, seed: int) -> tuple[pn.LineSet, pn.Pose]:
    """A part of a map, and its ``whole_T_part``."""
    generator = torch.Generator().manual_seed(seed)
    endpoints, midpoint = whole.endpoints.double(), whole.midpoints().double()
    while True:
        centre = midpoint[int(torch.randint(len(whole), (1,), generator=generator))]
        rows = ((midpoint - centre).norm(dim=-1) < RADIUS).nonzero()[:, 0]
        rows = rows[torch.rand(len(rows), generator=generator) < KEEP]
        if len(rows) >= MIN_LINES:
            break
    rows = rows[torch.randperm(len(rows), generator=generator)[:MAX_LINES]]
    noise = NOISE * torch.randn(len(rows), 2, 3, generator=generator, dtype=torch.float64)
    part_T_local = pn.Pose.random(generator=generator, translation=50.0)
    local_T_whole = pn.Pose(torch.eye(3, dtype=torch.float64), -centre)
    part_T_whole = part_T_local @ local_T_whole
    return part_T_whole @ pn.LineSet.from_segments(endpoints[rows] + noise), part_T_whole.inverse()


def outcome_of(index: pn.LineIndex, seed: int) -> Outcome:
    """Find one part again."""
    submap, truth = random_part(index.lines, seed)
    centre = submap.midpoints().mean(0)
    start = time.process_time()
    result = pn.locate(submap, index)
    seconds = time.process_time() - start
    poses = [] if result.target_T_source is None else [result.target_T_source]
    poses += [other.target_T_source for other in result.alternatives]
    error = _error(poses[0], truth, centre) if poses else None
    places = index.places(submap, 1)
    place_error = _error(places[0].whole_T_part, truth, centre) if places else None
    return Outcome(
        seed=seed,
        lines=len(submap),
        status=str(result.status),
        confidence=result.confidence,
        right=error is not None and error[0] < MAX_DEGREES and error[1] < MAX_METRES,
        first_place_right=place_error is not None and place_error[1] < 4 * MAX_METRES,
        degrees=None if error is None else error[0],
        metres=None if error is None else error[1],
        seconds=seconds,
    )


def _error(pose: pn.Pose, truth: pn.Pose, centre: torch.Tensor) -> tuple[float, float]:
    turn = float(torch.rad2deg(pose.angle_to(truth)))
    return turn, float((pose.act(centre[None]) - truth.act(centre[None])).norm())


def measure(name: str, whole: pn.LineSet, places: int) -> Iterator[dict[str, Any]]:
    """Index a map and find so many parts of it again; what is known after each of them."""
    start = time.process_time()
    index = pn.LineIndex.build(whole)
    indexing = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index"
        index.save(file)
        size = file.stat().st_size
        index = pn.LineIndex.load(file)
    outcomes: list[Outcome] = []
    for seed in progress(range(places), name):
        outcomes.append(outcome_of(index, seed))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        about = {"lines": len(index), "index_seconds": indexing, "index_bytes": size, "peak_memory_bytes": memory}
        yield {**about, **_counts(outcomes), "outcomes": [asdict(outcome) for outcome in outcomes]}


def _counts(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    called = [outcome for outcome in outcomes if outcome.status == "success"]
    times = sorted(outcome.seconds for outcome in outcomes)
    return {
        "places": len(outcomes),
        "right": sum(outcome.right for outcome in outcomes),
        "right_and_called": sum(outcome.right for outcome in called),
        "wrong_and_called": sum(not outcome.right for outcome in called),
        "first_place_right": sum(outcome.first_place_right for outcome in outcomes),
        "median_seconds": statistics.median(times),
        "max_seconds": times[-1],
    }


def rows(name: str, values: dict[str, Any], goal: str) -> list[dict[str, str]]:
    """For the tables of numbers."""
    counts = (
        f"{values['right_and_called']} of {values['places']} right and called, {values['wrong_and_called']} wrong and"
        f" called; {values['median_seconds']:.1f} s each (at most {values['max_seconds']:.1f})"
    )
    index = f"{values['index_seconds']:.0f} s, {values['index_bytes'] / 2**20:.0f} MiB"
    what = f"{name}, {values['lines']:,} lines"
    return [
        {"what": f"parts of 100 to 300 lines found in {what}", "measured": counts, "goal": goal},
        {"what": f"index of {what}", "measured": index, "goal": "under 2 minutes, 1 GiB"},
    ]


def main() -> None:
    """Measure the maps that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("maps", nargs="+", help="campus, or NAME=FILE")
    parser.add_argument("--places", type=int, default=40, help="parts of each map")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for entry in arguments.maps:
        name, _, file = entry.partition("=")
        whole = pn.read_lines(file) if file else campus(0, _CAMPUS_LINES)
        goal = "≥ 90 %, none wrong, under 20 s" if file else "≥ 95 %, none wrong, under 20 s"
        for values in measure(name, whole, arguments.places):  # saved after each part: a run may take long
            save(f"locating_{name}", {**values, "table": rows(name, values, goal)}, weights=["invariant"])


if __name__ == "__main__":
    main()
