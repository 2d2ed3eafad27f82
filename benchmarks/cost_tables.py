"""The tables of docs/batch.md: what was measured by :mod:`benchmarks.costs`, and what follows for large batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.harness import RESULTS
from plueckernet.evaluation.documents import read_json

LINES = 10_000_000  # of all maps together
CANDIDATES = 10  # other maps that each map is registered with, as a retrieval would propose them
SAME_PLACE = 0.4  # fraction of these pairs that show the same place
CORES = (16, 256)


def units() -> Iterator[str]:
    """What a pair costs, by its lines."""
    yield (
        "| lines a side | same place | different places | reading a map | hash of a map | writing a row"
        " | collecting a row | bytes of a row |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for row in _costs().get("registration", []):
        milliseconds = (
            f"{1000 * row[name]:.1f} ms"
            for name in ("reading_seconds", "fingerprint_seconds", "writing_seconds", "collecting_seconds")
        )
        cells = [f"{row['lines']:,}", f"{row['same_place_seconds']:.2f} s", f"{row['different_place_seconds']:.2f} s"]
        yield f"| {' | '.join([*cells, *milliseconds, format(row['row_bytes'], ',')])} |"


def scenario() -> Iterator[str]:
    """What ten million lines cost, cut into maps of different sizes."""
    hours = " | ".join(f"on {cores} cores" for cores in CORES)
    yield f"| maps | lines each | pairs | hours of one core | {hours} | results | workers that one driver can serve |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in _costs().get("registration", []):
        maps = LINES // row["lines"]
        for count, same in ((maps * CANDIDATES, SAME_PLACE), (maps * (maps - 1) // 2, 0.0)):
            yield _scenario_row(row, maps, count, same)


def _scenario_row(row: dict[str, Any], maps: int, pairs: int, same: float) -> str:
    computing = same * row["same_place_seconds"] + (1 - same) * row["different_place_seconds"]
    seconds = computing + 2 * row["reading_seconds"] + row["writing_seconds"]
    total = pairs * seconds / 3600
    spent = [f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" for hours in (total, *(total / n for n in CORES))]
    size = pairs * row["row_bytes"] / 1e9
    workers = seconds / row["collecting_seconds"]
    return (
        f"| {maps:,} | {row['lines']:,} | {pairs:,} | {' | '.join(spent)}"
        f" | {size:,.1f} GB | {float(f'{workers:.2g}'):,.0f} |"
    )


def start() -> Iterator[str]:
    """What a worker costs before its first pair, and how workers of Ray scale."""
    values = _costs()
    worker, ray = values.get("worker"), values.get("ray")
    yield "| what | measured |"
    yield "|---|---|"
    if worker is not None:
        measured = f"{worker['start_seconds']:.1f} s of a CPU, {worker['start_mib']} MiB"
        yield f"| start of a worker: imports and weights | {measured} |"
    if ray is not None:
        each = ", ".join(f"{ratio:.2f}" for ratio in ray["speedups"])
        yield (
            f"| two workers of a local Ray cluster against one, {ray['pairs']} pairs of 300 lines, each of"
            f" {len(ray['speedups'])} runs | {each} times the pairs a second |"
        )


def _costs() -> dict[str, Any]:
    path = RESULTS / "costs.json"
    return read_json(path) if path.exists() else {}
