"""A registration in words and numbers for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from plueckernet.report.words import belief, digits, matrix_rows, rotation_words, translation_digits

if TYPE_CHECKING:
    from rich.table import Table

    from plueckernet.geometry import Pose
    from plueckernet.io import ReadReport
    from plueckernet.result import RegistrationResult

Row = tuple[str, str]  # name and value, in rich's markup

_STATUS = {"success": "[bold green]registered", "ambiguous": "[bold yellow]ambiguous", "failed": "[bold red]failed"}


def rows_table(rows: Iterable[Row]) -> Table:
    """Names on the left, values beside them."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def reading_rows(reports: Sequence[ReadReport]) -> Iterator[Row]:
    """What was read, left out and assumed."""
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
    """Status, pose, uncertainty and what they rest on."""
    yield "status", f"{_STATUS[result.status]}[/]: {result.reason}"
    if len(result.inliers):
        yield "confidence", ": ".join(belief(result))
    sigmas = result.sigmas()
    if result.target_T_source is not None and sigmas is not None:
        yield from _pose_rows(result.target_T_source.to("cpu"), sigmas[1])
        yield "one sigma", f"{digits(sigmas[0])}° and {digits(sigmas[1])} at the middle of the common lines"
    yield "inliers", f"{len(result.inliers)} pairs, of {result.num_lines[0]} and {result.num_lines[1]} lines"
    yield "matches", f"{len(result.matches)} putative ones to start from"
    if len(result.inliers):
        position, direction = result.noise
        yield "noise", f"a line is off by {digits(position)} and {digits(direction)}° (one sigma, estimated)"
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items())
    yield "time", f"{sum(result.timings.values()):.2f} s ({stages})"


def _pose_rows(pose: Pose, sigma: float) -> Iterator[Row]:
    """The pose as a matrix and as a turn and a shift."""
    yield "target_T_source", "\n".join(matrix_rows(pose, sigma))
    yield "rotation", rotation_words(pose)
    yield "translation", f"({', '.join(translation_digits(pose, sigma))})"
