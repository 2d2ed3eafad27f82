"""How long register() takes, as ratios of one run on one thread: ``python -m benchmarks.speed [--against COMMIT]``.

Writes ``results/speed.json``. Pairs are random parts without ends (70 % of a place each) and surveys with ends (60 % in
common), of the same number of lines a side. Beside register() runs the published pipeline: the plain network of
:mod:`benchmarks.plain_pluecker` and the loop of 1,000 samples of :mod:`benchmarks.estimation`. ``--against`` takes the
sources of a commit and registers the same pairs with them. Each of them is a process of its own, and the pairs go
round. Growth is measured on two surveys of a large site, each size in a process of its own. The folder ``--crops`` has
crops of real maps, ``crops/pairs.npz``, which are registered with both. CPU time is compared: the machine may be busy.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from benchmarks.harness import progress, save
from plueckernet.data.campus import campus
from plueckernet.data.protocols import AnyProtocol, ScanProtocol, sample_pair
from plueckernet.data.scan import Survey, survey
from plueckernet.data.scenes import make_scene
from plueckernet.evaluation.acceptance_pairs import CropArchive
from plueckernet.evaluation.protocols import Recorded
from plueckernet.geometry import LineSet, Pose

ROOT = Path(__file__).parents[1]
SIZES = {100: 9, 215: 9, 300: 9, 700: 5, 1000: 5}  # lines a side: pairs
KEEP = 0.7
SURVEY = Survey(missing=0.2)
LARGE = (3_000, 5_000, 10_000, 20_000)
KINDS = ("parts", "surveys")
GOALS = {300: "≥ 6", 1000: "≥ 4"}
PUBLISHED_GOALS = {215: "≥ 10", 700: "≥ 10"}


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="", metavar="COMMIT", help="whose sources register the same pairs")
    parser.add_argument("--crops", type=Path, metavar="FOLDER", help="with crops/pairs.npz")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="crop in the file")
    options = parser.parse_args()
    crops = None if options.crops is None else compared_crops(options)
    rows = [row for kind in KINDS for size, count in SIZES.items() for row in compared(kind, size, count, options)]
    growth = [grown(size) for size in progress(LARGE, "large maps")]
    exponent = _exponent([(row["lines"], row["cpu_seconds"]) for row in growth])
    values = {"against": options.against, "rows": rows, "growth": growth, "exponent": exponent, "crops": crops}
    cells = [*table(rows, growth, exponent, options.against), *crop_table(crops, options.against)]
    save("speed", {**values, "table": cells}, weights=["invariant"])


def compared(kind: str, size: int, count: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Medians over pairs of one kind and size: CPU time of the others over that of register(), and of its stages."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = [_written(Path(folder), pair) for pair in pairs(kind, size, count)]
        names = ["register", *(["published"] if kind == "parts" else [])]
        workers = {name: stack.enter_context(worker(name, ROOT / "src")) for name in names}
        if options.against:
            workers["against"] = stack.enter_context(worker("register", _sources(options.against, Path(folder))))
        for measure in workers.values():
            measure(paths[0])  # weights are read once
        told = [
            {name: measure(path) for name, measure in workers.items()}
            for path in progress(paths, f"{kind} of {size} lines")
        ]
    seconds = {name: [row[name]["cpu_seconds"] for row in told] for name in workers}
    row: dict[str, Any] = {"kind": kind, "lines": size, "pairs": count, "cpu_seconds": median(seconds["register"])}
    for name in workers.keys() - {"register"}:
        row[f"{name}_over_ours"] = median(b / a for a, b in zip(seconds["register"], seconds[name], strict=True))
    stages = [row["register"]["timings"] for row in told]
    total = median(sum(stage.values()) for stage in stages)
    row["stages"] = {name: median(stage.get(name, 0.0) for stage in stages) / total for name in stages[0]}
    row["accepted"] = sum(row["register"]["accepted"] for row in told)
    print(row, flush=True)
    yield row


def compared_crops(options: argparse.Namespace) -> dict[str, Any]:
    """Medians over crops of real maps, from easy to hard: CPU time of register(), and of the other sources."""
    archive = CropArchive(options.crops / "crops" / "pairs.npz")
    numbers = range(0, archive.size(Recorded()) or 0, options.every)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sources = {"register": ROOT / "src", "against": _sources(options.against, Path(folder))}
        workers = {name: stack.enter_context(worker("register", path)) for name, path in sources.items()}
        told = []
        for index in progress(numbers, "crops"):
            pair = archive.pair(Recorded(), index)
            path = _written(Path(folder), (pair.source, pair.target))
            told.append({name: measure(path) for name, measure in workers.items()})
    seconds = {name: median(row[name]["cpu_seconds"] for row in told[1:]) for name in workers}  # the first read weights
    row = {"pairs": len(told) - 1, **{f"{name}_cpu_seconds": value for name, value in seconds.items()}}
    print(row, flush=True)
    return row


def pairs(kind: str, size: int, count: int) -> Iterator[tuple[LineSet, LineSet]]:
    """Pairs of ``size`` lines a side, from the first scenes that have enough."""
    scene_kind, seed, made = "indoor" if size < 500 else "outdoor", 0, 0
    while made < count:
        scene, generator = make_scene(scene_kind, seed), torch.Generator().manual_seed(seed)
        if kind == "parts":
            scene = scene[torch.randperm(len(scene), generator=generator)[: round(size / KEEP)].sort().values]
        pair = sample_pair(scene, AnyProtocol(keep=KEEP) if kind == "parts" else ScanProtocol(overlap=0.6), seed)
        seed += 1
        if min(len(pair.source), len(pair.target)) < size:
            continue
        made += 1
        yield tuple(_longest(lines, size) for lines in (pair.source, pair.target))  # type: ignore[misc]


def _longest(lines: LineSet, count: int) -> LineSet:
    if lines.endpoints is None:
        return lines[:count]
    return lines[lines.lengths().topk(count).indices.sort().values]


def _written(folder: Path, pair: tuple[LineSet, LineSet]) -> Path:
    """A file that any version can read."""
    path = folder / f"{len(list(folder.glob('*.npz')))}.npz"
    arrays = {}
    for name, lines in zip(("source", "target"), pair, strict=True):
        ends = lines.endpoints
        arrays[name] = (torch.cat([lines.direction, lines.moment], -1) if ends is None else ends.flatten(1)).numpy()
    np.savez(path, infinite=pair[0].endpoints is None, **arrays)
    return path


@contextmanager
def worker(what: str, sources: Path) -> Iterator[Callable[[Path], dict[str, Any]]]:
    """A process with these sources on one thread that says how long it took for a pair."""
    variables = os.environ | {"PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.speed_worker", what]
    with subprocess.Popen(
        command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        asked, told = process.stdin, process.stdout
        if asked is None or told is None:
            raise RuntimeError("a worker has no pipes")

        def measure(path: Path) -> dict[str, Any]:
            asked.write(f"{path}\n")
            asked.flush()
            answer: dict[str, Any] = json.loads(told.readline())
            return answer

        yield measure
        asked.close()


def _sources(commit: str, folder: Path) -> Path:
    """Those of a commit of this repository."""
    content = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder / "against", filter="data")
    return folder / "against" / "src"


def grown(size: int) -> dict[str, Any]:
    """One registration of two surveys of a site of this many lines."""
    site = campus(5, round(size / (1 - SURVEY.missing)))
    surveys = [survey(site, SURVEY, torch.Generator().manual_seed(seed)).lines()[:size] for seed in (1, 2)]
    pose = Pose.random(generator=torch.Generator().manual_seed(3), translation=10.0)
    with tempfile.TemporaryDirectory() as folder, worker("register", ROOT / "src") as measure:
        told = measure(_written(Path(folder), (surveys[0], pose @ surveys[1])))
    row = {"lines": min(map(len, surveys)), **told}
    print(row, flush=True)
    return row


def _exponent(points: list[tuple[int, float]]) -> float:
    """The slope of time over size, both as logarithms."""
    size, seconds = (np.log(values) for values in zip(*points, strict=True))
    return float(np.polyfit(size, seconds, 1)[0])


def crop_table(crops: dict[str, Any] | None, against: str) -> list[dict[str, str]]:
    """For the table of numbers."""
    if crops is None:
        return []
    ratio = f"{crops['register_cpu_seconds'] / crops['against_cpu_seconds']:.2f}"
    what = f"median CPU time of register() over that of commit {against[:7]}, {crops['pairs']} crops of real maps"
    return [{"what": what, "goal": "≤ 1.2", "measured": ratio}]


def table(
    rows: list[dict[str, Any]], growth: list[dict[str, Any]], exponent: float, against: str
) -> list[dict[str, str]]:
    """For the table of numbers."""
    result = []
    for name, whose, goals in (
        ("against_over_ours", f"commit {against[:7]}", GOALS),
        ("published_over_ours", "the published pipeline, network and 1,000 samples", PUBLISHED_GOALS),
    ):
        for kind in KINDS:
            cells = [(row["lines"], row[name]) for row in rows if row["kind"] == kind and name in row]
            if cells:
                sizes = " / ".join(f"{size:,}" for size, _ in cells)
                goal = ", ".join(f"{goals[size]} at {size:,}" for size, _ in cells if size in goals)
                what = f"CPU time of {whose} over that of register(), {kind} of {sizes} lines a side, one thread"
                result.append(
                    {"what": what, "goal": goal, "measured": " / ".join(f"{ratio:.1f}" for _, ratio in cells)}
                )
    last, before = growth[-1], growth[-2]
    times = f"{last['cpu_seconds'] / before['cpu_seconds']:.2f}"
    sizes = f"{last['lines']:,} lines a side over that of {before['lines']:,}"
    result.append({"what": f"CPU time of register(), {sizes}", "goal": "≤ 1.5", "measured": times})
    what = f"growth of CPU time with the lines, {growth[0]['lines']:,} to {last['lines']:,}: exponent"
    result.append({"what": what, "goal": "≤ 1.2", "measured": f"{exponent:.2f}"})
    peak = f"{last['peak_gigabytes'] * 1e9 / 2**30:.2f} GiB"
    result.append(
        {"what": f"memory of register(), {last['lines']:,} lines a side", "goal": "≤ 1.5 GiB", "measured": peak}
    )
    return result


if __name__ == "__main__":
    main()
