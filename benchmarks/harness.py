"""What every benchmark shares: where results go, what is written beside them, timing that can be compared.

Speed is only ever reported as a ratio within one run: machines are shared, seconds are not comparable.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import track

from plueckernet.evaluation.metrics import SUCCESS
from plueckernet.evaluation.metrics import pose_error as pose_error
from plueckernet.evaluation.provenance import environment
from plueckernet.geometry import Pose
from plueckernet.io.atomic import atomic_write
from plueckernet.result import RegistrationResult

RESULTS = Path(__file__).parent / "results"
_T = TypeVar("_T")


def save(name: str, values: dict[str, Any]) -> None:
    """Write ``results/NAME.json`` with the metadata."""
    RESULTS.mkdir(exist_ok=True)
    with atomic_write(RESULTS / f"{name}.json") as stream:
        stream.write(json.dumps({"metadata": environment(), **values}, indent=1) + "\n")


def progress(items: Iterable[_T], label: str, total: int | None = None) -> Iterable[_T]:
    """The items, with a bar; ``total`` where they do not know how many they are."""
    return track(items, description=label, total=total)


def seconds(action: Callable[[], object], repeats: int = 15, warmup: int = 3) -> dict[str, float]:
    """Median and interquartile range of the time an action takes."""
    for _ in range(warmup):
        action()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    low, middle, high = statistics.quantiles(times, n=4)
    return {"median": middle, "iqr": high - low}


def succeeded(error: tuple[float, float], angle: float = SUCCESS[0], distance: float = SUCCESS[1]) -> bool:
    """The usual success: under 5 degrees and half a metre."""
    return error[0] < angle and error[1] < distance


def best_error(result: RegistrationResult, truth: Pose) -> tuple[float, float]:
    """Of the best pose, believed or not."""
    best = result.target_T_source or (result.alternatives[0].target_T_source if result.alternatives else None)
    return pose_error(best, truth)


def filled(page: str, name: str, module: str, content: str) -> str:
    """The page with the content between the markers of that name, which tell who writes there."""
    begin, end = f"<!-- {name}: written by python -m benchmarks.{module} -->", f"<!-- end of {name} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no {begin!r} followed by {end!r}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"
