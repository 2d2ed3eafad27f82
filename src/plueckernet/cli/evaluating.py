"""What `evaluate` and `reproduce` share: options, and a progress bar over all pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from plueckernet.evaluation.runner import Runner

Data = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="NAME=PATH", help="A prepared dataset instead of a stand-in; may be repeated."),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Pairs per cell, instead of the experiment's own number.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for results and predictions.")]
MatcherName = Annotated[
    str, typer.Option(metavar="NAME|FILE", help="descriptors, weights of the package, or a file of weights.")
]
Device = Annotated[str, typer.Option(help="Where networks run: cpu, cuda, …")]
Workers = Annotated[int, typer.Option(min=1, help="Processes, of one thread each.")]
WeightsFolder = Annotated[
    Path | None, typer.Option("--weights", metavar="DIR", help="Your own weights, named as the package's.")
]


def parsed_data(texts: Sequence[str] | None) -> dict[str, Path]:
    """``NAME=PATH`` as a dictionary."""
    from plueckernet.errors import InputError

    folders = {}
    for text in texts or ():
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise InputError(f"--data {text}: expected NAME=PATH")
        folders[name] = Path(path)
    return folders


@contextmanager
def pair_bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr that counts pairs; nothing if stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def prepared_runner(out: Path, text: str, device: str, workers: int) -> Iterator[Runner]:
    """A runner that keeps its predictions in OUT/predictions, with a bar; it and this process use one thread."""
    import torch

    from plueckernet.evaluation.runner import Runner, RunSettings

    torch.set_num_threads(1)
    settings = RunSettings(out / "predictions", device=device, workers=workers)
    with pair_bar(text) as progress, Runner(settings, progress) as runner:
        yield runner
