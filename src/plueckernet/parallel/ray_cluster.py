"""Workers on a Ray cluster."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from plueckernet.errors import InputError, MissingDependencyError
from plueckernet.parallel.executor import PendingTasks, TaskOutcome, load_function, outcome_from, packed_answer

LOCAL = "local"  # the address that starts a cluster on this machine


@dataclass(frozen=True)
class RayExecutor:
    """Runs tasks in actors of a Ray cluster, each of which loads the function once.

    The package has to be installed on all nodes, and files that tasks name have to be the same on all of them. Ray ends
    the actors of a driver that is killed.
    """

    address: str = LOCAL  # of the cluster, as `ray.init` takes it; "local" starts one on this machine
    workers: int | None = None  # by default, as many as the cluster has CPUs, or GPUs if workers need them
    threads: int = 1  # CPUs of each worker
    gpus: float = 0.0  # GPUs of each worker; may be a fraction

    def __post_init__(self) -> None:
        if (self.workers is not None and self.workers < 1) or self.threads < 1 or self.gpus < 0:
            raise InputError(f"expected at least one worker and one thread, got {self}")

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Generator[TaskOutcome, None, None]:
        """See :class:`~plueckernet.parallel.Executor`."""
        ray = load_ray()
        with self._cluster(ray):
            workers = self.workers or self._capacity(ray.cluster_resources())
            actor = ray.remote(num_cpus=self.threads, num_gpus=self.gpus, max_restarts=0)(RayWorker)
            packed = ray.put(pickle.dumps(function))
            yield from _outcomes(ray, lambda: actor.remote(packed), workers, PendingTasks(tasks))

    @contextmanager
    def _cluster(self, ray: Any) -> Iterator[None]:
        """Connect to the cluster, unless the process is connected to one already."""
        if ray.is_initialized():
            yield
            return
        size = {"num_cpus": (self.workers or 1) * self.threads} if self.address == LOCAL and self.workers else {}
        try:
            ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", **_quiet(self.address), **size)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"no Ray cluster at {self.address!r}: {str(error).splitlines()[0]}") from error
        try:
            yield
        finally:
            ray.shutdown()

    def _capacity(self, resources: dict[str, float]) -> int:
        cpus = resources.get("CPU", 0.0) / self.threads
        return max(1, int(min(cpus, resources.get("GPU", 0.0) / self.gpus) if self.gpus else cpus))


def load_ray() -> Any:
    """The package Ray; raises if it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingDependencyError("ray", "cluster") from error


class RayWorker:
    """Becomes an actor: loads a function once and runs it on one task after the other."""

    def __init__(self, packed_function: bytes) -> None:
        self._function = load_function(packed_function)

    def started(self) -> bool:
        """Answered once the worker has started."""
        return True

    def answer(self, packed_task: bytes) -> bytes:
        """The value and the error of a task, pickled."""
        return packed_answer(self._function, packed_task)


def _quiet(address: str) -> dict[str, Any]:
    return {"include_dashboard": False} if address == LOCAL else {}


def _outcomes(ray: Any, new_actor: Callable[[], Any], workers: int, pending: PendingTasks) -> Iterator[TaskOutcome]:
    """Keep every actor busy with one task; an actor that dies is replaced."""
    idle: list[_Actor] = []
    busy: dict[Any, tuple[_Actor, int, Any]] = {}  # reference of the answer -> actor, place, task
    while True:
        while len(busy) < workers and (drawn := pending.draw()) is not None:
            actor = idle.pop() if idle else _Actor(new_actor())
            busy[actor.handle.answer.remote(pickle.dumps(drawn[1]))] = (actor, *drawn)
        if not busy:
            return
        for reference in ray.wait(list(busy), num_returns=1)[0]:
            actor, place, task = busy.pop(reference)
            try:
                outcome: TaskOutcome | None = outcome_from(place, ray.get(reference))
                pending.started()
                idle.append(actor)
            except ray.exceptions.RayError as error:
                how = f"ended with {type(error).__name__}"
                outcome = pending.lost(place, task, how, started=actor.has_started(ray))
            if outcome is not None:
                yield outcome


class _Actor:
    """An actor and the reference that says whether it has started."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self._reference = handle.started.remote()

    def has_started(self, ray: Any) -> bool:
        """Whether it had started before it died."""
        try:
            return bool(ray.get(self._reference))
        except ray.exceptions.RayError:
            return False
