"""A stray line changes neither centre, unit and threshold nor the verdict, and the result says what was left out."""

from __future__ import annotations

import pytest
import torch
from tests.cli.helpers import house

from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.strays import KeptLines, stray_lines
from plueckernet.geometry import LineSet, Pose
from plueckernet.registration import refine, register

GRID = torch.tensor([4.3e5, 5.4e6, 120.0], dtype=torch.float64)
STRAYS = {
    "origin": torch.tensor([[0, 0, 0], [1, 0, 0]], dtype=torch.float64),
    "1e12": torch.tensor([[1e12, 1e12, 0], [1e12, 1e12, 1e6]], dtype=torch.float64),
    "one end": torch.tensor([[4.3e5, 5.4e6, 120.0], [4.3e5, 5.4e6, 1e9]], dtype=torch.float64),
}


def with_stray(lines: LineSet, stray: torch.Tensor, row: int = 5) -> LineSet:
    ends = lines.endpoints
    return LineSet.from_segments(torch.cat([ends[:row], stray[None], ends[row:]]))


@pytest.mark.parametrize("name", STRAYS)
def test_a_stray_line_changes_nothing_but_rows_and_a_warning(name: str) -> None:
    pose = Pose.random(generator=torch.Generator().manual_seed(2), translation=5.0)
    source, target = house(), (pose @ house()).shifted(-GRID)
    plain, stray = register(source, target), register(source, with_stray(target, STRAYS[name]))
    assert stray.status == plain.status
    assert stray.confidence == pytest.approx(plain.confidence, abs=1e-3)
    torch.testing.assert_close(stray.target_T_source.matrix(), plain.target_T_source.matrix(), atol=1e-3, rtol=0)
    rows = plain.inliers[:, 1]
    assert set(stray.inliers[:, 1].tolist()) == set(torch.where(rows >= 5, rows + 1, rows).tolist())
    assert stray.num_lines == (len(source), len(target) + 1)
    assert stray.warnings == ("1 line of the target far outside the rest was left out.",)
    assert plain.warnings == ()
    refined = refine(with_stray(source.shifted(-GRID), STRAYS[name]), target, plain.target_T_source @ shift(GRID))
    assert refined.warnings == ("1 line of the source far outside the rest was left out.",)


def shift(offset: torch.Tensor) -> Pose:
    return Pose(torch.eye(3, dtype=torch.float64), -offset)


@pytest.mark.parametrize("name", STRAYS)
def test_unit_and_threshold_do_not_change(name: str) -> None:
    lines = house().shifted(-GRID)
    plain, stray = (
        RegistrationSettings().normalize(lines, other) for other in (lines, with_stray(lines, STRAYS[name]))
    )
    assert stray.unit == pytest.approx(plain.unit, rel=0.05)
    assert stray.threshold.distance == pytest.approx(plain.threshold.distance, rel=0.2)


def test_an_infinite_stray_is_found() -> None:
    lines = house().shifted(-GRID).infinite()
    point = torch.tensor([[1e12, 0, 0]], dtype=torch.float64)
    stray = LineSet.from_point_direction(point, torch.tensor([[0, 0, 1.0]], dtype=torch.float64))
    joined = LineSet(torch.cat([lines.direction, stray.direction]), torch.cat([lines.moment, stray.moment]))
    assert stray_lines(joined).nonzero().tolist() == [[len(lines)]]


def test_ordinary_maps_and_maps_of_two_places_keep_all_lines() -> None:
    lines = house()
    assert KeptLines.of(lines).lines is lines
    away = torch.tensor([1e4, 0, 0], dtype=torch.float64)
    ends = torch.cat([lines.endpoints, (lines.endpoints + away)[: len(lines) // 3]])
    assert stray_lines(LineSet.from_segments(ends)) is None  # many lines far away are a part of the map
    assert stray_lines(LineSet.from_segments(lines.endpoints[:3])) is None
