"""Worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from plueckernet.errors import InputError
from plueckernet.parallel.executor import PendingTasks, TaskOutcome, load_function, outcome_from, packed_answer

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_GPUS = "CUDA_VISIBLE_DEVICES"
_PATIENCE = 5.0  # seconds that a worker has to end by itself
_STARTED = b"started"
_GONE = (EOFError, BrokenPipeError, ConnectionResetError)


@dataclass(frozen=True)
class ProcessExecutor:
    """Runs tasks in processes of this machine, which import what they need by themselves.

    A worker whose driver is killed completes its task and ends.
    """

    workers: int
    threads: int = 1  # of each worker
    gpus: int = 0  # of this machine, shared out among the workers

    def __post_init__(self) -> None:
        if self.workers < 1 or self.threads < 1 or self.gpus < 0:
            raise InputError(f"expected at least one worker and one thread, got {self}")

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Generator[TaskOutcome, None, None]:
        """See :class:`~plueckernet.parallel.Executor`."""
        pending, packed = PendingTasks(tasks), pickle.dumps(function)
        pool: list[_Worker | None] = [None] * self.workers  # each is started with its first task
        try:
            while True:
                for index, worker in enumerate(pool):
                    if worker is None or worker.task is None:
                        pool[index] = self._with_task(worker, index, packed, pending)
                busy = [worker for worker in pool if worker is not None and worker.task is not None]
                if not busy:
                    return
                yield from _completed(busy, pending)
                pool = [None if worker is None or worker.lost else worker for worker in pool]
        finally:
            _stop([worker for worker in pool if worker is not None])

    def _with_task(self, worker: _Worker | None, index: int, packed: bytes, pending: PendingTasks) -> _Worker | None:
        """The worker with a new task, or a new worker in its place; None if there is neither worker nor task."""
        drawn = pending.draw()
        if drawn is None:
            return worker
        while worker is None or not worker.take(*drawn):  # an idle worker may have been killed
            worker = _Worker(packed, self._environment(index))
        return worker

    def _environment(self, index: int) -> dict[str, str]:
        values = dict.fromkeys(_THREADS, str(self.threads))
        if self.gpus:
            visible = os.environ.get(_GPUS)
            names = visible.split(",") if visible else [str(gpu) for gpu in range(self.gpus)]
            values[_GPUS] = names[index % len(names)]
        return values


class _Worker:
    """A process, its connection and its task."""

    def __init__(self, packed_function: bytes, environment: dict[str, str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other_end = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(other_end, environment))
        self.task: tuple[int, Any] | None = None
        self.started = self.lost = False
        self.process.start()
        other_end.close()  # so that the death of the process ends the connection
        with suppress(*_GONE):
            self.connection.send_bytes(packed_function)

    def take(self, place: int, task: Any) -> bool:
        """Give the worker a task; False if it is dead."""
        try:
            self.connection.send_bytes(pickle.dumps(task))
        except _GONE:
            self.end()
            return False
        self.task = place, task
        return True

    def told(self, packed: bytes, pending: PendingTasks) -> TaskOutcome | None:
        """The outcome of its task, if that is what the worker told."""
        if not self.started:
            self.started = True
            pending.started()
            return None
        place, self.task = (self.task or (0, None))[0], None
        return outcome_from(place, packed)

    def end(self) -> str:
        """Wait for the process; how it ended."""
        self.lost = True
        self.connection.close()
        self.process.join(_PATIENCE)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        code = self.process.exitcode or 0
        return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"


def _completed(busy: Sequence[_Worker], pending: PendingTasks) -> Iterator[TaskOutcome]:
    """Wait for a worker; the outcomes of all that have ended their tasks, or died."""
    by_connection = {worker.connection: worker for worker in busy}
    for ready in wait(list(by_connection)):
        worker = by_connection[ready]  # type: ignore[index] # only connections are waited for
        place, task = worker.task or (0, None)
        try:
            packed = worker.connection.recv_bytes()
        except _GONE:
            outcome = pending.lost(place, task, worker.end(), started=worker.started)
        else:
            outcome = worker.told(packed, pending)
        if outcome is not None:
            yield outcome


def _stop(workers: Sequence[_Worker]) -> None:
    """End all workers: idle ones by themselves, those with a task at once."""
    for worker in workers:
        worker.connection.close()
        if worker.task is not None:
            worker.process.kill()
    for worker in workers:
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()


def _serve(connection: Connection, environment: dict[str, str]) -> None:
    """The life of a worker: a function, then tasks until the connection ends, which it does if the driver dies."""
    os.environ.update(environment)  # read by PyTorch and others when they are imported, which the function does
    torch = sys.modules.get("torch")  # unless the main module of the driver did
    if torch is not None:
        torch.set_num_threads(int(environment[_THREADS[0]]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
    with suppress(*_GONE):
        connection.send_bytes(_STARTED)
        function = load_function(connection.recv_bytes())
        while True:
            connection.send_bytes(packed_answer(function, connection.recv_bytes()))
