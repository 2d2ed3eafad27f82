"""The report of `plueckernet register` and of the demo."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plueckernet.io import ReadReport
    from plueckernet.result import RegistrationResult

TYPED: ContextVar[Sequence[str]] = ContextVar("TYPED", default=())  # the arguments of the command line


def save_report(path: Path, result: RegistrationResult, reports: Sequence[ReadReport], command: str) -> None:
    """Write the report of a registration, with notes on what was left out when the maps were read."""
    from plueckernet.report import About, write_report

    source, target = reports
    about = About(source.path.name, target.path.name, command, tuple(_notes(reports)))
    write_report(path, result, source.lines, target.lines, about)


def typed_command() -> str:
    """The command as it was typed."""
    return shlex.join(["plueckernet", *TYPED.get()])


def _notes(reports: Sequence[ReadReport]) -> Iterator[str]:
    for side, report in zip(("source", "target"), reports, strict=True):
        for reason, count in report.dropped.items():
            yield f"{side}: left out {count}: {reason}"
        yield from (f"{side}: {note}" for note in report.notes)
