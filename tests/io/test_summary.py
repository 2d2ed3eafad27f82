from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.io.samples import infinite_lines, line_set

from plueckernet.geometry.lines import LineSet
from plueckernet.io import summarise_lines


def test_a_box_of_axes() -> None:
    endpoints = np.array([[[0, 0, 0], [3, 0, 0]], [[0, 0, 0], [0, -2, 0]], [[0, 0, 0], [0, 0, 5.0]]])
    summary = summarise_lines(line_set(endpoints))
    assert (summary.count, summary.segments, summary.length_total) == (3, True, 10)
    assert (summary.lower, summary.upper) == ([0, -2, 0], [3, 0, 5])
    assert summary.length_quartiles == [2, 2, 3, 5, 5] or summary.length_quartiles[2] == 3
    assert summary.elevation[0] == pytest.approx(0.5)
    assert summary.elevation[-1] == pytest.approx(0.5)
    assert summary.azimuth[0] == pytest.approx(0.3)
    assert summary.azimuth[6] == pytest.approx(0.2)
    assert summary.float32_step is None


def test_directions_have_no_sign() -> None:
    lines = infinite_lines(200)
    every = torch.ones(200, dtype=torch.bool)
    summary, flipped = summarise_lines(lines), summarise_lines(lines.flipped(every))
    np.testing.assert_allclose(summary.elevation, flipped.elevation)
    np.testing.assert_allclose(summary.azimuth, flipped.azimuth)
    assert sum(summary.elevation) == pytest.approx(1)
    assert summary.lower is None


def test_float32_step_of_a_map_with_a_large_offset() -> None:
    near = torch.tensor([[[0.0, 0, 0], [1, 1, 1]]], dtype=torch.float64)
    summary = summarise_lines(LineSet.from_segments(near + torch.tensor([5e5, 6.5e6, 30.0], dtype=torch.float64)))
    assert summary.float32_step == np.spacing(np.float32(6.5e6))
