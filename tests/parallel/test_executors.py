"""Every task has its outcome once, whatever dies."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.parallel import helpers

from plueckernet.errors import InputError, MissingDependencyError, WorkerLostError
from plueckernet.parallel import (
    Executor,
    InlineExecutor,
    ProcessExecutor,
    RayExecutor,
    TaskOutcome,
    in_order,
    processes,
)
from plueckernet.parallel.executor import MAX_ATTEMPTS


@pytest.mark.parametrize("executor", [InlineExecutor(), ProcessExecutor(2)], ids=["inline", "processes"])
def test_every_task_has_an_outcome_and_an_error_ends_nothing(executor: Executor) -> None:
    assert isinstance(executor, Executor)
    outcomes = list(in_order(executor.run(helpers.square, iter(range(6)))))
    assert [outcome.place for outcome in outcomes] == list(range(6))
    assert [outcome.value for outcome in outcomes] == [0, 1, 4, None, 16, 25]
    with pytest.raises(ValueError, match="three"):
        outcomes[3].result()


def test_order_is_restored() -> None:
    outcomes = (TaskOutcome(place) for place in (2, 0, 1, 4, 3))
    assert [outcome.place for outcome in in_order(outcomes)] == [0, 1, 2, 3, 4]


def test_a_task_runs_again_when_its_worker_is_killed(tmp_path: Path) -> None:
    markers = [str(tmp_path / name) for name in "abc"]
    outcomes = list(ProcessExecutor(2).run(helpers.killed_once, markers))
    assert sorted(outcome.place for outcome in outcomes) == [0, 1, 2]
    assert [outcome.result() for outcome in outcomes] == [2, 2, 2]


def test_a_task_that_kills_its_workers_is_given_up() -> None:
    (outcome,) = ProcessExecutor(1).run(helpers.always_killed, [0])
    with pytest.raises(WorkerLostError, match=f"signal 9, {MAX_ATTEMPTS} times"):
        outcome.result()
    assert str(pickle.loads(pickle.dumps(outcome.error))) == str(outcome.error)


def test_a_function_that_cannot_be_loaded_says_why() -> None:
    (outcome,) = ProcessExecutor(1).run(helpers.Unloadable(), [0])
    with pytest.raises(ImportError, match="no such package here"):
        outcome.result()


def test_workers_that_cannot_start_raise_instead_of_blaming_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_serve", helpers.no_worker)
    with pytest.raises(WorkerLostError, match=f"ended with code 3 before it had started, {MAX_ATTEMPTS} times"):
        next(ProcessExecutor(1).run(helpers.square, [0]))


def test_tasks_are_drawn_when_a_worker_is_free_and_closing_ends_the_workers() -> None:
    drawn = []

    def endless() -> Iterator[int]:
        while True:
            drawn.append(0)
            yield 0

    outcomes = ProcessExecutor(1).run(helpers.process, endless())
    workers = {next(outcomes).result() for _ in range(3)}
    outcomes.close()
    assert len(drawn) <= 4
    assert len(workers) == 1
    assert all(not _lives(worker) for worker in workers)


def test_what_cannot_be_pickled_is_an_error() -> None:
    (outcome,) = ProcessExecutor(1).run(helpers.unpicklable, [0])
    assert "pickle" in str(outcome.error)


def test_threads_and_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    names = ["OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"]
    outcomes = in_order(ProcessExecutor(1, threads=3, gpus=2).run(helpers.environment, names))
    assert [outcome.result() for outcome in outcomes] == ["3", "2"]


@pytest.mark.parametrize("kind", [ProcessExecutor, RayExecutor])
def test_no_workers_are_refused(kind: type) -> None:
    with pytest.raises(InputError, match="at least one worker"):
        kind(workers=0)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"plueckernet\[cluster\]"):
        next(RayExecutor().run(helpers.square, [1]))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
