"""`plueckernet info`: statistics of line maps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plueckernet.cli.options import LodOption, StoreyOption, TypesOption
from plueckernet.cli.starting import quick_imports

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from plueckernet.io import ReadReport, Summary

_BAR_CELLS = 24


def info(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Line maps to describe.")],
    lod: LodOption = None,
    types: TypesOption = None,
    storey: StoreyOption = None,
    from_format: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of the files.", show_default="by content")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list with one object per file.")] = False,
) -> None:
    """Show format, counts, extent, lengths and directions of line maps."""
    with quick_imports():
        from rich.console import Console

        from plueckernet.cli.progress import slow_bar
        from plueckernet.errors import PlueckernetError
        from plueckernet.io import read_lines_report, summarise_lines

    console = Console()
    objects: list[dict[str, Any]] = []
    failed = False
    for path in files:
        try:
            with slow_bar(f"reading {path.name}") as progress:
                report = read_lines_report(
                    path, format=from_format, lod=lod, types=types or (), storey=storey, progress=progress
                )
        except PlueckernetError as error:  # the other files may be fine
            typer.echo(f"error: {error}", err=True)
            failed = True
            continue
        summary = summarise_lines(report.lines)
        objects.append(_as_object(report, summary))
        if not as_json:
            console.print(_as_table(report, summary), *_directions(summary))
    if as_json:
        typer.echo(json.dumps(objects, indent=2))
    if failed:
        raise typer.Exit(2)


def _as_object(report: ReadReport, summary: Summary) -> dict[str, Any]:
    head = {"file": str(report.path), "format": report.format, "crs": report.crs}
    return head | {"dropped": report.dropped, "notes": report.notes} | asdict(summary)


def _as_table(report: ReadReport, summary: Summary) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False, title_justify="left", title_style="bold")
    table.title = escape(str(report.path))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in _rows(report, summary):
        table.add_row(name, escape(value))
    return table


def _rows(report: ReadReport, summary: Summary) -> Iterator[tuple[str, str]]:
    yield "format", report.format
    yield "CRS", report.crs or "not named in the file"
    yield "lines", f"{summary.count} {'segments' if summary.segments else 'infinite lines'}"
    for reason, count in report.dropped.items():
        yield "left out", f"{count}: {reason}"
    if summary.lower is not None and summary.upper is not None:
        extent = [upper - lower for lower, upper in zip(summary.lower, summary.upper, strict=True)]
        yield "extent", " × ".join(f"{size:.4g}" for size in extent)
        yield "box", f"{_point(summary.lower)} to {_point(summary.upper)}"
    else:
        yield "centre", _point(summary.centre)
    if summary.length_quartiles is not None:
        least, lower, median, upper, greatest = (f"{value:.4g}" for value in summary.length_quartiles)
        yield "lengths", f"median {median}, quartiles {lower} and {upper}, from {least} to {greatest}"
        yield "total length", f"{summary.length_total:.6g}"
    if summary.float32_step is not None:
        yield "precision", f"far from the origin: float32 would round these coordinates to {summary.float32_step:.2g}"
    for note in report.notes:
        yield "note", note


def _point(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:.10g}' if abs(value) >= 1e4 else f'{value:.4g}' for value in values)})"


def _directions(summary: Summary) -> list[RenderableType]:
    """The histograms of elevation and azimuth, side by side."""
    from rich.columns import Columns

    weight = "length" if summary.segments else "lines"
    elevation_step = 90 // len(summary.elevation)
    azimuth_step = 180 // len(summary.azimuth)
    elevations = [f"{elevation_step * i}–{elevation_step * (i + 1)}°" for i in range(len(summary.elevation))]
    azimuths = [f"{azimuth_step * i}°" for i in range(len(summary.azimuth))]
    return [
        Columns(
            [
                _histogram(f"angle to the xy plane (% of {weight})", elevations, summary.elevation),
                _histogram("direction in the xy plane, 0° = x axis", azimuths, summary.azimuth),
            ],
            padding=(0, 3),
        ),
        "",
    ]


def _histogram(title: str, labels: Sequence[str], fractions: Sequence[float]) -> Table:
    from rich.bar import Bar
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False, title_justify="left", title_style="dim")
    table.title = title
    table.add_column(justify="right")
    table.add_column(width=_BAR_CELLS)
    table.add_column(justify="right")
    longest = max(fractions) or 1.0
    for label, fraction in zip(labels, fractions, strict=True):
        table.add_row(label, Bar(longest, 0, fraction, width=_BAR_CELLS), f"{100 * fraction:.1f}")
    return table
