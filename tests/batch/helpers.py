"""A batch of tiny maps, and a function in place of the registration, which notes every pair that it computes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from plueckernet.batch import BatchPair
from plueckernet.batch.worker import MapPairs
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet
from plueckernet.io import write_lines
from plueckernet.result import RegistrationResult, RunRecord


def make_pairs(folder: Path, count: int) -> list[BatchPair]:
    """Pairs of maps; the source of pair n has n + 3 lines."""
    folder.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    lines = LineSet.from_segments(torch.randn(count + 3, 2, 3, dtype=torch.float64, generator=generator))
    write_lines(folder / "target.obj", lines)
    for number in range(count):
        write_lines(folder / f"{number}.obj", lines[: number + 3])
    return [BatchPair(folder / f"{number}.obj", folder / "target.obj", f"n{number}") for number in range(count)]


@dataclass(frozen=True)
class FakeRegistration:
    """Fails every pair, after some time; kills its worker or raises for some, by the number of source lines."""

    computed: Path  # gets a line for each pair that is complete
    seconds: float = 0.0
    killing: tuple[int, ...] = ()  # each of these pairs kills its worker once
    deadly: tuple[int, ...] = ()  # always
    raising: tuple[int, ...] = ()
    seed: int = 0

    def __call__(self, pairs: MapPairs) -> Iterator[RegistrationResult]:
        for source, target in pairs:
            number = len(source) - 3
            time.sleep(self.seconds)
            if number in self.deadly or (number in self.killing and not self._noted(f"killed {number}")):
                self._note(f"killed {number}")
                os.kill(os.getpid(), signal.SIGKILL)
            if number in self.raising:
                raise RuntimeError(f"pair {number}")
            run = RunRecord("fake", RegistrationSettings(), self.seed, {"match": 0.5})
            result = RegistrationResult.without_pose(f"fake {number}", (len(source), len(target)), run)
            self._note(f"pair {number}")
            yield result

    def identity(self) -> dict[str, object]:
        return {"fake": True, "seed": self.seed}

    def _note(self, text: str) -> None:
        with self.computed.open("a") as stream:
            stream.write(text + "\n")

    def _noted(self, text: str) -> bool:
        return self.computed.exists() and text in self.computed.read_text().splitlines()


def notes(path: Path) -> list[str]:
    """The pairs that were computed, sorted."""
    return sorted(line for line in path.read_text().splitlines() if line.startswith("pair"))
