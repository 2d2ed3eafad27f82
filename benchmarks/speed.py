"""How long register() takes, stage by stage, in runs of the plain RANSAC loop of :mod:`benchmarks.estimation`.

``python -m benchmarks.speed`` writes ``results/speed.json``. Pairs are surveys that share 60 % of a place, thinned to
100, 300 and 1,000 lines a side. Each registration is timed next to one run of the loop (1,000 hypotheses, 200 matches,
no signs), on one thread; what is reported are medians of the ratios.
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

SIZES = (100, 300, 1000)  # lines a side
MATCHERS = ("invariant", "descriptors")
PAIRS = 7
Pair = tuple[LineSet, LineSet]


def pairs(size: int) -> list[Pair]:
    """Pairs of exactly so many lines a side, from the first scenes that have enough."""
    found: list[Pair] = []
    kind, seed = "indoor" if size < 500 else "outdoor", 0
    while len(found) < PAIRS:
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


def ratios(lines: list[Pair], matcher: str) -> dict[str, float]:
    """Median over the pairs of each stage's time, and of the whole call's, over that of the loop just before."""
    loop = plain_loop()
    register(*lines[0], matcher=matcher)  # weights are read once
    found: dict[str, list[float]] = {}
    for source, target in progress(lines, f"{len(lines[0][0])} lines a side, {matcher}"):
        start = time.perf_counter()
        loop()
        middle = time.perf_counter()
        result = register(source, target, matcher=matcher)
        plain, whole = middle - start, time.perf_counter() - middle
        for stage, seconds in {"register": whole, **result.timings}.items():
            found.setdefault(stage, []).append(seconds / plain)
    return {stage: statistics.median(values) for stage, values in found.items()}


def main() -> None:
    """Run, print, save."""
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        lines = pairs(size)
        rows += [{"lines": size, "matcher": name, "pairs": PAIRS, **ratios(lines, name)} for name in MATCHERS]
    whole = {(row["lines"], row["matcher"]): row["register"] for row in rows}
    table = [
        {"what": f"time of register(), {matcher}, {' / '.join(map(str, SIZES))} lines a side, over the plain loop's",
         "asked": "< 1 for 300 lines" if matcher == "invariant" else "",
         "measured": " / ".join(f"{whole[size, matcher]:.2f}" for size in SIZES)}
        for matcher in MATCHERS
    ]  # fmt: skip
    save("speed", {"table": table, "ratios_to_the_plain_loop": rows})
    for row in rows:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})


if __name__ == "__main__":
    main()
