"""The tasks of the how-tos as a new user does them: ``python -m benchmarks.how_tos``.

A wheel is built and installed, with nothing else, in a new environment. Each command stands on the page that is named
with it, and is run as it stands in an empty folder that has only the files of the user. First come the tasks that need
no extra. Seconds depend on the machine and on what else it does; CPU time does less so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import save
from benchmarks.new_user import PROJECT, cpu_seconds, user_environment
from benchmarks.user_files import put_files

MAX_MEGABYTES = 15  # of the wheel
_SERVED = 60.0  # s, within which the viewer has to print its address


@dataclass(frozen=True)
class Task:
    """A command of a page."""

    page: str  # from the root of the project
    command: str
    extra: str = ""  # that the page says to install


TASKS = (
    Task("README.md", "plueckernet demo --out demo"),
    Task("README.md", "plueckernet convert house_monday.obj house.ply"),
    Task("docs/viewer.md", "plueckernet view house_monday.obj house_friday.txt"),
    Task("docs/howto/scale-and-gravity.md", "plueckernet register monday.obj friday.obj --scale-range 0.9 1.1"),
    Task("docs/howto/part-in-a-map.md",
         "plueckernet locate entrance.obj street.npz --index street.index --report report.html"),
    Task("docs/howto/many-maps.md", "plueckernet align scans/*.obj --out aligned"),
    Task("docs/howto/georeference.md", "plueckernet align house.obj --control points.csv --out tied"),
    Task("docs/howto/surveys.md", "plueckernet extract march.laz --out march.obj", "extract"),
    Task("docs/howto/surveys.md", "plueckernet extract june.e57 --out june.obj", "extract"),
    Task("docs/howto/surveys.md", "plueckernet info march.obj june.obj"),
    Task("docs/howto/surveys.md",
         "plueckernet register june.obj march.obj --report report.html --json result.json --aligned june_in_march.obj"),
    Task("docs/howto/surveys.md", "plueckernet refine june.obj march.obj --pose by_hand.txt --json refined.json"),
    Task("docs/howto/apply.md", "plueckernet apply result.json scan.laz mesh.ply poses.txt --out moved", "extract"),
    Task("docs/howto/models.md", 'plueckernet info house.ifc --storey "Ground floor"', "bim"),
    Task("docs/howto/models.md",
         "plueckernet register scan.laz house.ifc --json result.json --report report.html", "bim"),
    Task("docs/howto/models.md", "plueckernet register scan.laz city.gml --lod 2 --json result.json", "extract"),
    Task("docs/howto/models.md", "plueckernet register house.ifc city.gml --json result.json", "bim"),
    Task("docs/howto/colmap.md",
         "plueckernet align-colmap street/sparse/0 drone/sparse/0 --out joined --report report.html", "colmap"),
    Task("docs/batch.md", "plueckernet batch pairs.csv --out results", "batch"),
)  # fmt: skip


def main() -> None:
    """Write ``results/how_tos.json``; a command that fails is an error."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        wheel = build_wheel(root / "dist")
        megabytes = wheel.stat().st_size / 1e6
        environment = new_environment(root / "venv")
        folder = root / "work"
        folder.mkdir()
        put_files(folder)
        steps = [install(wheel, "", folder, environment)]
        installed = {""}
        for task in TASKS:
            if task.extra not in installed:
                steps.append(install(wheel, task.extra, folder, environment))
                installed.add(task.extra)
            steps.append(asdict(task) | measured(task.command, folder, environment))
    tasks = [step for step in steps if "page" in step]
    installation = [step for step in steps if "page" not in step]
    sizes = {"load_average": round(os.getloadavg()[2], 1), "megabytes": round(megabytes, 1)}
    save("how_tos", {**sizes, "installation": installation, "tasks": tasks, "table": rows(megabytes, tasks)})


def rows(megabytes: float, tasks: list[dict[str, Any]]) -> list[dict[str, str]]:
    """For the table of numbers."""
    longest = max(task["cpu_seconds"] for task in tasks)
    what = "commands of the how-tos that work with the wheel alone, in an empty folder"
    measured_text = f"{len(tasks)} of {len(TASKS)}, {longest:.0f} s of a CPU at most"
    return [
        {"what": "wheel", "goal": f"< {MAX_MEGABYTES} MB", "measured": f"{megabytes:.1f} MB"},
        {"what": what, "goal": "10", "measured": measured_text},
    ]


def build_wheel(folder: Path) -> Path:
    """That of the working tree."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", folder, PROJECT], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def new_environment(folder: Path) -> dict[str, str]:
    """The variables of a shell in a new virtual environment; pip installs the pinned versions."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    variables = user_environment()
    path = os.pathsep.join((str(folder / "bin"), variables["PATH"]))
    return variables | {"PATH": path, "PIP_CONSTRAINT": str(PROJECT / "constraints.txt")}


def install(wheel: Path, extra: str, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Install the wheel, or an extra; the command is the one that a user types for a published package."""
    suffix = f"[{extra}]" if extra else ""
    times = measured(f"pip install --quiet '{wheel}{suffix}'", folder, environment)
    return times | {"command": f"pip install 'plueckernet{suffix}'"}


def measured(command: str, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Run a command, with its time; the viewer is stopped as soon as it has served its page."""
    print(f"$ {command}", flush=True)
    start, worked = time.perf_counter(), cpu_seconds()
    if command.startswith("plueckernet view"):
        serve(command, folder, environment)
    else:
        subprocess.run(command, shell=True, cwd=folder, env=environment, check=True)
    seconds, cpu = time.perf_counter() - start, cpu_seconds() - worked
    return {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1)}


def serve(command: str, folder: Path, environment: dict[str, str]) -> None:
    """Start the viewer, open the address that it prints, and stop it."""
    variables = environment | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command.split(), cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as viewer:
        try:
            address = printed_address(viewer)
            with urllib.request.urlopen(address, timeout=_SERVED) as page:
                if b"<html" not in page.read():
                    raise RuntimeError(f"{command}: {address} is not a page")
        finally:
            viewer.terminate()


def printed_address(viewer: subprocess.Popen[str]) -> str:
    """The first address in the output of a program."""
    for line in viewer.stdout or ():
        if match := re.search(r"http://\S+", line):
            return match[0]
    raise RuntimeError("the viewer has printed no address")


if __name__ == "__main__":
    main()
