"""What is said on stderr while a command runs: a bar for slow operations, and warnings about units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, Protocol

_BAR_DELAY = 2.0  # seconds before the bar appears


class ProgressReport(Protocol):
    """Called with the progress in [0, 1] and, where there are several, the stage that begins."""

    def __call__(self, fraction: float, stage: str = "") -> None:
        """Show the progress."""
        ...


@contextmanager
def slow_bar(text: str) -> Iterator[ProgressReport]:
    """Show a bar on stderr once the block has run for two seconds; the block reports its progress in [0, 1].

    A stage that the block reports is shown beside the text. The bar pulses until the first report. Nothing is shown if
    stderr is not a terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(text, total=None)

    def report(fraction: float, stage: str = "") -> None:
        bar.update(task, total=1.0, completed=fraction, description=f"{text}: {stage}" if stage else None)

    timer = Timer(_BAR_DELAY, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


@contextmanager
def unit_warnings_on_stderr(quiet: bool) -> Iterator[None]:
    """Print a `UnitWarning` as one styled line when it is raised, before the search; nothing if ``quiet``."""
    import warnings

    from rich.console import Console
    from rich.text import Text

    from plueckernet.errors import UnitWarning

    console = Console(stderr=True)
    show_other = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
        if issubclass(category, UnitWarning):
            console.print(Text.assemble(("warning: ", "bold yellow"), str(message)), soft_wrap=True)
        else:
            show_other(message, category, *place, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "always", UnitWarning)
        warnings.showwarning = show
        yield
