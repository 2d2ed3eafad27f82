"""How long register() takes, stage by stage, in runs of the plain RANSAC loop of :mod:`benchmarks.estimation`.

``python -m benchmarks.speed`` writes ``results/speed.json``. Pairs are surveys that share 60 % of a place, thinned to
100, 300 and 1,000 lines per side. Each registration, on two threads, is timed next to one run of the loop (1,000
samples of 200 matches) that handles signs, as register() does, and to one that does not. Medians of the ratios on the
wall clock are reported, and those of CPU time beside them.
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

PAIRS = {100: 7, 300: 9, 1000: 3}  # by lines per side
MATCHERS = ("invariant", "descriptors")
Pair = tuple[LineSet, LineSet]


def pairs(size: int, count: int) -> list[Pair]:
    """``count`` pairs of exactly ``size`` lines per side, from the first scenes that have enough."""
    thinned: list[Pair] = []
    kind, seed = "indoor" if size < 500 else "outdoor", 0
    while len(thinned) < count:
        pair = sample_pair(make_scene(kind, seed), ScanProtocol(overlap=0.6), seed)
        if min(len(pair.source), len(pair.target)) >= size:
            generator = torch.Generator().manual_seed(seed)
            source, target = (
                lines[torch.randperm(len(lines), generator=generator)[:size]] for lines in (pair.source, pair.target)
            )
            thinned.append((source, target))
        seed += 1
    return thinned


def plain_loop(*, signed: bool) -> Callable[[], object]:
    """One run of the loop that everything is measured in."""
    source, target, _, _ = putative_matches("random", 0.5, 0)
    rows = source.lines.pluecker().numpy(), target.lines.pluecker().numpy()
    return lambda: plain_ransac(*rows, signed=signed)


def ratios(lines: list[Pair], matcher: str) -> dict[str, Any]:
    """Medians over the pairs: the call over the loops just before, by either clock, and the fraction of each stage."""
    loops = {"signed": plain_loop(signed=True), "unsigned": plain_loop(signed=False)}
    register(*lines[0], matcher=matcher)  # weights are read once
    measured: dict[str, list[float]] = {}
    for source, target in progress(lines, f"{len(lines[0][0])} lines per side, {matcher}"):
        spent = {name: _spent(loop)[1] for name, loop in loops.items()}
        result, (cpu, wall) = _spent(lambda: register(source, target, matcher=matcher))  # noqa: B023
        values = {"loop_seconds": spent["signed"][1]}
        for name, (loop_cpu, loop_wall) in spent.items():
            values |= {f"wall_to_{name}_loop": wall / loop_wall, f"cpu_to_{name}_loop": cpu / loop_cpu}
        values |= {f"fraction_{stage}": seconds / wall for stage, seconds in result.timings.items()}
        for name, value in values.items():
            measured.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in measured.items()}


def _spent(call: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What a call gives, and the seconds of the CPU and on the wall."""
    start = time.process_time(), time.perf_counter()
    answer = call()
    return answer, (time.process_time() - start[0], time.perf_counter() - start[1])


def main() -> None:
    """Run, print, save."""
    torch.set_num_threads(2)
    rows: list[dict[str, Any]] = []
    for size, count in PAIRS.items():
        lines = pairs(size, count)
        rows += [{"lines": size, "matcher": name, "pairs": count, **ratios(lines, name)} for name in MATCHERS]
    by_cell = {(row["lines"], row["matcher"]): row for row in rows}
    sizes = " / ".join(map(str, PAIRS))
    table = [
        {"what": f"time of register(), {matcher}, {sizes} lines per side, over that of the loop {how} signs",
         "goal": "< 1 for 300 lines" if matcher == "invariant" and how == "with" else "",
         "measured": " / ".join(f"{by_cell[size, matcher][f'wall_to_{name}_loop']:.2f}" for size in PAIRS)}
        for matcher in MATCHERS
        for how, name in (("with", "signed"), ("without", "unsigned"))
    ]  # fmt: skip
    save("speed", {"table": table, "ratios_to_the_plain_loop": rows}, weights=["invariant"])
    for row in rows:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})


if __name__ == "__main__":
    main()
