"""Predictions on demand: what is kept is read, what is missing is computed, by processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import torch

from plueckernet.errors import InputError
from plueckernet.evaluation.datasets import Prepared, StandIn, open_datasets
from plueckernet.evaluation.methods import Estimator, Method, all_methods
from plueckernet.evaluation.predictions import Cell, Prediction, Store, predict
from plueckernet.evaluation.protocols import EvaluationProtocol

Progress = Callable[[int, int], None]  # pairs done and to do
Requests = Sequence[tuple[Cell, int | None]]  # cells, and how many pairs of each; None: all there are
Job = tuple[Cell, int, str]  # a cell, one of its pairs, the device


@dataclass(frozen=True)
class RunSettings:
    """How to run, and on what."""

    predictions: Path  # folder they are kept in
    limit: int | None = None  # pairs of each cell, instead of the number that the experiment asks for
    device: str = "cpu"
    workers: int = 1  # processes; 1 means this one
    weights: Path | None = None  # folder of weights instead of the package's
    data: dict[str, Path] = field(default_factory=dict)  # prepared datasets, and other files that experiments need


class Runner:
    """Gives experiments the predictions that they ask for; its processes stay until it is closed."""

    def __init__(self, settings: RunSettings, on_progress: Progress | None = None) -> None:
        self.settings = settings
        self.methods = all_methods(settings.weights)
        scenes = {name: path for name, path in settings.data.items() if name not in OTHER_DATA}
        self.datasets: dict[str, StandIn | Prepared] = open_datasets(scenes)
        self._store = Store(settings.predictions)
        self._on_progress = on_progress or (lambda _done, _total: None)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def method(self, name: str) -> Method:
        """The method of that name."""
        if name not in self.methods:
            raise InputError(f"unknown method {name!r}; there are {', '.join(self.methods)}")
        return self.methods[name]

    def cell(self, dataset: str, protocol: EvaluationProtocol, method: str) -> Cell:
        """A cell by names."""
        if dataset not in self.datasets:
            raise InputError(f"unknown dataset {dataset!r}; there are {', '.join(self.datasets)}")
        return Cell(self.datasets[dataset], protocol, self.method(method))

    def run(self, cells: Sequence[Cell], pairs: int) -> list[list[Prediction]]:
        """The first pairs of each cell, as many as asked for and there."""
        return self.answer([(cell, pairs) for cell in cells])

    def answer(self, requests: Requests) -> list[list[Prediction]]:
        """The same, where cells have different numbers of pairs."""
        self.compute(requests)
        kept = [self._store.read(cell) for cell, _ in requests]
        return [
            [known[index] for index in range(self.count(cell, pairs))]
            for (cell, pairs), known in zip(requests, kept, strict=True)
        ]

    def compute(self, requests: Requests) -> None:
        """Compute and keep what is missing in any of the cells, spread over the processes."""
        jobs = self.missing(requests)
        for done, (cell, prediction) in enumerate(self._results(jobs), 1):
            self._store.append(cell, [prediction])
            self._on_progress(done, len(jobs))

    def missing(self, requests: Requests) -> list[Job]:
        """What is not kept of the cells, each pair once."""
        counts: dict[Cell, int] = {}
        for cell, pairs in requests:
            counts[cell] = max(self.count(cell, pairs), counts.get(cell, 0))
        for cell in counts:
            cell.config()  # missing weights are noticed before anything is computed
        jobs: list[Job] = []
        for cell, count in counts.items():
            known = self._store.read(cell)
            jobs += [(cell, index, self.settings.device) for index in range(count) if index not in known]
        return jobs

    def count(self, cell: Cell, pairs: int | None) -> int:
        """How many pairs of a cell are used: those asked for, or as many as the limit says, if there are so many."""
        wanted = pairs if self.settings.limit is None else self.settings.limit
        counts = [count for count in (wanted, cell.dataset.size(cell.protocol)) if count is not None]
        if not counts:
            raise InputError(f"{cell.dataset.name}: there is no end to its pairs; give their number by --limit")
        return min(counts)

    def _results(self, jobs: Sequence[Job]) -> Iterator[tuple[Cell, Prediction]]:
        """In the order of completion, so that an interrupted run loses only what was under way."""
        if self.settings.workers <= 1 or len(jobs) <= 1:
            yield from ((job[0], _work(job)) for job in jobs)
            return
        if self._pool is None:
            spawn: Any = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.settings.workers, spawn, begin_worker)
        cells = {self._pool.submit(_work, job): job[0] for job in jobs}
        for future in as_completed(cells):
            yield cells[future], future.result()


OTHER_DATA = ("ablations",)  # names of `RunSettings.data` that are no datasets of scenes


def begin_worker() -> None:
    """Start a process: one thread, and it ends with its parent."""
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def _work(job: Job) -> Prediction:
    cell, index, device = job
    return predict(cell, _loaded(cell.method, device), index, device)


@cache
def _loaded(method: Method, device: str) -> Estimator:
    return method.load(device)
