"""Lines seen again improve the map and do not enlarge it."""

from __future__ import annotations

import pytest
import torch

from plueckernet.geometry import LineSet
from plueckernet.odometry import LineMap
from plueckernet.odometry.line_map import fused


def segment(*ends: list[float]) -> torch.Tensor:
    return torch.tensor([ends], dtype=torch.float64)


def test_two_segments_of_a_line_are_fused_from_end_to_end() -> None:
    whole = fused(segment([0, 0, 0], [2, 0, 0]), torch.ones(1, dtype=torch.float64), segment([5, 0, 0], [1, 0, 0]))
    along = whole[0, :, 0].sort().values
    assert along.tolist() == pytest.approx([0, 5])
    assert float(whole[..., 1:].abs().max()) < 1e-12


def test_a_line_seen_often_moves_little() -> None:
    known, observed = segment([0, 0, 0], [2, 0, 0]), segment([0, 0.1, 0], [2, 0.1, 0])
    for seen, shift in ((1.0, 0.05), (9.0, 0.01)):
        midpoint = fused(known, torch.tensor([seen], dtype=torch.float64), observed).mean(1)
        assert midpoint[0].tolist() == pytest.approx([1, shift, 0])


def test_fusing_reduces_the_error() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = 4 * torch.rand(200, 2, 3, generator=generator, dtype=torch.float64)

    def seen_once() -> LineSet:
        return LineSet.from_segments(truth + 0.02 * torch.randn(truth.shape, generator=generator, dtype=torch.float64))

    rows = torch.arange(200)[:, None].expand(-1, 2)
    line_map = LineMap.empty().with_frame(seen_once(), torch.zeros(0, 2, dtype=torch.long), 0)
    errors = [float((line_map.endpoints.mean(1) - truth.mean(1)).norm(dim=-1).mean())]
    for frame in range(1, 9):
        line_map = line_map.with_frame(seen_once(), rows, frame)
    lines = line_map.lines()
    offset = truth.mean(1) - lines.midpoints()
    across = (offset - (offset * lines.direction).sum(-1, keepdim=True) * lines.direction).norm(dim=-1)
    assert float(across.mean()) < 0.5 * errors[0]
    assert (len(line_map), line_map.seen.unique().tolist(), line_map.last.unique().tolist()) == (200, [9], [8])


def test_new_lines_are_added_and_old_ones_grow_stale() -> None:
    generator = torch.Generator().manual_seed(0)
    first, second = (
        LineSet.from_segments(torch.rand(count, 2, 3, dtype=torch.float64, generator=generator)) for count in (4, 3)
    )
    line_map = LineMap.empty().with_frame(first, torch.zeros(0, 2, dtype=torch.long), 0)
    line_map = line_map.with_frame(second, torch.tensor([[1, 3]]), 5)
    assert len(line_map) == 6
    assert line_map.seen.tolist() == [1, 1, 1, 2, 1, 1]
    assert line_map.recent(1).tolist() == [False, False, False, True, True, True]
    assert len(line_map.lines(line_map.seen > 1)) == 1
