"""`kill -9` of workers and of the driver: every pair is there once, and is computed once."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.batch.helpers import FakeRegistration, make_pairs, notes

from plueckernet.batch import BatchOptions, BatchPair, read_batch, run_batch
from plueckernet.errors import InputError, WorkerLostError
from plueckernet.parallel import Executor, InlineExecutor, ProcessExecutor, RayExecutor, TaskOutcome

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
PAIRS = 8


def reasons(out: Path) -> list[str]:
    rows = sorted(read_batch(out), key=lambda row: row.number)
    assert [row.number for row in rows] == list(range(PAIRS))
    assert not [path for path in out.rglob("*") if path.suffix in (".part", ".json") and path.name != "batch.json"]
    return [row.reason for row in rows]


def driver(pairs: list[BatchPair], out: Path, register: FakeRegistration, executor: Executor) -> int:
    """A driver in a process of its own."""
    child = os.fork()
    if child == 0:
        try:
            run_batch(pairs, out, register, executor)
        except BaseException:  # noqa: BLE001 - a fork must not go on as the test
            traceback.print_exc()
        finally:
            os._exit(0)
    return child


def killed_in_the_middle(child: int, computed: Path, pause: float = 0.0) -> int:
    """Kill a driver when some pairs are computed, or after a pause, when they are written, too; how many were."""
    end = time.monotonic() + 400
    while not (computed.exists() and len(notes(computed)) >= 2):
        assert time.monotonic() < end
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the driver has ended"
        time.sleep(0.01)
    time.sleep(pause)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return len(notes(computed))


def test_a_driver_that_is_killed_continues_and_nothing_is_computed_twice(tmp_path: Path) -> None:
    pairs, out = make_pairs(tmp_path / "maps", PAIRS), tmp_path / "out"
    register = FakeRegistration(tmp_path / "computed", seconds=0.1)
    child = driver(pairs, out, register, ProcessExecutor(1))
    complete = killed_in_the_middle(child, register.computed)
    assert 2 <= complete < PAIRS
    waited: list[int] = []
    options = BatchOptions(on_wait=lambda: waited.append(1))
    summary = run_batch(pairs, out, register, InlineExecutor(), options)  # while the worker computes its last pair
    assert reasons(out) == [f"fake {number}" for number in range(PAIRS)]
    assert notes(register.computed) == [f"pair {number}" for number in range(PAIRS)]
    assert summary.computed < PAIRS


def test_a_worker_that_is_killed_loses_only_its_pair(tmp_path: Path) -> None:
    """Of the two pairs that it had, one was complete and is not computed again."""
    pairs, out = make_pairs(tmp_path / "maps", PAIRS), tmp_path / "out"
    register = FakeRegistration(tmp_path / "computed", killing=(1,))
    summary = run_batch(pairs, out, register, ProcessExecutor(1), BatchOptions(batch_size=2))
    assert reasons(out) == [f"fake {number}" for number in range(PAIRS)]
    assert notes(register.computed) == [f"pair {number}" for number in range(PAIRS)]
    assert summary.computed == PAIRS


class LosingExecutor:
    """Loses the worker of every task that has a certain pair."""

    def run(self, function: Any, tasks: Iterable[Any]) -> Iterator[TaskOutcome]:
        for place, task in enumerate(tasks):
            if 5 in dict(task):
                yield TaskOutcome(place, error=WorkerLostError("was killed by signal 9", 3))
            else:
                yield TaskOutcome(place, function(task))


@pytest.mark.parametrize("size", [1, 3])
def test_a_pair_that_kills_all_workers_is_an_error_and_its_neighbours_are_not(tmp_path: Path, size: int) -> None:
    pairs, out = make_pairs(tmp_path / "maps", PAIRS), tmp_path / "out"
    register = FakeRegistration(tmp_path / "computed")
    summary = run_batch(pairs, out, register, LosingExecutor(), BatchOptions(size))
    assert summary.statuses == {"failed": PAIRS - 1, "error": 1}
    assert "signal 9, 3 times" in reasons(out)[5]


def test_two_drivers_do_not_share_a_folder(tmp_path: Path) -> None:
    pairs, out = make_pairs(tmp_path / "maps", 2), tmp_path / "out"
    register = FakeRegistration(tmp_path / "computed")

    def second(*_: int) -> None:
        with pytest.raises(InputError, match="another run is writing"):
            run_batch(pairs, out, register, InlineExecutor())

    run_batch(pairs, out, register, InlineExecutor(), BatchOptions(on_progress=second))


@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_on_ray_a_worker_and_the_driver_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # those who know the token may use this cluster
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # otherwise its workers wait for all else that the machine does
    pairs, out = make_pairs(tmp_path / "maps", PAIRS), tmp_path / "out"
    register = FakeRegistration(tmp_path / "computed", seconds=0.8, killing=(0, 6))
    command = [sys.executable, "-m", "tests.batch.ray_cluster"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        address = cluster.stdout.readline().strip()
        assert address, "Ray did not start"
        executor = RayExecutor(address, workers=1)
        first = driver(pairs, out, register, executor)
        killed_in_the_middle(first, register.computed, pause=0.4)  # Ray ends its workers, too
        os.waitpid(driver(pairs, out, register, executor), 0)
        cluster.stdin.close()
    assert reasons(out) == [f"fake {number}" for number in range(PAIRS)]
    assert notes(register.computed) == [f"pair {number}" for number in range(PAIRS)]
    assert {"killed 0", "killed 6"} <= set(register.computed.read_text().splitlines())
