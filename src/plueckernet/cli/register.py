"""`plueckernet register`: the pose between two line maps."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from plueckernet.estimation.settings import RegistrationSettings
    from plueckernet.geometry import LineSet
    from plueckernet.io import ReadReport
    from plueckernet.result import RegistrationResult

InlierThresholdOption = Annotated[
    float | None,
    typer.Option(
        metavar="LENGTH", help="Largest distance of matching lines, in map units.", show_default="from the maps"
    ),
]
_REQUIRED = "Confidence that a pose needs to be accepted. Of the poses accepted, about 1 - C or fewer are wrong."
MinConfidenceOption = Annotated[float, typer.Option(metavar="C", min=0.0, max=1.0, help=_REQUIRED)]


def register(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Line map that is moved.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Line map that stays.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
    ] = None,
    aligned: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the source in the target frame, if there is a pose.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write an HTML report: both maps, the pose, the evidence.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a picture of both maps before and after registration.")
    ] = None,
    inlier_threshold: InlierThresholdOption = None,
    min_confidence: MinConfidenceOption = 0.9,
    directed: Annotated[bool, typer.Option("--directed", help="The direction of each line is meaningful.")] = False,
    matcher: Annotated[
        str, typer.Option(metavar="NAME", help="Weights, by name or file, or 'descriptors' (no weights).")
    ] = "invariant",
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed; equal seeds give equal results.")] = 0,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, ...")] = "cpu",
    lod: Annotated[str | None, typer.Option(help="Level of detail of CityJSON.", show_default="the highest")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Find the pose of SOURCE in the frame of TARGET: any rotation, any translation, no initial guess.

    Exit code 0: registered; 1: not registered or ambiguous; 2: bad input.
    """
    from plueckernet import registration
    from plueckernet.cli.progress import slow_bar, unit_warnings_on_stderr
    from plueckernet.stages import STAGES

    settings = _settings(directed, inlier_threshold, min_confidence)
    check_device(device)
    reports = _read((source, target), lod)
    lines = reports[0].lines, reports[1].lines
    bar = slow_bar(f"registering {len(lines[0])} to {len(lines[1])} lines")
    with bar as progress, unit_warnings_on_stderr(quiet):
        result = registration.register(
            *lines, matcher=matcher, settings=settings, seed=seed, device=device,
            on_stage=lambda stage: progress(STAGES.index(stage) / len(STAGES)),
        )  # fmt: skip
    if not quiet:
        _show(result, reports, to_stderr=str(json_file) == "-")
    notes = _write(result, lines, json_file, aligned, plot)
    if report is not None:
        from plueckernet.cli.report import save_report, typed_command

        save_report(report, result, reports, typed_command())
        notes.append(f"report written to {report}; open it in a browser")
    for note in notes if not quiet else []:
        typer.echo(note, err=True)
    if not result:
        raise typer.Exit(1)


def _settings(directed: bool, inlier_threshold: float | None, min_confidence: float) -> RegistrationSettings:
    from plueckernet.errors import InputError
    from plueckernet.estimation.judgement import JudgementSettings
    from plueckernet.estimation.settings import RegistrationSettings

    if inlier_threshold is not None and not 0 < inlier_threshold < math.inf:
        raise InputError(f"--inlier-threshold: expected a positive length, got {inlier_threshold}")
    judgement = JudgementSettings(min_confidence=min_confidence)
    return RegistrationSettings(directed=directed, inlier_distance=inlier_threshold, judgement=judgement)


def check_device(name: str) -> None:
    """Raise :class:`InputError` if the device does not exist."""
    import torch

    from plueckernet.errors import InputError

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:  # torch raises AssertionError for a device it was built without
        raise InputError(f"--device {name}: {str(error).splitlines()[0]}") from error


def _read(paths: tuple[Path, Path], lod: str | None) -> tuple[ReadReport, ReadReport]:
    from plueckernet.cli.progress import slow_bar
    from plueckernet.errors import FormatError
    from plueckernet.estimation.maps import MIN_LINES
    from plueckernet.io import read_lines_report

    def read(path: Path, level: str | None) -> ReadReport:
        with slow_bar(f"reading {path.name}") as progress:
            return read_lines_report(path, lod=level, progress=progress)

    levels = _levels(paths, lod)
    reports = read(paths[0], levels[0]), read(paths[1], levels[1])
    for report in reports:
        if len(report.lines) < MIN_LINES:
            raise FormatError(report.path, f"it has {len(report.lines)} lines; at least three are needed")
    return reports


def _levels(paths: tuple[Path, Path], lod: str | None) -> list[str | None]:
    """The level of detail goes to CityJSON maps only; without one, reading the first map raises the error."""
    from plueckernet.io.registry import format_of_content
    from plueckernet.io.source import Source

    if lod is None:
        return [None, None]
    has_levels = [path.is_file() and format_of_content(Source(path)).name == "cityjson" for path in paths]
    return [lod if known or not any(has_levels) else None for known in has_levels]


def _show(result: RegistrationResult, reports: tuple[ReadReport, ReadReport], to_stderr: bool) -> None:
    from rich.console import Console

    from plueckernet.cli.summary import reading_rows, result_rows, rows_table

    rows = [*reading_rows(reports), *result_rows(result)]
    Console(stderr=to_stderr).print(rows_table(rows))


def _write(
    result: RegistrationResult,
    lines: tuple[LineSet, LineSet],
    json_file: Path | None,
    aligned: Path | None,
    plot: Path | None,
) -> list[str]:
    """Write the requested files; returns messages about them."""
    from plueckernet.io import write_lines

    notes = []
    pose = result.target_T_source
    if str(json_file) == "-":
        typer.echo(json.dumps(result.to_dict(), indent=1, allow_nan=False))
    elif json_file is not None:
        result.save(json_file)
        notes.append(f"result written to {json_file}")
    if aligned is not None and pose is not None:
        write_lines(aligned, pose @ lines[0])
        notes.append(f"source in the target frame written to {aligned}")
    elif aligned is not None:
        notes.append(f"{aligned} not written: there is no pose")
    if plot is not None:
        from plueckernet.report import save_plot
        from plueckernet.report.words import PICTURE_TITLES

        save_plot(plot, *lines, pose, PICTURE_TITLES[result.status])
        notes.append(f"picture written to {plot}")
    return notes
