"""The networks on the CPU: time and memory of matcher and transport as maps grow, and against a plain version.

    python -m benchmarks.networks

Each size runs in its own process, whose peak memory is reported; of large maps that of the run of three that takes
most, because it depends on where the allocator puts blocks. The plain version, `benchmarks/plain_pluecker.py`, is
PlückerNet with the same weights as the paper prints it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from benchmarks.plain_pluecker import plain_pluecker
from plueckernet.evaluation.provenance import provenance
from plueckernet.geometry import LineSet
from plueckernet.models import InvariantConfig, PlueckerConfig, build_matcher, top_k_matches

SIZES = (215, 700, 2000, 10_000)
LARGE = 2000  # lines; above, the memory differs from run to run
RESULTS = Path(__file__).parent / "results" / "networks_cpu.json"
CONFIGS = {
    "invariant": InvariantConfig(),
    "pluecker": PlueckerConfig(),
}


def random_pair(lines: int) -> tuple[LineSet, LineSet]:
    """Segments of about a metre, as dense as in a house however many there are."""
    generator = torch.Generator().manual_seed(lines)
    extent = 10.0 * (lines / 215) ** 0.5
    sets = []
    for _ in range(2):
        ends = torch.randn(1, lines, 2, 3, generator=generator, dtype=torch.float64)
        place = torch.rand(1, lines, 1, 3, generator=generator, dtype=torch.float64)
        size = torch.tensor([extent, extent, 3.0], dtype=torch.float64)
        sets.append(LineSet.from_segments(ends + place * size))
    return sets[0], sets[1]


def timed(function: Callable[[], object], warmup: int, repeats: int) -> dict[str, float]:
    """Median and quartiles of wall-clock and CPU time, in seconds."""
    wall, cpu = [], []
    for i in range(warmup + repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        function()
        if i >= warmup:
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - start_cpu)
    quartiles = statistics.quantiles(wall, n=4) if repeats > 1 else [wall[0]] * 3
    return {
        "median_s": statistics.median(wall),
        "q1_s": quartiles[0],
        "q3_s": quartiles[2],
        "cpu_s": statistics.median(cpu),
        "repeats": repeats,
    }


@torch.no_grad()
def measure(network: str, lines: int, threads: int) -> dict[str, Any]:
    """One network at one size, in this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = build_matcher(CONFIGS[network]).eval()
    source, target = random_pair(lines)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def match() -> object:
        return top_k_matches(net(source, target).log_probability, 200)

    warmup, repeats = (1, 5) if lines <= 1000 else (1, 3) if lines <= 2000 else (0, 1)
    row = {"network": network, "lines": lines, **timed(match, warmup, repeats)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {**row, "peak_gib": peak / 2**20, "of_which_before_gib": before / 2**20}


@torch.no_grad()
def compare_with_plain(lines: int, threads: int) -> dict[str, Any]:
    """Time of the plain PlückerNet over ours, alternating in one process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = build_matcher(CONFIGS["pluecker"]).eval()
    source, target = random_pair(lines)
    difference = (plain_pluecker(net, source, target) - net(source, target).log_probability.exp()).abs().max()
    ours, plain = [], []
    for _ in range(7):
        ours.append(timed(lambda: net(source, target), 0, 1))
        plain.append(timed(lambda: plain_pluecker(net, source, target), 0, 1))
    medians = {
        f"{name}_{key}": statistics.median(run[key] for run in runs)
        for name, runs in (("ours", ours), ("plain", plain))
        for key in ("median_s", "cpu_s")
    }
    ratios = [p["median_s"] / o["median_s"] for o, p in zip(ours, plain, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return {
        "lines": lines,
        **medians,
        "ratio": ratio,
        "ratio_q1": low,
        "ratio_q3": high,
        "difference": float(difference),
    }


def growth(rows: list[dict[str, Any]], network: str) -> dict[str, float]:
    """Exponents of CPU time between consecutive sizes."""
    of_network = [row for row in rows if row["network"] == network]
    return {
        f"{a['lines']}-{b['lines']}": math.log(b["cpu_s"] / a["cpu_s"]) / math.log(b["lines"] / a["lines"])
        for a, b in pairwise(of_network)
    }


def table(document: dict[str, Any]) -> str:
    """The Markdown table of docs/networks.md."""
    lines = ["| network | lines per map | CPU time (s) | peak memory (GiB) | growth since the row above |"]
    lines.append("|---|---|---|---|---|")
    for network, exponents in document["growth_exponents"].items():
        rows = [row for row in document["matcher_and_transport"] if row["network"] == network]
        for row, exponent in zip(rows, [None, *exponents.values()], strict=True):
            power = "" if exponent is None else f"n^{exponent:.1f}"
            cells = (network, f"{row['lines']:,}", f"{row['cpu_s']:.2f}", f"{row['peak_gib']:.2f}", power)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def peak(row: dict[str, Any]) -> float:
    """The peak memory of a measurement."""
    return float(row["peak_gib"])


def in_process(*arguments: str) -> dict[str, Any]:
    """Run one measurement in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.networks", *arguments]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    """Measure everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--network", nargs=2, metavar=("NETWORK", "LINES"), help="measure one network, print JSON")
    parser.add_argument("--plain", type=int, metavar="LINES", help="compare with the plain version, print JSON")
    parser.add_argument("--table", action="store_true", help="print the table of the last results")
    a = parser.parse_args()
    if a.table:
        print(table(json.loads(a.out.read_text())))
        return
    if a.network:
        print(json.dumps(measure(a.network[0], int(a.network[1]), a.threads)))
        return
    if a.plain:
        print(json.dumps(compare_with_plain(a.plain, a.threads)))
        return
    threads = ("--threads", str(a.threads))
    plain = in_process("--plain", "700", *threads)
    rows = [
        max((in_process("--network", name, str(n), *threads) for _ in range(3 if n > LARGE else 1)), key=peak)
        for name in CONFIGS
        for n in a.sizes
    ]
    document = {
        "provenance": provenance("benchmarks.networks").to_dict(),
        "metadata": {
            "machine": platform.platform(),
            "threads": a.threads,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "load_before": os.getloadavg(),
        },
        "matcher_and_transport": rows,
        "growth_exponents": {name: growth(rows, name) for name in CONFIGS},
        "plain_pluecker": plain,
    }
    a.out.parent.mkdir(parents=True, exist_ok=True)
    a.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
