"""Reports of a training: a progress bar, lines of JSON in ``log.jsonl``, and TensorBoard if it is installed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from plueckernet.training.validation import Validation

_LINE_INTERVAL = 15.0  # seconds between lines if there is no terminal for a progress bar


class Reporter:
    """Reports the progress of a training; only the first process has one."""

    def __init__(self, out: Path, steps: int, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[news]}"),
        )  # fmt: skip
        terminal = self._console.is_terminal and not quiet
        self._bar = Progress(*columns, console=self._console, disable=not terminal)
        self._task = self._bar.add_task("training", total=steps, news="")
        self._plain = not terminal
        self._last_line = 0.0
        self._success = ""
        self._log = (out / "log.jsonl").open("a", encoding="utf-8")
        self._board: Any = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(out / "tensorboard"))
        self._bar.start()

    def say(self, text: str) -> None:
        """Print a permanent line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def step(self, step: int, numbers: Mapping[str, float]) -> None:
        """Report the numbers after ``step`` steps."""
        self._record("train", step, numbers)
        news = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items() if name in ("loss", "precision"))
        news += self._success
        self._bar.update(self._task, completed=step, news=news)
        if self._plain and time.monotonic() - self._last_line > _LINE_INTERVAL:
            self._last_line = time.monotonic()
            self.say(
                f"step {step} of {self._bar.tasks[0].total:.0f}: {news}, {numbers['milliseconds']:.0f} ms per step"
            )

    def validation(self, validation: Validation, *, best: bool) -> None:
        """Report a validation."""
        for name, cell in validation.cells.items():
            self._record(f"validation/{name}", validation.step, cell)
        self._success = f", validation {100 * validation.success:.1f} %"
        cells = ", ".join(f"{name} {100 * cell['success']:.0f}" for name, cell in validation.cells.items())
        self.say(f"step {validation.step}: success {100 * validation.success:.1f} % ({cells}){', the best' * best}")

    def close(self) -> None:
        """Close the progress bar and the files."""
        self._bar.stop()
        self._log.close()
        if self._board is not None:
            self._board.close()

    def _record(self, kind: str, step: int, numbers: Mapping[str, float]) -> None:
        self._log.write(json.dumps({"kind": kind, "step": step, **{k: round(v, 6) for k, v in numbers.items()}}) + "\n")
        self._log.flush()
        if self._board is not None:
            for name, value in numbers.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)
