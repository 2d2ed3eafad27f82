"""A progress bar for what takes long, and nothing for what does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

_PATIENCE = 2.0  # seconds without a word


@contextmanager
def slow_bar(text: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on stderr once the block has run for two seconds; the block reports its share done, in [0, 1].

    Until the first report, and if there is none, the bar only pulses. Nothing is shown where stderr is no terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(text, total=None)
    timer = Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda share: bar.update(task, total=1.0, completed=share)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()
