"""What all executors share: tasks go in, outcomes come out as they are complete, in any order.

The package is imported by every worker before the function that it runs, so it imports nothing large.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from plueckernet.errors import PlueckernetError, WorkerLostError

MAX_ATTEMPTS = 3  # a task whose worker died that often is given up: it probably kills its workers


@dataclass(frozen=True, eq=False)
class TaskOutcome:
    """What became of a task: a value or an error."""

    place: int  # of the task among all tasks, counted from 0
    value: Any = None
    error: Exception | None = None

    def result(self) -> Any:
        """The value; raises the error."""
        if self.error is not None:
            raise self.error
        return self.value


@runtime_checkable
class Executor(Protocol):
    """Runs a function on many tasks."""

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Generator[TaskOutcome, None, None]:
        """The outcome of each task, in the order in which they are complete.

        An error of the function is an outcome and ends nothing. A task whose worker dies runs again, at most
        :data:`MAX_ATTEMPTS` times; then its outcome is a :class:`WorkerLostError`. Workers that cannot even start raise
        one. The function, the tasks and the
        values have to be picklable. Tasks are drawn when a worker is free. To stop early, close the generator; without
        that, a program that ends by an error waits for its workers.
        """
        ...


@dataclass(frozen=True)
class InlineExecutor:
    """Runs tasks in this process, one after the other."""

    def run(self, function: Callable[[Any], Any], tasks: Iterable[Any]) -> Generator[TaskOutcome, None, None]:
        """See :class:`Executor`."""
        for place, task in enumerate(tasks):
            yield outcome_of(function, place, task)


def outcome_of(function: Callable[[Any], Any], place: int, task: Any) -> TaskOutcome:
    """Run a function on a task."""
    try:
        return TaskOutcome(place, function(task))
    except Exception as error:  # noqa: BLE001 - whatever a task raises is its outcome
        return TaskOutcome(place, error=error)


def in_order(outcomes: Generator[TaskOutcome, None, None]) -> Generator[TaskOutcome, None, None]:
    """The same outcomes in the order of their tasks; early ones wait. Closing it closes ``outcomes``."""
    waiting: dict[int, TaskOutcome] = {}
    place = 0
    with closing(outcomes):
        for outcome in outcomes:
            waiting[outcome.place] = outcome
            while place in waiting:
                yield waiting.pop(place)
                place += 1


class PendingTasks:
    """Tasks that no worker has; those of lost workers come first, and again."""

    def __init__(self, tasks: Iterable[Any]) -> None:
        self._tasks = enumerate(tasks)
        self._again: deque[tuple[int, Any]] = deque()
        self._attempts: dict[int, int] = {}
        self._failed_starts: dict[int, int] = {}  # under 0 those since a worker started

    def draw(self) -> tuple[int, Any] | None:
        """The next task with its place; None if there is none at present."""
        return self._again.popleft() if self._again else next(self._tasks, None)

    def lost(self, place: int, task: Any, how: str, *, started: bool) -> TaskOutcome | None:
        """Note that the worker of a task died; the outcome if it was the last attempt.

        Of a worker that had not ``started`` the task is not to blame; several of them in a row raise.
        """
        counts, key = (self._attempts, place) if started else (self._failed_starts, 0)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] < MAX_ATTEMPTS:
            self._again.append((place, task))
            return None
        if not started:
            raise WorkerLostError(f"{how} before it had started", MAX_ATTEMPTS)
        return TaskOutcome(place, error=WorkerLostError(how, MAX_ATTEMPTS))

    def started(self) -> None:
        """Note that a worker has started."""
        self._failed_starts.clear()


def packed_answer(function: Callable[[Any], Any], packed_task: bytes) -> bytes:
    """In a worker: the value and the error of a task, pickled; what cannot be pickled becomes an error that can."""
    outcome = outcome_of(function, 0, pickle.loads(packed_task))
    try:
        packed = pickle.dumps((outcome.value, outcome.error))
        pickle.loads(packed)  # errors of other packages may be picklable and still not come back
    except Exception as error:  # noqa: BLE001 - anything may be raised by a foreign `__reduce__`
        cause = outcome.error or error
        packed = pickle.dumps((None, PlueckernetError(f"{type(cause).__name__}: {cause}")))
    return packed


def load_function(packed: bytes) -> Callable[[Any], Any]:
    """The function; one that cannot be loaded raises for each task what it raised when it was loaded."""
    try:
        return pickle.loads(packed)
    except Exception as error:  # noqa: BLE001 - the driver is told
        reason = error

    def raising(_: Any) -> Any:
        raise reason

    return raising


def outcome_from(place: int, packed: bytes) -> TaskOutcome:
    """In the driver: the outcome of a task from the answer of its worker."""
    value, error = pickle.loads(packed)
    return TaskOutcome(place, value, error)
