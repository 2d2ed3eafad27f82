"""Two unrelated maps of 100,000 lines each: ``python -m benchmarks.huge``; the search has to end, and to say failed."""

from __future__ import annotations

import argparse
import resource
import time

import torch

from benchmarks.harness import save
from plueckernet.data.campus import campus
from plueckernet.evaluation.documents import TableRow
from plueckernet.registration import register


def main() -> None:
    """Register, and write ``results/huge.json``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--lines", type=int, default=100_000, help="of each map")
    lines = parser.parse_args().lines
    torch.set_num_threads(1)
    source, target = campus(1, lines), campus(2, lines)
    start = time.process_time()
    result = register(source, target)
    seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    measured = f"{result.status}, {seconds:.0f} s of CPU time, {peak:.1f} GB"
    row = TableRow(f"{lines:,} against {lines:,} unrelated lines, one thread", measured, "failed")
    values = {"lines": lines, "status": str(result.status), "confidence": result.confidence, "cpu_seconds": seconds}
    save("huge", {**values, "peak_gigabytes": peak, "timings": result.timings, "table": [row]}, ["invariant"])


if __name__ == "__main__":
    main()
