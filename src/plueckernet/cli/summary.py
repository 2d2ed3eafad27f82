"""The summary of a registration in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from plueckernet.report.words import (
    as_sentence,
    matrix_rows,
    noise_words,
    rotation_words,
    sigma_words,
    translation_digits,
    verdict,
)

if TYPE_CHECKING:
    from rich.table import Table

    from plueckernet.geometry.similarity import Transform
    from plueckernet.io import ReadReport
    from plueckernet.result import RegistrationResult

Row = tuple[str, str]  # name and value, in rich's markup

WARNING_STYLE = "bold yellow"
_STATUS_STYLES = {"success": "bold green", "ambiguous": "bold yellow", "failed": "bold red"}


def rows_table(rows: Iterable[Row]) -> Table:
    """A table with the names in the left column and the values in the right one."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def reading_rows(reports: Sequence[ReadReport]) -> Iterator[Row]:
    """What was read, what was left out, and the notes of the readers."""
    from rich.markup import escape

    for side, report in zip(("source", "target"), reports, strict=True):
        lines = report.lines
        kind = "infinite lines" if lines.endpoints is None else "segments"
        yield side, escape(f"{report.path} ({report.format}): {len(lines)} {kind}")
        for reason, count in report.dropped.items():
            yield "", f"[yellow]left out {count}: {reason}"
        for note in report.notes:
            yield "", escape(note)


def result_rows(result: RegistrationResult) -> Iterator[Row]:
    """Status, pose, uncertainty and the numbers behind them."""
    text = verdict(result)
    yield "status", f"[{_STATUS_STYLES[result.status]}]{text.headline}[/]"
    yield "verdict", text.summary
    yield "reason", as_sentence(result.reason)
    for warning in text.warnings:
        yield "warning", f"[{WARNING_STYLE}]{warning}[/]"
    if text.advice:
        yield "next", text.advice
    sigmas = result.sigmas()
    if result.target_T_source is not None:
        if result.scale != 1:
            yield "scale", f"{result.scale:.6g} target units per source unit"
        yield from _pose_rows(result.target_T_source, 1.0 if sigmas is None else sigmas[1])
        yield "one sigma", "unknown: the coordinates are too large" if sigmas is None else sigma_words(sigmas)
    yield "inliers", f"{len(result.inliers)} pairs, of {result.num_lines[0]} and {result.num_lines[1]} lines"
    yield "matches", f"{len(result.matches)} putative matches"
    if len(result.inliers):
        yield "noise", noise_words(result.noise)
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items())
    yield "time", f"{sum(result.timings.values()):.2f} s ({stages})"


def _pose_rows(pose: Transform, sigma: float) -> Iterator[Row]:
    """The pose as a matrix, and as rotation and translation."""
    yield "target_T_source", "\n".join(matrix_rows(pose, sigma))
    yield "rotation", rotation_words(pose)
    yield "translation", f"({', '.join(translation_digits(pose, sigma))})"
