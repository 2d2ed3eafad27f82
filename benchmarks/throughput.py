"""Registrations a second in batches: ``python -m benchmarks.throughput [--device cuda] [--seconds 40]``.

Writes ``results/throughput.json``. Pairs are random parts without ends, 70 % of a place each, of one number of lines
a side, as in :mod:`benchmarks.speed`. Some pairs are registered over and over. A row has the registrations a second of
one number of lines and one batch size, complete from line sets to results; how many of the pairs were registered by
themselves; the share of each stage; the peak memory and the mean utilisation of the GPU. Beside them stand one at a
time on the same device, and how far poses and statuses differ from those of one at a time on the CPU.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from benchmarks.harness import save
from benchmarks.speed import pairs
from benchmarks.throughput_profile import profile
from plueckernet.batching import BatchRegistration, BatchRun
from plueckernet.errors import BatchSizeWarning
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet
from plueckernet.matchers import load_matcher
from plueckernet.registration import register
from plueckernet.result import RegistrationResult

SIZES = {215: (64, 256, 1024, 2048), 300: (1024,), 1000: (64, 256)}  # lines a side: batch sizes
GOALS = {215: "≥ 300", 1000: "≥ 60"}
PAIRS = {215: 24, 300: 12, 1000: 12}  # different ones
COMPARED = 6  # pairs that are registered one at a time, too
Maps = tuple[LineSet, LineSet]


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--seconds", type=float, default=45.0, help="for all measurements; those at the end are left out"
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), metavar="LINES")
    parser.add_argument("--batches", type=int, nargs="*", metavar="PAIRS", help="batch sizes, the same for all sizes")
    parser.add_argument("--profile", action="store_true", help="print what takes the time, and no more")
    options = parser.parse_args()
    if options.profile:
        profiles(options)
        return
    start, rows, compared = time.perf_counter(), [], []
    for size in options.sizes:
        chosen = list(pairs("parts", size, PAIRS.get(size, 12)))
        for batch_size in options.batches or SIZES.get(size, (64,)):
            if not rows or time.perf_counter() - start < options.seconds:
                rows.append(measured(chosen, size, batch_size, options.device))
                print(_line(rows[-1]), flush=True)
        if time.perf_counter() - start < options.seconds:
            compared.append(comparison(chosen[:COMPARED], size, options.device))
            print(compared[-1], flush=True)
    device = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    values = {"device": device, "rows": rows, "compared": compared, "table": table(rows, compared, device)}
    save("throughput", values, ["invariant"], options.device)


def profiles(options: argparse.Namespace) -> None:
    """Which functions and operations of a batch take most time."""
    for size, batch_size in itertools.product(options.sizes, options.batches or (64,)):
        chosen = list(pairs("parts", size, PAIRS.get(size, 12)))
        task = list(itertools.islice(itertools.cycle(chosen), batch_size))
        profile(partial(registration, options.device, batch_size, task), f"{size} {batch_size}", options.device)


def measured(chosen: Sequence[Maps], size: int, batch_size: int, device: str) -> dict[str, Any]:
    """Registrations a second after one batch that is not counted."""
    on_gpu = device == "cuda"
    task = list(itertools.islice(itertools.cycle(chosen), batch_size))
    registration(device, batch_size, task)  # loads libraries and fills the allocator
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    repeats = 2 if on_gpu else 1
    with utilisation() as used:
        start = time.perf_counter()
        batches = registration(device, batch_size, task * repeats)
        seconds = time.perf_counter() - start
    total = sum(batches.stage.seconds.values())
    return {
        "lines": size,
        "batch_size": batch_size,
        "used_batch_size": batches.batch_size,
        "registrations_per_second": len(task) * repeats / seconds,
        "registered_singly": batches.num_single / (len(task) * repeats),
        "stages": {name: value / total for name, value in batches.stage.seconds.items()},
        "milliseconds_per_batch": {name: 1e3 * value / repeats for name, value in batches.stage.seconds.items()},
        "peak_gigabytes": torch.cuda.max_memory_allocated() / 1e9 if on_gpu else None,
        "utilisation": sum(used) / len(used) if used else None,
    }


def registration(device: str, batch_size: int, task: Sequence[Maps]) -> BatchRegistration:
    """All pairs registered, as :func:`plueckernet.register_many` does it."""
    run = BatchRun(
        load_matcher("invariant", device),
        RegistrationSettings(),
        0,
        device,
        lambda pair: register(*pair, device=device),
    )
    batches = BatchRegistration(run, batch_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BatchSizeWarning)  # the batch size that was used is written down
        for _ in batches.results(task):
            pass
    return batches


def comparison(chosen: Sequence[Maps], size: int, device: str) -> dict[str, Any]:
    """One at a time: how fast it is on the device, and how far a batch is from it there and on the CPU."""
    run = BatchRun(load_matcher("invariant", device), RegistrationSettings(), 0, device, lambda pair: register(*pair))
    together = list(BatchRegistration(run, len(chosen)).results(chosen))
    register(*chosen[0], device=device)
    start = time.perf_counter()
    single = [register(*pair, device=device) for pair in chosen]
    seconds = (time.perf_counter() - start) / len(chosen)
    on_cpu = single if device == "cpu" else [register(*pair) for pair in chosen]
    return {
        "lines": size,
        "pairs": len(chosen),
        "one_at_a_time_per_second": 1 / seconds,
        "same_device": difference(together, single),
        "cpu": difference(together, on_cpu),
    }


def difference(results: Sequence[RegistrationResult], others: Sequence[RegistrationResult]) -> dict[str, float]:
    """The largest differences of poses and confidences, and how many statuses are the same."""
    pairs_of_results = list(zip(results, others, strict=True))
    poses = [(result.target_T_source, other.target_T_source) for result, other in pairs_of_results]
    apart = [float((a.matrix() - b.matrix()).abs().max()) for a, b in poses if a is not None and b is not None]
    return {
        "same_status": sum(result.status is other.status for result, other in pairs_of_results),
        "pose": max(apart, default=0.0),
        "confidence": max(abs(result.confidence - other.confidence) for result, other in pairs_of_results),
    }


@contextmanager
def utilisation() -> Iterator[list[float]]:
    """Percentages of the GPU in use, five a second; none where nvidia-smi is not found."""
    values: list[float] = []
    if shutil.which("nvidia-smi") is None:
        yield values
        return
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield values
        process.terminate()
        told = process.stdout.read() if process.stdout else ""
    values += [float(line) for line in told.splitlines() if line.strip().replace(".", "").isdigit()]


def _line(row: dict[str, Any]) -> str:
    memory = "" if row["peak_gigabytes"] is None else f", peak {row['peak_gigabytes']:.1f} GB"
    used = "" if row["utilisation"] is None else f", GPU {row['utilisation']:.0f} %"
    stages = ", ".join(f"{name} {value:.0f}" for name, value in row["milliseconds_per_batch"].items())
    return (
        f"{row['lines']:>5} lines, batches of {row['batch_size']:>3}: {row['registrations_per_second']:7.1f} a second,"
        f" {row['registered_singly']:.0%} singly{memory}{used}; ms a batch: {stages}"
    )


def table(rows: Sequence[dict[str, Any]], compared: Sequence[dict[str, Any]], device: str) -> list[dict[str, str]]:
    """For the table of numbers."""
    result = []
    for size in sorted({row["lines"] for row in rows}):
        best = max((row for row in rows if row["lines"] == size), key=lambda row: row["registrations_per_second"])
        what = f"registrations a second, {size:,} lines a side, batches of {best['used_batch_size']}, {device}"
        result.append(
            {"what": what, "goal": GOALS.get(size, ""), "measured": f"{best['registrations_per_second']:.0f}"}
        )
    for row in compared:
        what = (
            f"largest difference of a pose in batches from one at a time, {row['lines']:,} lines, {row['pairs']} pairs"
        )
        result.append({"what": what, "goal": "≤ 1e-6", "measured": f"{row['same_device']['pose']:.0e}"})
    return result


if __name__ == "__main__":
    main()
