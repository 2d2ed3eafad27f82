"""Functions that workers run; they are imported there, so they are not in the modules of tests."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from plueckernet.parallel import TaskOutcome
from plueckernet.parallel.executor import outcome_from, packed_answer


def square(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number * number


def environment(name: str) -> str | None:
    return os.environ.get(name)


def killed_once(marker: str) -> int:
    """Kill the worker the first time; every call adds a byte to the file."""
    path = Path(marker)
    with path.open("ab") as handle:
        handle.write(b"x")
    if path.stat().st_size == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return path.stat().st_size


def always_killed(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def process(_: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def unpicklable(_: int) -> object:
    return lambda: None


class PicklingExecutor:
    """Runs tasks here, last task first, and lets functions, tasks and values through pickle as other executors do."""

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[TaskOutcome]:
        packed = pickle.dumps(function)
        for place, task in reversed(list(enumerate(tasks))):
            yield outcome_from(place, packed_answer(pickle.loads(packed), pickle.dumps(task)))


class Unloadable:
    """A function that cannot be loaded in another process."""

    def __call__(self, _: int) -> None:
        """Never called."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unloadable, ()


def _unloadable() -> None:
    raise ImportError("no such package here")


def no_worker(*_: object) -> None:
    """In place of a worker: ends before it has started."""
    os._exit(3)
