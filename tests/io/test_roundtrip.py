"""Writing and reading back gives the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from tests.io.samples import TWO_SEGMENTS, infinite_lines, line_set, segment_arrays

from plueckernet.errors import InputError
from plueckernet.geometry.lines import stack_lines
from plueckernet.io import FORMATS, clip_to_ball, read_lines, read_lines_report, write_lines

WRITABLE = [known.name for known in FORMATS if known.is_writable]


@pytest.mark.parametrize("name", WRITABLE)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(endpoints=segment_arrays())
def test_segments_come_back_exactly(tmp_path: Path, name: str, endpoints: np.ndarray) -> None:
    path = tmp_path / "map"
    write_lines(path, line_set(endpoints), format=name)
    report = read_lines_report(path)
    assert report.format == name
    assert report.dropped == {}
    assert report.lines.ids is None
    np.testing.assert_array_equal(report.lines.endpoints, endpoints)


@pytest.mark.parametrize("name", ["txt", "obj", "ply", "npy"])
def test_a_hundred_thousand_lines(tmp_path: Path, name: str) -> None:
    endpoints = np.random.default_rng(0).normal(size=(100_000, 2, 3)) + 1e5
    fractions: list[float] = []
    write_lines(tmp_path / "map", line_set(endpoints), format=name)
    report = read_lines_report(tmp_path / "map", progress=fractions.append)
    np.testing.assert_array_equal(report.lines.endpoints, endpoints)
    assert fractions == sorted(fractions)
    assert all(0 < fraction <= 1 for fraction in fractions)
    assert bool(fractions) == (name in ("txt", "obj"))


@pytest.mark.parametrize("suffix", [".obj", ".ply", ".dxf", ".csv", ".txt", ".npy", ".npz", ".OBJ"])
def test_the_suffix_decides_what_is_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"map{suffix}"
    write_lines(path, line_set(TWO_SEGMENTS))
    assert read_lines_report(path).format == suffix[1:].lower()


@pytest.mark.parametrize("name", WRITABLE)
def test_content_beats_a_wrong_suffix(tmp_path: Path, name: str) -> None:
    path = tmp_path / ("map.npy" if name != "npy" else "map.obj")
    write_lines(path, line_set(TWO_SEGMENTS), format=name)
    assert read_lines_report(path).format == name


def test_infinite_lines_come_back_exactly(tmp_path: Path) -> None:
    lines = infinite_lines()
    write_lines(tmp_path / "map.npz", lines)
    back = read_lines(tmp_path / "map.npz")
    assert back.endpoints is None
    assert torch.equal(back.direction, lines.direction)
    assert torch.equal(back.moment, lines.moment)


def test_infinite_lines_off_scale_are_normalised(tmp_path: Path) -> None:
    lines = infinite_lines()
    np.savez(tmp_path / "map.npz", direction=3 * lines.direction.numpy(), moment=3 * lines.moment.numpy())
    back = read_lines(tmp_path / "map.npz")
    torch.testing.assert_close(back.direction, lines.direction)
    torch.testing.assert_close(back.moment, lines.moment)


@pytest.mark.parametrize("name", [name for name in WRITABLE if name != "npz"])
def test_infinite_lines_need_npz(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"\.npz"):
        write_lines(tmp_path / "map", infinite_lines(), format=name)


def test_ids_come_back_from_npz(tmp_path: Path) -> None:
    lines = line_set(TWO_SEGMENTS).replaced(ids=torch.tensor([7, 3]))
    write_lines(tmp_path / "map.npz", lines)
    assert read_lines(tmp_path / "map.npz").ids.tolist() == [7, 3]


def test_padding_is_not_written(tmp_path: Path) -> None:
    batch = stack_lines([line_set(TWO_SEGMENTS), line_set(TWO_SEGMENTS[:1])])
    with pytest.raises(InputError, match="unbatched"):
        write_lines(tmp_path / "map.obj", batch)
    second = type(batch)(batch.direction[1], batch.moment[1], batch.endpoints[1], mask=batch.mask[1])
    write_lines(tmp_path / "map.obj", second)
    assert len(read_lines(tmp_path / "map.obj")) == 1


def test_what_cannot_be_written(tmp_path: Path) -> None:
    lines = line_set(TWO_SEGMENTS)
    with pytest.raises(InputError, match="only be read"):
        write_lines(tmp_path / "map.json", lines)
    with pytest.raises(InputError, match="no format has the suffix"):
        write_lines(tmp_path / "map.docx", lines)
    with pytest.raises(InputError, match="unknown format 'docx'"):
        write_lines(tmp_path / "map.obj", lines, format="docx")
    with pytest.raises(InputError, match="no lines to write"):
        write_lines(tmp_path / "map.obj", lines[:0])
    assert list(tmp_path.iterdir()) == []


def test_clipped_lines_end_on_the_ball() -> None:
    lines = infinite_lines()
    centre = torch.tensor([1.0, 2, 3], dtype=torch.float64)
    clipped = clip_to_ball(lines, 100.0, centre)
    distance = (clipped.endpoints - centre).norm(dim=-1)
    torch.testing.assert_close(distance, torch.full_like(distance, 100))
    torch.testing.assert_close(clipped.direction, lines.direction)
    assert clipped.ids is None


def test_lines_that_miss_the_ball_are_left_out() -> None:
    lines = infinite_lines()
    near = (lines.footpoints() ** 2).sum(-1).argmin()
    radius = float(lines.footpoints()[near].norm()) * 1.0001
    clipped = clip_to_ball(lines, radius, torch.zeros(3, dtype=torch.float64))
    assert clipped.ids.tolist() == [int(near)]
    with pytest.raises(InputError, match="radius"):
        clip_to_ball(lines, 0.0)
