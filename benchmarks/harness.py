"""What every benchmark shares: where results go, what is written beside them, timing that can be compared.

Speed is only ever reported as a ratio within one run: machines are shared, seconds are not comparable.
"""

from __future__ import annotations

import inspect
import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import track

from plueckernet.evaluation.documents import TableRow
from plueckernet.evaluation.provenance import provenance
from plueckernet.io.atomic import atomic_write

RESULTS = Path(__file__).parent / "results"
_T = TypeVar("_T")


def save(name: str, values: Mapping[str, Any], weights: Iterable[str] = (), device: str = "cpu") -> None:
    """Write ``results/NAME.json`` with the provenance of the module that calls.

    ``table``, if there, has rows for the tables of numbers: what was measured, the goal or what was ``asked``.
    """
    module = f"benchmarks.{Path(inspect.stack()[1].filename).stem}"
    content = {key: value for key, value in values.items() if key not in ("provenance", "metadata")}
    if "table" in content:
        content["table"] = [asdict(row) for row in table_rows(content["table"])]
    sources = provenance(module, weights, device=device).to_dict()
    RESULTS.mkdir(exist_ok=True)
    with atomic_write(RESULTS / f"{name}.json") as stream:
        stream.write(json.dumps({"provenance": sources, **content}, indent=1, ensure_ascii=False) + "\n")


def table_rows(rows: Sequence[TableRow | Mapping[str, str]]) -> list[TableRow]:
    """Rows as they are typed; an unknown key raises."""
    return [row if isinstance(row, TableRow) else _row(**row) for row in rows]


def _row(what: str, measured: str, goal: str = "", asked: str = "") -> TableRow:
    return TableRow(what, measured, goal or asked)


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
