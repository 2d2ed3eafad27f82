"""Recovery from bad steps: what is not finite is left out, and from a divergence training goes back."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, Literal

Verdict = Literal["good", "skip", "back"]

_WINDOW = 100  # losses that the usual one is the median of
_ENOUGH = 20  # losses before anything is called unusual
_UNUSUAL = 3.0  # times the usual loss
_PATIENCE = 8  # bad steps in a row before going back
_CALMER = 0.5  # what the rate of learning is multiplied by then
SNAPSHOT_EVERY = 200  # steps


class Guard:
    """Judges each step by its loss and the length of its gradient, before it is taken.

    A step of which either is not finite is left out. A loss of three times the median of the last hundred may be that
    of hard pairs, so the step is taken; but eight bad steps in a row, of one kind or the other, are a divergence.
    """

    def __init__(self) -> None:
        self.rate = 1.0  # what the rate of learning is multiplied by
        self.skipped = 0
        self.returned = 0
        self._losses: list[float] = []
        self._in_a_row = 0

    def judge(self, loss: float, gradient: float) -> Verdict:
        """Take the step, leave it out, or leave it out and go back to a snapshot."""
        finite = math.isfinite(loss) and math.isfinite(gradient)
        unusual = len(self._losses) >= _ENOUGH and loss > _UNUSUAL * statistics.median(self._losses)
        if finite and not unusual:
            self._losses = [*self._losses, loss][-_WINDOW:]
            self._in_a_row = 0
            return "good"
        self._in_a_row += 1
        if self._in_a_row == _PATIENCE:
            self._in_a_row, self._losses = 0, []
            self.returned += 1
            self.rate *= _CALMER
            return "back"
        if finite:
            return "good"
        self.skipped += 1
        return "skip"

    def state(self) -> dict[str, Any]:
        """As plain data."""
        return {name.lstrip("_"): value for name, value in vars(self).items()}

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        self.rate, self.skipped, self.returned = state["rate"], state["skipped"], state["returned"]
        self._losses, self._in_a_row = list(state["losses"]), state["in_a_row"]
