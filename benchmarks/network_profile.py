"""Where the time of the network goes on one thread.

``python -m benchmarks.network_profile`` prints and writes ``results/network_profile.json``: for pairs of 215, 300, 600
and 1,000 lines per side, and for a pair of unequal sizes, the fraction of the CPU time in each stage and in each
operation. The time is also given in products of 512 x 512 matrices, by which machines can be compared.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.harness import save
from benchmarks.speed import pairs
from plueckernet.geometry import LineSet, stack_lines
from plueckernet.models import Matcher
from plueckernet.models.matcher import pair_up
from plueckernet.models.weights import load_pretrained

SIZES = (215, 300, 600, 1000)
REPEATS = {215: 15, 300: 15, 600: 7, 1000: 5}
OPERATIONS = 8  # reported, the slowest


def cpu_seconds(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The least CPU time of each call, all calls in turn: other processes only ever add to it."""
    least = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            least[name] = min(least[name], time.process_time() - start)
    return least


def measure(network: Matcher, source: LineSet, target: LineSet, repeats: int) -> dict[str, Any]:
    """Stages and operations of one pair."""
    batch = stack_lines([source]), stack_lines([target])
    lines = pair_up(*batch)
    matrix = torch.ones(512, 512)

    with torch.no_grad():
        features = network.trunk(lines).chunk(2)
        calls: dict[str, Callable[[], object]] = {
            "matcher": lambda: network(*batch),
            "trunk": lambda: network.trunk(lines),
            "head": lambda: network.head(*features, None, None),
            "product": lambda: matrix @ matrix,
        }
        least = cpu_seconds(calls, repeats)
        with profile(activities=[ProfilerActivity.CPU]) as record:
            network(*batch)
    return {
        "lines": [len(source), len(target)],
        "cpu_s": least["matcher"],
        "trunk_fraction": least["trunk"] / least["matcher"],
        "head_fraction": least["head"] / least["matcher"],
        "matcher_to_products": least["matcher"] / least["product"],  # of 512 x 512 matrices
        "operations": slowest(record),
    }


def slowest(record: profile) -> dict[str, float]:
    """The fractions of the time of the slowest operations."""
    events = sorted(record.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    return {event.key: event.self_cpu_time_total / total for event in events[:OPERATIONS]}


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    network = load_pretrained("invariant")
    if not isinstance(network, Matcher):
        raise TypeError("the default weights are those of a matcher")
    rows = []
    for size in options.sizes:
        source, target = next(pairs("surveys", size, 1))
        for other in (source, source[torch.arange(size // 2)]):
            rows.append(measure(network, other, target, REPEATS.get(size, 5)))
            print({key: round(value, 4) if isinstance(value, float) else value for key, value in rows[-1].items()})
    save("network_profile", {"threads": 1, "pairs": rows}, weights=["invariant"])


if __name__ == "__main__":
    main()
