"""All experiments of the paper on many cores: ``python -m benchmarks.paper_experiments --out DIR --workers 16``.

The methods of the paper come first, ours after them, since ours change more often. The run stops when ``--minutes`` are
over; the same command again goes on with what is kept in DIR/predictions. Predictions of other sources or weights are
removed, all others are used again. Each experiment that has all its predictions becomes DIR/experiments/NAME.json, to
be copied to benchmarks/results/experiments. ``--pack FOLDER`` collects everything in few archives, and ``--unpack
FOLDER`` begins with those of an earlier run on another machine.
"""

from __future__ import annotations

import argparse
import shutil
import tarfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from plueckernet.errors import InputError
from plueckernet.evaluation.documents import write_result
from plueckernet.evaluation.experiments import EXPERIMENTS
from plueckernet.evaluation.experiments.plan import Plan
from plueckernet.evaluation.predictions import Cell
from plueckernet.evaluation.reproduce import measure
from plueckernet.evaluation.runner import Requests, Runner, RunSettings

NAMES = (  # by importance; ablations and recipes need weights that do not come with the package
    "table1", "table1-each-axis", "recall", "timing", "matchability", "bound", "scenes", "error-sources",
    "generalisation", "overlap", "noise", "undirected", "odometry", "rotation", "translation", "wrong-matches",
)  # fmt: skip
ARCHIVED_BYTES = 32_000_000  # of an archive before it is compressed to less than half


class OutOfTimeError(Exception):
    """The run has to stop."""


def requests_of(names: Iterable[str], runner: Runner) -> Requests:
    """All pairs that experiments need, those of the paper's methods first."""
    plans = [plan for plan in (EXPERIMENTS[name].plan for name in names) if plan is not None]
    requests = [request for plan in plans for request in plan.requests(runner)]
    return sorted(requests, key=lambda request: is_ours(request[0]))


def is_ours(cell: Cell) -> bool:
    """Whether its predictions change with :func:`plueckernet.register`."""
    return cell.method.name.startswith("ours") or cell.method.name.endswith("refined")


def drop(cells: Iterable[Cell], runner: Runner) -> int:
    """Remove the predictions of cells; returns how many there were."""
    folders = {runner.settings.predictions / cell.folder for cell in cells}
    kept = [folder for folder in folders if folder.exists()]
    for folder in kept:
        shutil.rmtree(folder)
    return len(kept)


def is_outdated(cell: Cell, runner: Runner) -> bool:
    """Whether other sources, settings or weights made what is kept of a cell."""
    try:
        runner.missing([(cell, 1)])
    except InputError:
        return True
    return False


def compute(requests: Requests, runner: Runner) -> bool:
    """Whether all of it is there, after computing as much as the time allows."""
    try:
        runner.compute(requests)
    except OutOfTimeError:
        print("the time is over", flush=True)
        return False
    return True


def write(names: Sequence[str], runner: Runner, out: Path) -> None:
    """Write the documents of experiments that have all their predictions."""
    for name in names:
        plan: Plan | None = EXPERIMENTS[name].plan
        left = len(runner.missing(plan.requests(runner))) if plan is not None else 0
        print(f"{name}: {f'{left} pairs missing' if left else 'complete'}", flush=True)
        if not left:
            write_result(out / f"{name}.json", measure(EXPERIMENTS[name], runner))


def pack(out: Path, folder: Path) -> None:
    """Predictions and documents in archives, each of about the same size."""
    folder.mkdir(parents=True, exist_ok=True)
    archives: list[list[Path]] = [sorted((out / "experiments").glob("*.json"))]
    size = 0
    for path in sorted(path for path in (out / "predictions").rglob("*") if path.is_file()):
        if size + path.stat().st_size > ARCHIVED_BYTES:
            archives.append([])
            size = 0
        archives[-1].append(path)
        size += path.stat().st_size
    for number, paths in enumerate(archives, 1):
        with tarfile.open(folder / f"experiments-{number}.tar.gz", "w:gz", compresslevel=6) as archive:
            for path in paths:
                archive.add(path, path.relative_to(out))


def unpack(folder: Path, out: Path) -> None:
    """What :func:`pack` made of an earlier run."""
    for path in sorted(folder.glob("experiments-*.tar.gz")):
        with tarfile.open(path) as archive:
            archive.extractall(out, filter="data")


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"experiments (default: {' '.join(NAMES)})")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--limit", type=int, help="pairs of each cell")
    parser.add_argument("--weights", type=Path, help="folder of weights in place of the package's")
    parser.add_argument("--paper-only", action="store_true", help="compute the methods of the paper only")
    parser.add_argument("--again", action="append", default=[], metavar="NAME", help="an experiment to measure anew")
    parser.add_argument("--unpack", type=Path, help="folder with archives of an earlier run")
    parser.add_argument("--pack", type=Path, help="folder for archives of this run")
    return parser.parse_args()


def main() -> None:
    """Run what is asked for."""
    options, begin, last = parsed(), time.monotonic(), 0.0
    names, out = options.names or list(NAMES), options.out
    torch.set_num_threads(1)  # as in the worker processes

    def progress(done: int, total: int) -> None:
        nonlocal last
        spent = time.monotonic() - begin
        if spent - last > 20:
            last = spent
            print(f"{spent:.0f} s: {done} of {total} pairs", flush=True)
        if spent > 60 * options.minutes and done < total:
            raise OutOfTimeError

    if options.unpack is not None:
        unpack(options.unpack, out)
    settings = RunSettings(out / "predictions", options.limit, "cpu", options.workers, options.weights)
    with Runner(settings, progress) as runner:
        requests = requests_of(names, runner)
        dropped = drop((cell for cell, _ in requests_of(options.again, runner)), runner)
        dropped += drop((cell for cell, _ in requests if is_outdated(cell, runner)), runner)
        print(f"removed {dropped} cells, of other sources or to be measured anew", flush=True)
        if options.paper_only:
            requests = [request for request in requests if not is_ours(request[0])]
        compute(requests, runner)
        write(names, runner, out / "experiments")
    if options.pack is not None:
        pack(out, options.pack)
    print(f"{time.monotonic() - begin:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
