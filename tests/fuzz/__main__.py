"""Fuzz the readers: `python -m tests.fuzz [TARGET…] --inputs 1000 --seed 0`.

Each target runs in a process of its own. One that dies or hangs is started again after the input that ended it. Counts
go to build/fuzz/counts.json, inputs that failed to build/fuzz. The exit code is 1 if any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.targets import targets
from tests.fuzz.worker import SECONDS, mutated_input

OUT = Path("build/fuzz")
_PATIENCE = 4 * SECONDS  # for a worker that says nothing
_KEPT = 20  # failures of a target whose inputs are kept


class Run:
    """One target: its counts so far and its failures."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.seed = name, seed
        self.counts: dict[str, int] = {}
        self.failures: list[dict[str, object]] = []

    def inputs(self, start: int, stop: int) -> None:
        """Read the inputs of these numbers, through as many workers as that takes."""
        with tempfile.NamedTemporaryFile() as place:
            place.write(bytes(8))
            place.flush()
            while start < stop:
                command = [sys.executable, "-m", "tests.fuzz.worker", self.name, self.seed, start, stop, place.name]
                ended = self._follow([str(word) for word in command])
                if ended is None:
                    return
                start = int.from_bytes(Path(place.name).read_bytes(), "little") + 1
                self._fail({"index": start - 1, "what": ended, "where": ""})

    def _follow(self, command: list[str]) -> str | None:
        """Run a worker; returns what ended it before its last input."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
            assert worker.stdout is not None
            while select.select([worker.stdout], [], [], _PATIENCE + 60 * (not self.counts))[0]:
                line = worker.stdout.readline()
                if not line:
                    return f"died with {worker.wait()}"
                told = json.loads(line)
                for what, count in told.get("counts", {}).items():
                    self.counts[what] = self.counts.get(what, 0) + count
                if "index" in told:
                    self._fail(told)
                if "end" in told:
                    return None
            worker.kill()
            return "hung"

    def _fail(self, failure: dict[str, object]) -> None:
        self.failures.append(failure)
        if len(self.failures) <= _KEPT:
            data = mutated_input(targets()[self.name], self.seed, int(str(failure["index"])))
            (OUT / f"{self.name}-{self.seed}-{failure['index']}").write_bytes(data)
            print(f"{self.name} {failure['index']}: {failure['what']}\n{failure['where']}", flush=True)


def main() -> int:
    """Run the targets that were named, or all; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--inputs", type=int, default=1000, help="of each target")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no target is begun")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    known = list(targets())
    counts_file = OUT / "counts.json"
    written = json.loads(counts_file.read_text()) if counts_file.exists() else {}
    end = time.monotonic() + options.seconds
    failed = False
    for name in options.targets or known:
        if time.monotonic() > end:
            break
        run, begun = Run(name, options.seed), time.monotonic()
        run.inputs(0, options.inputs)
        seconds = round(time.monotonic() - begun)
        written[f"{name} seed {options.seed}"] = {**run.counts, "failures": len(run.failures), "seconds": seconds}
        counts_file.write_text(json.dumps(written, indent=1) + "\n")
        print(f"{name}: {run.counts}, {len(run.failures)} failures, {seconds} s", flush=True)
        failed = failed or bool(run.failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
