"""Helpers shared by the tests of the file formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

ROOT = Path(__file__).parents[2]
SHARED_LINES = ROOT.parent / "shared" / "data" / "lines"

TWO_SEGMENTS = np.array([[[0.1, 0.2, 0.3], [1, 2, 3]], [[1e6, -5e5, 1 / 3], [1e6 + 1, -5e5, 7e-9]]])

_coordinate = st.floats(-1e9, 1e9, allow_nan=False, allow_subnormal=False)


def segment_arrays(max_size: int = 8) -> st.SearchStrategy[np.ndarray]:
    """Arrays (n, 2, 3) of segments of non-zero length."""
    shapes = st.integers(1, max_size).map(lambda n: (n, 2, 3))
    segments = shapes.flatmap(lambda shape: arrays(np.float64, shape, elements=_coordinate))
    return segments.filter(lambda a: bool((np.linalg.norm(a[:, 1] - a[:, 0], axis=1) > 1e-6).all()))


def line_set(endpoints: np.ndarray) -> object:
    from plueckernet.geometry.lines import LineSet

    return LineSet.from_segments(torch.from_numpy(endpoints))


def infinite_lines(count: int = 5) -> object:
    from plueckernet.geometry.lines import LineSet

    generator = torch.Generator().manual_seed(7)
    point, direction = torch.randn(2, count, 3, generator=generator, dtype=torch.float64)
    return LineSet.from_point_direction(10 * point, direction)
