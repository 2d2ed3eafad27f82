"""How long register() takes, stage by stage, in runs of the plain RANSAC loop of :mod:`benchmarks.estimation`.

``python -m benchmarks.speed`` writes ``results/speed.json``. Pairs are surveys that share 60 % of a place, thinned to
100, 300 and 1,000 lines a side. Each registration is timed next to one run of the loop (1,000 hypotheses, 200 matches,
no signs), on one thread; what is reported are medians of the ratios. Ratios of processor time stand first, because
other work on the machine hardly moves them; those of the wall clock stand beside them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.estimation import plain_ransac, putative_matches
from benchmarks.harness import progress, save
from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet
from plueckernet.registration import register

PAIRS = {100: 5, 300: 5, 1000: 2}  # by lines a side
MATCHERS = ("invariant", "descriptors")
Pair = tuple[LineSet, LineSet]


def pairs(size: int, count: int) -> list[Pair]:
    """So many pairs of exactly ``size`` lines a side, from the first scenes that have enough."""
    found: list[Pair] = []
    kind, seed = "indoor" if size < 500 else "outdoor", 0
    while len(found) < count:
        pair = sample_pair(make_scene(kind, seed), ScanProtocol(overlap=0.6), seed)
        if min(len(pair.source), len(pair.target)) >= size:
            generator = torch.Generator().manual_seed(seed)
            source, target = (
                lines[torch.randperm(len(lines), generator=generator)[:size]] for lines in (pair.source, pair.target)
            )
            found.append((source, target))
        seed += 1
    return found


def plain_loop() -> Callable[[], object]:
    """One run of the loop that everything is measured in."""
    source, target, _, _ = putative_matches("random", 0.5, 0)
    rows = source.lines.pluecker().numpy(), target.lines.pluecker().numpy()
    return lambda: plain_ransac(*rows, signed=False)


def ratios(lines: list[Pair], matcher: str) -> dict[str, Any]:
    """Medians over the pairs: the whole call over the loop just before, by either clock, and each stage's share."""
    loop = plain_loop()
    register(*lines[0], matcher=matcher)  # weights are read once
    found: dict[str, list[float]] = {}
    for source, target in progress(lines, f"{len(lines[0][0])} lines a side, {matcher}"):
        before = _clocks()
        loop()
        between = _clocks()
        result = register(source, target, matcher=matcher)
        after = _clocks()
        (plain_cpu, plain_wall), (cpu, wall) = _passed(before, between), _passed(between, after)
        values = {"register": cpu / plain_cpu, "register_wall": wall / plain_wall, "loop_seconds": plain_cpu}
        values |= {f"share_{stage}": seconds / wall for stage, seconds in result.timings.items()}
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def _clocks() -> tuple[float, float]:
    """Of the processor and on the wall."""
    return time.process_time(), time.perf_counter()


def _passed(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    return end[0] - start[0], end[1] - start[1]


def main() -> None:
    """Run, print, save."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for size, count in PAIRS.items():
        lines = pairs(size, count)
        rows += [{"lines": size, "matcher": name, "pairs": count, **ratios(lines, name)} for name in MATCHERS]
    found = {(row["lines"], row["matcher"]): row for row in rows}
    sizes = " / ".join(map(str, PAIRS))
    table = [
        {"what": f"{clock} time of register(), {matcher}, {sizes} lines a side, over the plain loop's",
         "asked": "< 1 for 300 lines" if matcher == "invariant" else "",
         "measured": " / ".join(f"{found[size, matcher][name]:.2f}" for size in PAIRS)}
        for matcher in MATCHERS
        for clock, name in (("processor", "register"), ("wall-clock", "register_wall"))
    ]  # fmt: skip
    save("speed", {"table": table, "ratios_to_the_plain_loop": rows})
    for row in rows:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})


if __name__ == "__main__":
    main()
