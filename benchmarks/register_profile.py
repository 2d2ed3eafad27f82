"""Where the CPU time of register() goes: ``python -m benchmarks.register_profile [--against COMMIT]``.

Writes ``results/register_profile.json``: milliseconds of CPU time in the main functions of a registration, on one
thread, the best of some repetitions, beside those of the sources of a commit. The machine may be busy, so that only
what was measured in one run compares. Functions that call each other are both counted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed import ROOT, _sources, _written, pairs
from benchmarks.speed_worker import _read

CASES = (("parts", 300), ("surveys", 300), ("surveys", 1000))
REPEATS = 8
FUNCTIONS = {
    "registration": "register",
    "estimation.maps": "normalize_maps",
    "matchers": "NetworkMatcher.match",
    "estimation.consistency": "MatchGraph.of",
    "estimation.verification": "MapScorer.__init__ MapScorer.best MapScorer.explained MapScorer.stand_out",
    "estimation.candidates": "select_candidates",
    "estimation.distinct": "distinct_poses",
    "estimation.refinement": "refine_candidates complete_refinement",
    "estimation.evidence": "gather_evidence",
    "estimation.pose_family": "pose_family",
}


def main() -> None:
    """Measure, print, save; as a worker, print what the sources on the path take."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="", metavar="COMMIT", help="whose sources register the same pairs")
    parser.add_argument("--measure", type=Path, nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        clock = timed_functions()
        print(json.dumps({path.stem: measured(path, clock) for path in options.measure}))
        return
    from benchmarks.harness import save  # which earlier sources may lack

    values = compared(options.against)
    print(json.dumps(values, indent=1))
    save("register_profile", {"against": options.against, "milliseconds": values}, weights=["invariant"])


def compared(against: str) -> dict[str, Any]:
    """Of each case, milliseconds in each function: now and, if a commit is given, then."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for kind, size in CASES:
            path = _written(Path(folder), next(pairs(kind, size, 1)))
            paths.append(path.rename(path.with_name(f"{kind}-{size}.npz")))
        sources = {"now": ROOT / "src", **({"then": _sources(against, Path(folder))} if against else {})}
        told = {name: _told(path, paths) for name, path in sources.items()}
    return {case: {name: values[case] for name, values in told.items()} for case in told["now"]}


def _told(sources: Path, paths: list[Path]) -> dict[str, Any]:
    variables = os.environ | {"PYTHONPATH": f"{sources}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.register_profile", "--measure", *map(str, paths)]
    answer = subprocess.run(command, env=variables, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    told: dict[str, Any] = json.loads(answer)
    return told


def measured(path: Path, clock: dict[str, float]) -> dict[str, float]:
    """Milliseconds in each function, of the fastest of several registrations of a pair."""
    register, pair, runs = importlib.import_module("plueckernet.registration").register, _read(path), []
    for _ in range(1 + REPEATS):  # the first reads the weights
        clock.clear()
        register(*pair)
        runs.append({name: round(1e3 * seconds, 2) for name, seconds in clock.items()})
    return min(runs[1:], key=lambda run: run["register"])


def timed_functions() -> dict[str, float]:
    """Replace all functions by ones that add the CPU time they take to the clock that is returned."""
    torch.set_num_threads(1)
    clock: dict[str, float] = {}
    importlib.import_module("plueckernet.registration")  # imports all others
    for module, names in FUNCTIONS.items():
        for name in names.split():
            _time(importlib.import_module(f"plueckernet.{module}"), name, clock)
    return clock


def _time(module: Any, name: str, clock: dict[str, float]) -> None:
    """Replace a function, wherever it was imported, by one that adds the CPU time it takes to the clock."""
    *owners, last = name.split(".")
    owner = getattr(module, owners[0]) if owners else module
    function = getattr(owner, last)
    is_method = isinstance(owner, type) and not isinstance(owner.__dict__[last], classmethod | staticmethod)
    timed = _timed(function, name, clock)
    setattr(owner, last, timed if is_method or not owners else staticmethod(timed))
    for other in list(sys.modules.values()):
        if other.__name__.startswith("plueckernet") and not owners and getattr(other, last, None) is function:
            setattr(other, last, timed)


def _timed(function: Callable[..., Any], name: str, clock: dict[str, float]) -> Callable[..., Any]:
    def timed(*arguments: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return function(*arguments, **options)
        finally:
            clock[name] = clock.get(name, 0.0) + time.process_time() - start

    return timed


if __name__ == "__main__":
    main()
