"""Reads mutated files of one target in this process, until it has read all or dies: see `tests.fuzz.__main__`."""

from __future__ import annotations

import json
import mmap
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

from tests.fuzz.mutation import mutated
from tests.fuzz.targets import Target, targets

from plueckernet.errors import PlueckernetError

SECONDS = 5.0
MEMORY = 2 << 30  # bytes of data, half of which is the interpreter with PyTorch
SLOW = 1.0  # seconds between two reports


class HangError(BaseException):
    """An input that takes too long."""


def mutated_input(target: Target, seed: int, index: int) -> bytes:
    """The input of that number; the same in every process."""
    return mutated(target.seeds, random.Random(f"{seed}/{index}"))


def outcome(target: Target, path: Path) -> tuple[str, str]:
    """`accepted`, `refused`, or what is wrong, and where."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        target.read(path)
    except PlueckernetError:
        return "refused", ""
    except HangError:
        return "hang", traceback.format_exc(limit=-3)
    except BaseException as error:  # noqa: BLE001 - every other exception is a failure
        return f"foreign {type(error).__name__}", traceback.format_exc(limit=-3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "accepted", ""


def raise_hang(*_: object) -> None:
    raise HangError


def main(name: str, seed: int, start: int, stop: int, place: str) -> None:
    """Print counts and failures as JSON lines; the number of the current input is kept in the file ``place``."""
    warnings.simplefilter("ignore")
    target = targets()[name]
    signal.signal(signal.SIGALRM, raise_hang)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    counts: dict[str, int] = {}
    told = time.monotonic()
    fast = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112
    with tempfile.TemporaryDirectory(dir=fast) as folder, open(place, "r+b") as handle:  # noqa: PTH123
        current = mmap.mmap(handle.fileno(), 8)
        path = Path(folder) / target.file
        for index in range(start, stop):
            current[:] = index.to_bytes(8, "little")
            path.write_bytes(mutated_input(target, seed, index))
            what, where = outcome(target, path)
            counts[what] = counts.get(what, 0) + 1
            if what not in ("accepted", "refused"):
                print(json.dumps({"index": index, "what": what, "where": where}), flush=True)
            if time.monotonic() > told + SLOW:
                print(json.dumps({"counts": counts}), flush=True)
                counts, told = {}, time.monotonic()
        print(json.dumps({"counts": counts, "end": True}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
