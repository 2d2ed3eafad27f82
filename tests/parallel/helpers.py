"""Functions that workers run; they are imported there, so they are not in the modules of tests."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


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
