"""What a batch costs, in units that can be multiplied: ``python -m benchmarks.costs`` writes ``results/costs.json``.

Seconds are those of one thread of a CPU, not of a clock, so other work on the machine does not count. Registered are
pairs of surveys that share 60 % of a place, and pairs of different places, for which the search takes longest.
``python -m benchmarks.costs --ray`` adds how much faster two workers of a local Ray cluster are than one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import RESULTS, progress, save
from benchmarks.speed import pairs
from plueckernet.batch import BatchPair, PairRegistration, read_batch, run_batch
from plueckernet.batch.identity import fingerprint
from plueckernet.batch.rows import ResultRow, load_pyarrow, result_row
from plueckernet.batch.store import BatchFolder, write_pending, write_table
from plueckernet.geometry import LineSet
from plueckernet.io import read_lines, write_lines
from plueckernet.parallel import Executor, RayExecutor, TaskOutcome
from plueckernet.registration import register
from plueckernet.result import RegistrationResult

SIZES = {100: 3, 300: 3, 1000: 2}  # lines per side: pairs
_ROWS = 200
_RAY_PAIRS = 60
_QUIET = 0.5  # load average above which two workers are not compared with one
# What a worker needs before its first pair; prints the memory that it then has, in KiB.
_START = (
    "import resource, plueckernet.batch.worker as w; w.load_matcher('invariant');"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
)


def cpu_seconds(action: Callable[[], Any]) -> tuple[Any, float]:
    """What an action gives, and the CPU time of this process that it takes."""
    start = time.process_time()
    answer = action()
    return answer, time.process_time() - start


def registrations(
    size: int, same: Sequence[tuple[LineSet, LineSet]]
) -> tuple[dict[str, Any], list[RegistrationResult]]:
    """Seconds of a pair of the same place, and of different places; all results."""
    other = [(source, same[place - 1][1]) for place, (source, _) in enumerate(same)]
    register(*same[0])  # the weights are read once
    seconds: dict[str, list[float]] = {"same": [], "different": []}
    results = []
    for kind, kind_pairs in (("same", same), ("different", other)):
        for pair in progress(kind_pairs, f"{size} lines, {kind} place"):
            answer, spent = cpu_seconds(lambda pair=pair: register(*pair))  # type: ignore[misc]
            seconds[kind].append(spent)
            results.append(answer)
    values = {f"{kind}_place_seconds": round(statistics.median(spent), 3) for kind, spent in seconds.items()}
    return {"lines": size, "pairs": len(same), **values}, results


def storage(lines: tuple[LineSet, LineSet], results: Sequence[RegistrationResult]) -> dict[str, float]:
    """Reading a map, writing a row, collecting it, and the bytes that it takes."""
    load_pyarrow()  # once, not for each row
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lines(folder / "map.obj", lines[0])
        _, reading = cpu_seconds(lambda: [read_lines(folder / "map.obj") for _ in range(20)])
        _, hashing = cpu_seconds(lambda: [fingerprint(folder / "map.obj") for _ in range(20)])
        pair = BatchPair(folder / "map.obj", folder / "map.obj")
        rows = [result_row(number, pair, results[number % len(results)]) for number in range(_ROWS)]
        with BatchFolder.opened(folder / "out", {"schema": 1}, None) as batch:
            _, writing = cpu_seconds(lambda: [write_pending(batch.path, row) for row in rows])
            _, collecting = cpu_seconds(batch.collect)
        # Equal rows would take next to nothing, so each result is counted once; the columns take some bytes, too.
        sizes = [_file_size(folder / f"{count}.parquet", rows[:count]) for count in (1, len(results))]
        return {
            "reading_seconds": reading / 20,
            "fingerprint_seconds": hashing / 20,
            "writing_seconds": writing / _ROWS,
            "collecting_seconds": collecting / _ROWS,
            "row_bytes": round((sizes[1] - sizes[0]) / (len(results) - 1)),
        }


def _file_size(path: Path, rows: Sequence[ResultRow]) -> int:
    write_table(path, rows)
    return path.stat().st_size


def worker_start() -> dict[str, float]:
    """CPU time until a worker has imported all and loaded the weights, and its memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run([sys.executable, "-c", _START], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"start_seconds": round(spent, 2), "start_mib": round(int(run.stdout) / 1024)}


class _Timed:
    """An executor that notes when outcomes come."""

    def __init__(self, executor: Executor) -> None:
        self._executor, self.times = executor, list[float]()

    def run(self, function: Any, tasks: Any) -> Iterator[TaskOutcome]:
        for outcome in self._executor.run(function, tasks):
            self.times.append(time.perf_counter())
            yield outcome


def ray_speedup(repeats: int = 3) -> dict[str, Any]:
    """Pairs a second of two workers over those of one, once all workers have started; runs take turns."""
    lines = list(pairs("surveys", 300, 5))
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (source, target) in enumerate(lines):
            write_lines(folder / f"{number}s.obj", source)
            write_lines(folder / f"{number}t.obj", target)
        listed = [BatchPair(folder / f"{n % 5}s.obj", folder / f"{n % 5}t.obj", str(n)) for n in range(_RAY_PAIRS)]
        for turn in range(repeats):
            for workers in rates:
                timed = _Timed(RayExecutor("local", workers))
                out = folder / f"{turn}-{workers}"
                run_batch(listed, out, PairRegistration(), timed)
                if sorted(row.number for row in read_batch(out)) != list(range(_RAY_PAIRS)):
                    raise SystemExit("a pair is missing")
                first = 2 * workers  # outcomes until which workers may still be starting
                spent = timed.times[-1] - timed.times[first - 1]
                rates[workers].append((_RAY_PAIRS - first) / spent)
                print(f"{workers} workers: {rates[workers][-1]:.2f} pairs a second", flush=True)
    ratios = [two / single for single, two in zip(rates[1], rates[2], strict=True)]
    return {
        "pairs": _RAY_PAIRS,
        "speedup_of_two_workers": round(statistics.median(ratios), 2),
        "speedups": [round(ratio, 2) for ratio in ratios],
    }


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ray", action="store_true", help="measure the workers of Ray only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.ray and os.getloadavg()[0] > _QUIET:
        raise SystemExit(
            f"the load is {os.getloadavg()[0]:.1f}: with other work on the machine, the ratio says nothing"
        )
    if options.ray:
        _keep({"ray": ray_speedup()})
        return
    _keep({"worker": worker_start()})
    registered = []
    for size, count in SIZES.items():
        same = list(pairs("surveys", size, count))
        row, results = registrations(size, same)
        registered.append({**row, **storage(same[0], results)})
        print(registered[-1], flush=True)
        _keep({"registration": registered})


def _keep(values: dict[str, Any]) -> None:
    """Replace some of the results."""
    path = RESULTS / "costs.json"
    earlier = json.loads(path.read_text()) if path.exists() else {}
    save("costs", {**earlier, **values}, ["invariant"])


if __name__ == "__main__":
    main()
