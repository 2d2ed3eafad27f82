"""Parts are found in an index, files of an index are read as they were written, and files of strangers are checked."""

import math
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from tests.retrieval.sites_for_tests import SPACING, part_of, room, row_of_rooms

from plueckernet import FormatError, InputError, LineIndex
from plueckernet.geometry import LineSet
from plueckernet.retrieval import candidate_pairs, overlap_scores


@pytest.fixture(scope="module")
def index() -> LineIndex:
    return LineIndex.build(row_of_rooms())


@pytest.mark.parametrize("number", [0, 3])
def test_the_place_of_a_part_is_the_first(index: LineIndex, number: int) -> None:
    submap, whole_T_part = part_of(index.lines, number * SPACING, number)
    places = index.places(submap, 3)
    centre = submap.midpoints().median(0).values
    assert float((places[0].centre - whole_T_part.act(centre[None])[0]).norm()) < 1.0
    assert math.degrees(float(places[0].whole_T_part.angle_to(whole_T_part))) < 3
    assert places[0].score > 2 * places[1].score
    assert len(places) <= 3


def test_lines_that_are_skipped_do_not_vote(index: LineIndex) -> None:
    submap, whole_T_part = part_of(index.lines, 0.0, 1)
    count = len(room(0))
    centre = whole_T_part.act(submap.midpoints().median(0).values[None])[0]
    for place in index.places(submap, 3, skipped=(0, count)):
        assert float((place.centre - centre).norm()) > SPACING / 4


def test_a_saved_index_gives_the_same_places(index: LineIndex, tmp_path: Path) -> None:
    submap, _ = part_of(index.lines, SPACING, 1)
    index.save(tmp_path / "site.index")
    loaded = LineIndex.load(tmp_path / "site.index")
    assert [p.name for p in tmp_path.iterdir()] == ["site.index"]
    assert repr(loaded) == repr(index)
    assert loaded.covers(index.lines)
    assert not loaded.covers(submap)
    for place, other in zip(index.places(submap, 2), loaded.places(submap, 2), strict=True):
        assert torch.equal(place.whole_T_part.matrix(), other.whole_T_part.matrix())


def test_progress_ends_at_one() -> None:
    reported: list[float] = []
    LineIndex.build(room(1), progress=reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == pytest.approx(1.0)


def test_rows_around_a_point_are_those_of_lines_that_pass_near_it() -> None:
    endpoints = torch.tensor([[[-9.0, 1, 0], [9, 1, 0]], [[5.0, 0, 0], [6, 0, 0]], [[0.0, 0, 2], [0, 1, 2]]])
    index = LineIndex.build(endpoints.double())
    assert index.rows_around(torch.zeros(3, dtype=torch.float64), 1.5).tolist() == [0]
    assert index.rows_around(torch.zeros(3, dtype=torch.float64), 2.5).tolist() == [0, 2]


def test_parallel_lines_have_no_places() -> None:
    generator = torch.Generator().manual_seed(0)
    foot = torch.rand(30, 3, generator=generator, dtype=torch.float64)
    poles = torch.stack([foot, foot + torch.tensor([0.0, 0.0, 1.0])], 1)
    assert LineIndex.build(poles).places(poles[:10]) == ()


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (room(1).infinite(), "end points"),
        (LineSet.from_segments(torch.rand(2, 5, 2, 3, generator=torch.Generator().manual_seed(0))), "batch"),
        (room(1).endpoints[:2], "three"),
    ],
)
def test_what_cannot_be_indexed_is_refused(lines: object, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        LineIndex.build(lines)


def test_a_tolerance_without_meaning_is_refused() -> None:
    with pytest.raises(InputError, match="positive"):
        LineIndex.build(room(1), tolerance=-1.0)


def _file(tmp_path: Path, about: dict[str, str] | None = None, **changes: torch.Tensor | None) -> Path:
    tensors = {"endpoints": room(1, 20).endpoints, "pairs": torch.tensor([[0, 1], [2, 3]], dtype=torch.int32)} | changes
    known = {"kind": "plueckernet line index", "version": "1", "tolerance": "0.1"} | (about or {})
    path = tmp_path / "stranger"
    path.write_bytes(save({name: value for name, value in tensors.items() if value is not None}, known))
    return path


def test_the_file_of_the_next_test_would_be_read(tmp_path: Path) -> None:
    assert len(LineIndex.load(_file(tmp_path))) == 20


@pytest.mark.parametrize(
    ("about", "changes", "complaint"),
    [
        ({"kind": "weights"}, {}, "not a line index"),
        ({"version": "99"}, {}, "version"),
        ({"tolerance": "nan"}, {}, "tolerance"),
        ({"tolerance": "wide"}, {}, "line index"),
        ({}, {"pairs": torch.tensor([[0, 20]], dtype=torch.int32)}, "does not have"),
        ({}, {"pairs": torch.tensor([[-1, 2]], dtype=torch.int32)}, "does not have"),
        ({}, {"pairs": torch.tensor([[2, 2]], dtype=torch.int32)}, "does not have"),
        ({}, {"pairs": torch.tensor([[0.0, 1.0]])}, "whole numbers"),
        ({}, {"pairs": torch.zeros(5000, 2, dtype=torch.int32)}, "too many"),
        ({}, {"pairs": None}, "pairs"),
        ({}, {"endpoints": torch.zeros(4, 6, dtype=torch.float64)}, "end points"),
        ({}, {"endpoints": torch.full((4, 2, 3), math.nan, dtype=torch.float64)}, "line index"),
        ({}, {"endpoints": torch.zeros(4, 2, 3, dtype=torch.float64)}, "length"),
    ],
)
def test_files_of_strangers_are_checked(tmp_path: Path, about: dict, changes: dict, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        LineIndex.load(_file(tmp_path, about, **changes))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", pickle.dumps([1]), b"\xff" * 64])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(FormatError, match="not a line index"):
        LineIndex.load(tmp_path / "other")


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FormatError, match="not a line index"):
        LineIndex.load(path)


def test_maps_of_one_room_are_candidate_pairs() -> None:
    maps = []
    for seed in range(4):
        for side in (0, 1):
            lines = room(seed)
            rows = lines.midpoints()[:, 0].argsort()
            half = rows[: 2 * len(rows) // 3] if side else rows[len(rows) // 3 :]
            maps.append(part_of(LineSet.from_segments(lines.endpoints[half]), 0.0, 2 * seed + side)[0])
    pairs = candidate_pairs(overlap_scores(maps), per_map=2)
    assert set(pairs[:4]) == {(2 * seed, 2 * seed + 1) for seed in range(4)}
    assert all(first < second for first, second in pairs)
    assert len(pairs) <= 16


def test_one_map_has_no_pairs() -> None:
    assert candidate_pairs(overlap_scores([room(1)]), 3) == []


def test_infinite_lines_are_paired_with_all() -> None:
    maps = [room(1), LineSet(room(2).direction, room(2).moment), room(3)]
    scores = overlap_scores(maps)
    assert scores.isinf().sum() == 4
    assert {(0, 1), (1, 2)} <= set(candidate_pairs(scores, 1))
