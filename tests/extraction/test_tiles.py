"""Tiles: each point is in one tile, and the pieces of a line cut at tiles add up to the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from plueckernet.extraction.extracted import SegmentArrays
from plueckernet.extraction.tiles import spooled, tiled

POINTS = np.random.default_rng(0).normal([5e5, 3e6, 100], [30, 8, 1], (20_000, 3))


def run(work: Callable[..., SegmentArrays], tile_points: int = 3000) -> tuple[SegmentArrays, list[float]]:
    fractions: list[float] = []
    chunks = np.array_split(POINTS, 7)
    segments, others = tiled(chunks, tile_points, lambda *tile: (work(*tile), len(tile[0])), fractions.append)
    assert min(others) > 0
    return segments, fractions


def test_tiles_are_small_and_cover_the_cloud() -> None:
    seen: list[np.ndarray] = []

    def work(points: np.ndarray, origin: np.ndarray, report: Callable[[float], None]) -> SegmentArrays:
        report(1.0)
        seen.append(points + origin)
        return SegmentArrays.empty()

    _, fractions = run(work)
    assert len(seen) > 6
    assert max(map(len, seen)) < 2 * 3000  # the margin included
    rows = np.unique(np.round(np.concatenate(seen), 6), axis=0)
    assert len(rows) == len(POINTS)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


@pytest.mark.parametrize("direction", [(1, 0, 0), (0, 1, 0), (0.6, 0.8, 0.1), (0, 0, 1)])
def test_a_line_across_tiles_is_cut_and_not_repeated(direction: tuple[float, float, float]) -> None:
    ends = POINTS.mean(axis=0) + np.outer([-20.0, 20.0], direction) + [0.123, 0.456, 0]

    def work(points: np.ndarray, origin: np.ndarray, report: Callable[[float], None]) -> SegmentArrays:
        return SegmentArrays((ends - origin)[None], np.array([1000]), np.array([0.01]))

    segments, _ = run(work)
    span = segments.ends[:, 1] - segments.ends[:, 0]
    np.testing.assert_allclose(span.sum(axis=0), ends[1] - ends[0], atol=1e-6)
    np.testing.assert_allclose(segments.ends.reshape(-1, 3).min(axis=0), ends.min(axis=0), atol=1e-6)
    assert len(segments) > 1 or direction == (0, 0, 1)
    assert 1000 <= segments.support.sum() <= 1000 + len(segments)


def test_an_empty_cloud(tmp_path: Path) -> None:
    assert spooled([np.empty((0, 3))], tmp_path) is None


def test_points_far_from_the_origin_keep_their_digits(tmp_path: Path) -> None:
    spool = spooled([POINTS], tmp_path)
    assert spool is not None
    back = np.concatenate(list(spool.chunks())) + spool.origin
    np.testing.assert_allclose(back, POINTS, rtol=0, atol=1e-9)
