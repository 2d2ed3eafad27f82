"""Recovery from bad steps: non-finite steps are skipped, and a divergence rolls training back."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, Literal

StepDecision = Literal["take", "skip", "rollback"]

_MEDIAN_WINDOW = 100  # losses of which the median is taken
_MIN_LOSSES = 20  # losses before a high loss is recognised
_MAX_LOSS_RATIO = 3.0  # loss over median loss above which a step is bad
_MAX_BAD_STEPS = 8  # bad steps in a row before a rollback
_ROLLBACK_RATE = 0.5  # factor of the learning rate at each rollback
SNAPSHOT_EVERY = 200  # steps


class Guard:
    """Decides about each step from its loss and the norm of its gradient, before the step is taken.

    A step is skipped if either is not finite. A loss above three times the median of the last hundred may come from
    hard pairs, so the step is taken. Eight bad steps of either kind in a row are a divergence.
    """

    def __init__(self) -> None:
        self.rate = 1.0  # factor of the learning rate
        self.skipped = 0
        self.rollbacks = 0
        self._losses: list[float] = []
        self._in_a_row = 0

    def judge(self, loss: float, gradient: float) -> StepDecision:
        """Take the step, skip it, or skip it and roll back to a snapshot."""
        finite = math.isfinite(loss) and math.isfinite(gradient)
        high = len(self._losses) >= _MIN_LOSSES and loss > _MAX_LOSS_RATIO * statistics.median(self._losses)
        if finite and not high:
            self._losses = [*self._losses, loss][-_MEDIAN_WINDOW:]
            self._in_a_row = 0
            return "take"
        self._in_a_row += 1
        if self._in_a_row == _MAX_BAD_STEPS:
            self._in_a_row, self._losses = 0, []
            self.rollbacks += 1
            self.rate *= _ROLLBACK_RATE
            return "rollback"
        if finite:
            return "take"
        self.skipped += 1
        return "skip"

    def state(self) -> dict[str, Any]:
        """The state as plain data; ``returned`` is the name of the rollbacks in checkpoints."""
        counts = {"rate": self.rate, "skipped": self.skipped, "returned": self.rollbacks}
        return {**counts, "losses": self._losses, "in_a_row": self._in_a_row}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore the output of :meth:`state`."""
        self.rate, self.skipped, self.rollbacks = state["rate"], state["skipped"], state["returned"]
        self._losses, self._in_a_row = list(state["losses"]), state["in_a_row"]
