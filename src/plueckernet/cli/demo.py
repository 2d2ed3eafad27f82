"""`plueckernet demo`: registers two line maps of one house, scanned twice."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plueckernet.cli.starting import quick_imports

if TYPE_CHECKING:
    from rich.console import Console

    from plueckernet.cli.summary import Row
    from plueckernet.geometry import LineSet, Pose
    from plueckernet.io import ReadReport
    from plueckernet.result import RegistrationResult

MONDAY, FRIDAY, TRUTH = "house_monday.obj", "house_friday.txt", "truth.json"


def demo(
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the maps, the result, a report and a picture to it.")
    ] = None,
) -> None:
    """Register two line maps of one house that come with the package, and compare the pose with the true one."""
    with quick_imports():
        from rich.console import Console

        from plueckernet.cli.summary import reading_rows, result_rows, rows_table
        from plueckernet.cli.workers import fitting_threads
        from plueckernet.io.files import make_folder
        from plueckernet.registration import register

    if out is not None:
        make_folder(out)
    console = Console()
    console.print("[bold]One house, scanned on Monday and on Friday, each scan in its own frame[/]\n")
    reports, truth = _maps()
    source, target = reports[0].lines, reports[1].lines
    with fitting_threads(source, target):
        result = register(source, target)
    console.print(rows_table([*reading_rows(reports), *result_rows(result), *_error_rows(result, truth)]), "")
    _draw(console, source, target, result.rigid_pose)
    for note in _write(out, result, reports) if out is not None else []:
        console.print(note, markup=False, soft_wrap=True)
    console.print(_next_steps(out), soft_wrap=True)
    if not result.ok:
        raise typer.Exit(1)


def _maps() -> tuple[tuple[ReadReport, ReadReport], Pose]:
    """Both maps as read, and the true pose."""
    import torch

    from plueckernet.geometry import Pose
    from plueckernet.io import read_lines_report

    with as_file(files("plueckernet") / "demo") as folder:
        reports = read_lines_report(folder / MONDAY), read_lines_report(folder / FRIDAY)
        truth = json.loads((folder / TRUTH).read_text(encoding="utf-8"))
    return reports, Pose.from_matrix(torch.tensor(truth["target_T_source"], dtype=torch.float64))


def _error_rows(result: RegistrationResult, truth: Pose) -> Iterator[Row]:
    """The error of the pose at the centre of the inliers."""
    if result.rigid_pose is None or result.covariance is None or result.centre is None:
        return
    angle = math.degrees(float(result.rigid_pose.angle_to(truth)))
    source_centre = result.rigid_pose.inverse() @ result.centre[None]
    distance = float((truth @ source_centre - result.centre).norm())
    yield "covariance", "\n".join(" ".join(f"{x:9.1e}" for x in row) for row in result.covariance.tolist())
    yield "true error", f"[bold]{angle:.2g}° and {1000 * distance:.2g} mm[/] at the centre of the inliers"


def _draw(console: Console, source: LineSet, target: LineSet, pose: Pose | None) -> None:
    """Draw both maps from above, before and after registration."""
    from rich.table import Table

    from plueckernet.cli.braille import braille_text
    from plueckernet.report.picture import before_and_after

    panels = before_and_after(source, target, pose, elevation=90.0, turn=0.0)
    columns = min((console.width - 3) // len(panels), 48)
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_row(*(f"[dim]{panel.title}, from above: [blue]target[/], [dark_orange]source[/][/]" for panel in panels))
    grid.add_row(*(braille_text(panel, panel.bounds(), columns) for panel in panels))
    console.print(grid)


def _write(folder: Path, result: RegistrationResult, reports: tuple[ReadReport, ReadReport]) -> Iterator[str]:
    """Write all files; yields messages about them."""
    from plueckernet.cli.report import save_report
    from plueckernet.errors import MissingDependencyError
    from plueckernet.io import write_lines
    from plueckernet.report import save_plot

    source, target = reports[0].lines, reports[1].lines
    write_lines(folder / MONDAY, source)
    write_lines(folder / FRIDAY, target)
    result.save(folder / "result.json")
    if result.rigid_pose is not None:
        write_lines(folder / "aligned.obj", result.rigid_pose @ source)
    save_report(folder / "report.html", result, reports, "plueckernet demo --out demo")
    try:
        save_plot(folder / "picture.png", source, target, result.rigid_pose)
    except MissingDependencyError as error:
        yield f"no picture: {error}"
    yield f"written to {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}"
    yield f"to see the report, open {folder / 'report.html'} in a browser\n"


def _next_steps(out: Path | None) -> str:
    program = Path(sys.argv[0])
    on_path = shutil.which("plueckernet") or not program.name.startswith("plueckernet")
    command = "plueckernet" if on_path else str(program)  # `make demo` runs it from .venv
    folder = Path("demo") if out is None else out
    files_first = f"""
  [dim]# write these maps, the result, a report and a picture to files[/]
  {command} demo --out {folder}"""
    return f"""[bold]Next[/]{files_first if out is None else ""}
  [dim]# register your own files[/]
  {command} register {folder / MONDAY} {folder / FRIDAY} --json result.json --aligned aligned.obj --report report.html
  {command} register --help"""
