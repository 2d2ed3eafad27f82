"""How long it takes from a clone to the first registered pair of one's own files: ``python -m benchmarks.new_user``.

The commands are those at the top of docs/start.md, run as they stand in an empty folder: the project is cloned as it
was last committed, set up, and used on two line maps that are not in it. Seconds depend on the machine, on what else it
does, and for the set-up on the network and on what pip has kept.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.harness import save
from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.io import write_lines

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs" / "start.md"
ADDRESS = "ADDRESS"  # of the project, where the page cannot know it


def main() -> None:
    """Write ``results/new_user.json``; a command that fails is an error, and not to be registered is a failure."""
    environment = user_environment()
    steps = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in commands():
            start, worked = time.perf_counter(), cpu_seconds()
            if command.startswith("cd "):
                folder = folder / command.removeprefix("cd ")
                put_own_maps(folder)
            else:
                here = command.replace(ADDRESS, str(PROJECT))
                subprocess.run(here, shell=True, cwd=folder, env=environment, check=True)
            seconds, cpu = time.perf_counter() - start, cpu_seconds() - worked
            steps.append({"command": command, "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1)})
    totals = {name: round(sum(step[name] for step in steps)) for name in ("seconds", "cpu_seconds")}
    save("new_user", {"load_average": round(os.getloadavg()[2], 1), **totals, "commands": steps})


def user_environment() -> dict[str, str]:
    """The variables of a shell that knows neither the project nor its virtual environment."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def cpu_seconds() -> float:
    """CPU time of the commands so far, which other work on the machine does not lengthen much."""
    spent = os.times()
    return spent.children_user + spent.children_system


def commands() -> list[str]:
    """Those of the first block of the page, without comments."""
    match = re.search(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"{PAGE}: there are no commands")
    return [line.split("  #")[0].strip() for line in match[1].splitlines()]


def put_own_maps(folder: Path) -> None:
    """Two surveys of a house, by the names that the page gives them."""
    pair = sample_pair(make_scene("indoor", 4711), ScanProtocol(overlap=0.6), 4711)
    write_lines(folder / "monday.obj", pair.source)
    write_lines(folder / "friday.txt", pair.target)


if __name__ == "__main__":
    main()
