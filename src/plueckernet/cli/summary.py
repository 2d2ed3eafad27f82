"""A registration in words and numbers for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from plueckernet.geometry import Pose
    from plueckernet.io import ReadReport
    from plueckernet.result import RegistrationResult

Row = tuple[str, str]  # name and value, in rich's markup

_STATUS = {"success": "[bold green]registered", "ambiguous": "[bold yellow]ambiguous", "failed": "[bold red]failed"}
_WORDS = (  # from this confidence on
    (0.97, "almost certainly right"),
    (0.9, "very likely right"),
    (0.7, "likely right"),
    (0.4, "may be right"),
    (0.1, "likely wrong"),
    (0.0, "almost certainly wrong"),
)


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
        pose = "the best pose found" if result.target_T_source is None else "the pose"
        number = "above 0.99" if result.confidence > 0.99 else f"{result.confidence:.2f}"
        yield "confidence", f"{number}: {pose} is {in_words(result.confidence)}"
    sigmas = result.sigmas()
    if result.target_T_source is not None and sigmas is not None:
        yield from _pose_rows(result.target_T_source.to("cpu"), sigmas[1])
        yield "one sigma", f"{_digits(sigmas[0])}° and {_digits(sigmas[1])} at the middle of the common lines"
    yield "inliers", f"{len(result.inliers)} pairs, of {result.num_lines[0]} and {result.num_lines[1]} lines"
    yield "matches", f"{len(result.matches)} putative ones to start from"
    if len(result.inliers):
        position, direction = result.noise
        yield "noise", f"a line is off by {_digits(position)} and {_digits(direction)}° (one sigma, estimated)"
    stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in result.timings.items())
    yield "time", f"{sum(result.timings.values()):.2f} s ({stages})"


def in_words(confidence: float) -> str:
    """What a confidence means."""
    return next(words for least, words in _WORDS if confidence >= least)


def _pose_rows(pose: Pose, sigma: float) -> Iterator[Row]:
    """The pose as a matrix and as a turn and a shift, lengths with the digits that their uncertainty leaves."""
    from plueckernet.geometry.pose import rotation_log

    places = min(max(1 - math.floor(math.log10(max(sigma, 1e-9))), 0), 9)
    shift = [f"{value:.{places}f}" for value in pose.translation.tolist()]
    width = max(map(len, shift))
    turns = [" ".join(f"{value:9.6f}" for value in row) for row in pose.rotation.tolist()]
    last = " ".join(f"{value:9.0f}" for value in (0, 0, 0))
    rows = [f"{turn} {value:>{width}}" for turn, value in zip(turns, shift, strict=True)]
    yield "target_T_source", "\n".join([*rows, f"{last} {1:>{width}}"])
    turn = rotation_log(pose.rotation)
    angle = float(turn.norm())
    axis = ", ".join(f"{value:.4f}" for value in (turn / max(angle, 1e-300)).tolist())
    yield "rotation", f"{math.degrees(angle):.3f}° about ({axis})"
    yield "translation", f"({', '.join(shift)})"


def _digits(value: float) -> str:
    return f"{value:.2g}"
