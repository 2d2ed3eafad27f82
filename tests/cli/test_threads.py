"""Small maps are registered by one thread."""

import pytest
import torch

from plueckernet.cli.workers import fitting_threads
from plueckernet.geometry import LineSet


@pytest.mark.parametrize(("lines", "given", "used"), [(10, None, 1), (1001, None, 3), (10, "3", 3)])
def test_threads_fit_the_larger_map_and_are_restored(lines, given, used, monkeypatch):
    maps = [LineSet.from_segments(torch.arange(6.0).reshape(1, 2, 3).repeat(n, 1, 1)) for n in (5, lines)]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with fitting_threads(*maps):
            assert torch.get_num_threads() == used
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
