"""Helpers for the tests of the command line."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
import torch

from plueckernet.cli import main
from plueckernet.geometry import LineSet
from plueckernet.io import read_lines

DEMO = Path(str(files("plueckernet"))) / "demo"
MONDAY, FRIDAY = DEMO / "house_monday.obj", DEMO / "house_friday.txt"


def run(*arguments: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def house(count: int = 90) -> LineSet:
    """The longest lines of the demo's house in random order: enough to register, and fast."""
    lines = read_lines(MONDAY)
    longest = lines.lengths().topk(count).indices
    shuffled = longest[torch.randperm(count, generator=torch.Generator().manual_seed(0))]
    return lines[shuffled].replaced(ids=None)


def chaos(count: int, seed: int) -> LineSet:
    """Random segments without any structure."""
    generator = torch.Generator().manual_seed(seed)
    middle, arm = 5 * torch.randn(2, count, 1, 3, generator=generator, dtype=torch.float64)
    return LineSet.from_segments(torch.cat([middle - 0.1 * arm, middle + 0.1 * arm], 1))
