"""Predictions on demand: what is kept is read, what is missing is computed, by processes of one thread each."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from plueckernet.errors import InputError
from plueckernet.evaluation.datasets import Dataset, open_datasets
from plueckernet.evaluation.methods import Estimator, Method, all_methods
from plueckernet.evaluation.predictions import Cell, Prediction, Store, predict
from plueckernet.evaluation.protocols import Protocol

_CHUNK = 4  # pairs a process is given at once
Progress = Callable[[int, int], None]  # pairs done and to do
Job = tuple[Cell, tuple[int, ...], str]


@dataclass(frozen=True)
class RunSettings:
    """How to run, and on what."""

    predictions: Path  # folder they are kept in
    limit: int | None = None  # pairs of a cell at most
    device: str = "cpu"
    workers: int = 1  # processes; one works in this one
    weights: Path | None = None  # folder of weights instead of the package's
    data: dict[str, Path] = field(default_factory=dict)  # prepared datasets, and other files that experiments need


class Runner:
    """Gives experiments the predictions that they ask for; its processes stay until it is closed."""

    def __init__(self, settings: RunSettings, on_progress: Progress | None = None) -> None:
        self.settings = settings
        self.methods = all_methods(settings.weights)
        scenes = {name: path for name, path in settings.data.items() if name not in OTHER_DATA}
        self.datasets: dict[str, Dataset] = open_datasets(scenes)
        self._store = Store(settings.predictions)
        self._on_progress = on_progress or (lambda _done, _total: None)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Send the processes home."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def method(self, name: str) -> Method:
        """The method of that name."""
        if name not in self.methods:
            raise InputError(f"unknown method {name!r}; there are {', '.join(self.methods)}")
        return self.methods[name]

    def cell(self, dataset: str, protocol: Protocol, method: str) -> Cell:
        """A cell by names."""
        if dataset not in self.datasets:
            raise InputError(f"unknown dataset {dataset!r}; there are {', '.join(self.datasets)}")
        return Cell(self.datasets[dataset], protocol, self.method(method))

    def run(self, cells: Sequence[Cell], pairs: int) -> list[list[Prediction]]:
        """The first pairs of each cell, as many as asked for, allowed and there."""
        for cell in cells:
            cell.config()  # missing weights are noticed before anything is computed
        counts = [self._count(cell, pairs) for cell in cells]
        kept = [self._store.read(cell) for cell in cells]
        missing = [
            (cell, tuple(index for index in range(count) if index not in known))
            for cell, count, known in zip(cells, counts, kept, strict=True)
        ]
        self._compute(missing)
        return [
            [known[index] for index in range(count)]
            for count, known in ((count, self._store.read(cell)) for cell, count in zip(cells, counts, strict=True))
        ]

    def _count(self, cell: Cell, pairs: int) -> int:
        size = cell.dataset.size(cell.protocol)
        return min(one for one in (pairs, self.settings.limit, size) if one is not None)

    def _compute(self, missing: Sequence[tuple[Cell, tuple[int, ...]]]) -> None:
        total, done = sum(len(indices) for _, indices in missing), 0
        jobs = [
            (cell, indices[i : i + _CHUNK], self.settings.device)
            for cell, indices in missing
            for i in range(0, len(indices), _CHUNK)
        ]
        for (cell, _, _), found in zip(jobs, self._results(jobs), strict=True):
            self._store.append(cell, found)
            done += len(found)
            self._on_progress(done, total)

    def _results(self, jobs: Sequence[Job]) -> Iterator[list[Prediction]]:
        if self.settings.workers <= 1 or len(jobs) <= 1:
            yield from map(_work, jobs)
            return
        if self._pool is None:
            spawn: Any = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.settings.workers, spawn, torch.set_num_threads, (1,))
        yield from self._pool.map(_work, jobs)


OTHER_DATA = ("ablations",)  # names of `RunSettings.data` that are no datasets of scenes


def _work(job: Job) -> list[Prediction]:
    cell, indices, device = job
    estimator = _loaded(cell.method, device)
    return [predict(cell, estimator, index, device) for index in indices]


@cache
def _loaded(method: Method, device: str) -> Estimator:
    return method.load(device)
