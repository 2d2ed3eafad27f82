"""What `evaluate` and `reproduce` share: options, and a bar over all pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="NAME=PATH", help="A prepared dataset instead of a stand-in; may be repeated."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Pairs of a cell at most, for a quick look.")]
Device = Annotated[str, typer.Option(help="Where networks run: cpu, cuda, …")]
Workers = Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")]
WeightsFolder = Annotated[
    Path | None, typer.Option("--weights", metavar="DIR", help="Weights of your own, named as the package's.")
]


def parsed_data(texts: Sequence[str] | None) -> dict[str, Path]:
    """``NAME=PATH`` as a dictionary."""
    from plueckernet.errors import InputError

    found = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise InputError(f"--data {text}: expected NAME=PATH")
        found[name] = Path(path)
    return found


@contextmanager
def pair_bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr that counts pairs; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
