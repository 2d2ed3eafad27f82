"""How long `plueckernet register` takes in a new process: ``python -m benchmarks.cold_start``.

Writes ``results/cold_start.json``. The two maps of the demo are registered, and beside it a process does nothing but
import PyTorch, another nothing but import ``plueckernet.registration``. All take turns, each in a new process, with
bytecode as after an installation: the first round writes it and is not timed. Seconds depend on the machine and on what
else it does, their ratios much less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import progress, save
from plueckernet.evaluation.documents import TableRow

DEMO = Path(__file__).parents[1] / "src" / "plueckernet" / "demo"
COMMANDS = {
    "import torch": [sys.executable, "-c", "import torch; print()"],
    "import plueckernet.registration": [sys.executable, "-c", "import plueckernet.registration; print()"],
    "plueckernet register": [
        sys.executable, "-m", "plueckernet.cli", "register", f"{DEMO}/house_monday.obj", f"{DEMO}/house_friday.txt",
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """Seconds of one process."""

    printed: float  # until its last line of output
    wall: float  # until its end
    cpu: float


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    values = measured(parser.parse_args().rounds)
    register, torch = (values["median"][name]["wall"] for name in ("plueckernet register", "import torch"))
    row = TableRow(
        "`plueckernet register` on the maps of the demo, a new process: wall time, and that over `import torch`",
        f"{register:.2f} s on {values['cores']} cores, {register / torch:.2f} times",
        "well under 2 s",
    )
    print(row.measured)
    save("cold_start", {**values, "register_over_torch": register / torch, "table": [row]}, weights=["invariant"])


def measured(rounds: int) -> dict[str, Any]:
    """Median and least seconds of each command over some rounds in which they take turns."""
    runs: dict[str, list[Run]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as bytecode:
        environment = _environment(bytecode)
        for number in progress(range(rounds + 1), "rounds"):
            for name, command in COMMANDS.items():
                run = timed(command, environment)
                runs[name] += [run] if number else []
    return {
        "rounds": rounds,
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[1], 1),  # more than one core is others' work
        "median": {name: _each(statistics.median, some) for name, some in runs.items()},
        "least": {name: _each(min, some) for name, some in runs.items()},
    }


def timed(command: list[str], environment: dict[str, str]) -> Run:
    """Run a command to its end; one that fails is an error."""
    before, start = _cpu_seconds(), time.perf_counter()
    printed = start
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        for _ in process.stdout or ():
            printed = time.perf_counter()
        status = process.wait()
    end = time.perf_counter()
    if status != 0:
        raise subprocess.CalledProcessError(status, command)
    return Run(printed - start, end - start, _cpu_seconds() - before)


def _environment(bytecode: str) -> dict[str, str]:
    """That of a user: Python writes bytecode and buffers what is printed."""
    unset = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
    return {name: value for name, value in os.environ.items() if name not in unset} | {"PYTHONPYCACHEPREFIX": bytecode}


def _cpu_seconds() -> float:
    spent = os.times()
    return spent.children_user + spent.children_system


def _each(summary: Any, runs: list[Run]) -> dict[str, float]:
    columns = [asdict(run) for run in runs]
    return {name: round(summary(column[name] for column in columns), 3) for name in columns[0]}


if __name__ == "__main__":
    main()
