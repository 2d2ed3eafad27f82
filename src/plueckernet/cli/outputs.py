"""The files that a command writes: checked before the work starts, written after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from plueckernet.geometry import LineSet
    from plueckernet.io import ReadReport
    from plueckernet.result import RegistrationResult

STANDARD_OUTPUT = "-"


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path], force: bool) -> None:
    """Raise :class:`InputError` if a file could not be written, or would replace an input without `--force`."""
    from plueckernet.errors import InputError

    taken = {path.resolve() for path in inputs}
    for path in outputs:
        if path is None or str(path) == STANDARD_OUTPUT:
            continue
        if path.resolve() in taken and not force:
            raise InputError(f"{path}: is an input; --force replaces it")
        if path.is_dir():
            raise InputError(f"{path}: cannot be written: is a directory")
        folder = path.resolve().parent
        if not folder.is_dir():
            raise InputError(f"{path}: cannot be written: no such folder {folder}")
        if not os.access(folder, os.W_OK) and not (path.exists() and os.access(path, os.W_OK)):
            raise InputError(f"{path}: cannot be written: permission denied")


@dataclass(frozen=True)
class RegistrationOutputs:
    """What `register` and `refine` write."""

    json_file: Path | None = None
    aligned: Path | None = None
    report: Path | None = None
    plot: Path | None = None

    def check(self, inputs: Iterable[Path], force: bool) -> None:
        """Raise before the work starts if something could not be written."""
        from plueckernet.io.writing import writable_format

        check_outputs((self.json_file, self.aligned, self.report, self.plot), inputs, force)
        if self.aligned is not None:
            writable_format(self.aligned)
        if self.plot is not None:
            _check_plot(self.plot)

    def show_and_write(self, result: RegistrationResult, reports: tuple[ReadReport, ReadReport], quiet: bool) -> None:
        """Print the result, write the files, and end with exit code 1 if the pose is not accepted."""
        self.present(result, reports, quiet)
        if not result:
            raise typer.Exit(1)

    def present(self, result: RegistrationResult, reports: tuple[ReadReport, ReadReport], quiet: bool) -> None:
        """Print the result and write the files."""
        if not quiet:
            _show(result, reports, to_stderr=str(self.json_file) == STANDARD_OUTPUT)
        lines = reports[0].lines, reports[1].lines
        notes = self._write(result, lines)
        if self.report is not None:
            from plueckernet.cli.report import save_report, typed_command

            save_report(self.report, result, reports, typed_command())
            notes.append(f"report written to {self.report}; open it in a browser")
        for note in notes if not quiet else []:
            typer.echo(note, err=True)

    def _write(self, result: RegistrationResult, lines: tuple[LineSet, LineSet]) -> list[str]:
        """Write the requested files but the report; returns messages about them."""
        from plueckernet.io import write_lines

        notes = []
        pose = result.target_T_source
        if str(self.json_file) == STANDARD_OUTPUT:
            typer.echo(json.dumps(result.to_dict(), indent=1, allow_nan=False))
        elif self.json_file is not None:
            result.save(self.json_file)
            notes.append(f"result written to {self.json_file}")
        if self.aligned is not None and pose is not None:
            write_lines(self.aligned, pose @ lines[0])
            notes.append(f"source in the target frame written to {self.aligned}")
        elif self.aligned is not None:
            notes.append(f"{self.aligned} not written: there is no pose")
        if self.plot is not None:
            from plueckernet.report import save_plot
            from plueckernet.report.words import PICTURE_TITLES

            save_plot(self.plot, *lines, pose, PICTURE_TITLES[result.status])
            notes.append(f"picture written to {self.plot}")
        return notes


def _check_plot(path: Path) -> None:
    from plueckernet.errors import InputError, MissingDependencyError

    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError("matplotlib", "plot") from error
    kinds = sorted(Figure().canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in kinds:
        raise InputError(f"{path}: no picture has this suffix; choose one of: {', '.join(kinds)}")


def _show(result: RegistrationResult, reports: tuple[ReadReport, ReadReport], to_stderr: bool) -> None:
    from rich.console import Console

    from plueckernet.cli.summary import reading_rows, result_rows, rows_table

    rows = [*reading_rows(reports), *result_rows(result)]
    Console(stderr=to_stderr).print(rows_table(rows))
