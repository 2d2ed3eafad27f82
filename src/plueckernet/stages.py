"""The stages of a registration and how long each takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

STAGES = ("prepare", "match", "estimate", "verify", "refine", "judge")


class StageClock:
    """Measures the seconds of each stage, all rounds together, and announces its first beginning."""

    def __init__(self, on_stage: Callable[[str], None] | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._on_stage = on_stage

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time one stage."""
        if self._on_stage is not None and name not in self.seconds:
            self._on_stage(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
