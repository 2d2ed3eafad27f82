"""Different units are noticed; part and whole, levels of detail and infinite lines are not taken for them."""

from __future__ import annotations

import re
from functools import cache

import pytest
import torch
from tests.io.samples import SHARED_LINES

from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import UnitWarning
from plueckernet.estimation.extents import unit_warning
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.io import read_lines
from plueckernet.registration import register, register_many

QUESTIONS = [  # factor, text if the source is that much larger
    (
        1000.0,
        "The source looks about 1000 times larger than the target: is the source in millimetres and the target in",
    ),
    (100.0, "The source looks about 100 times larger than the target: is the source in centimetres and the target in"),
    (
        39.37,
        "The source looks about 39 times larger than the target: is the source in inches and the target in metres?",
    ),
    (
        25.4,
        "The source looks about 25 times larger than the target: is the source in millimetres and the target in inch",
    ),
    (
        3.2808,
        "The source looks about 3.3 times larger than the target: is the source in feet and the target in metres?",
    ),
]


@cache
def survey(seed: int) -> tuple[LineSet, LineSet]:
    """Two surveys of one place."""
    pair = sample_pair(make_scene("indoor", seed), ScanProtocol(overlap=0.6), seed)
    return pair.source, pair.target


def scaled(lines: LineSet, factor: float) -> LineSet:
    """The lines in another unit and another frame."""
    pose = Pose.random(generator=torch.Generator().manual_seed(5), translation=10.0)
    return Similarity.from_pose(pose, factor) @ lines


def street(houses: int) -> LineSet:
    """The same house many times in a row, 30 m apart."""
    house = make_scene("indoor", 1)
    step = torch.tensor([30.0, 0.0, 0.0], dtype=torch.float64)
    rows = [house.shifted(-number * step).endpoints for number in range(houses)]
    return LineSet.from_segments(torch.cat([row for row in rows if row is not None]))


@pytest.mark.parametrize(("factor", "text"), QUESTIONS)
def test_a_known_factor_is_named(factor: float, text: str) -> None:
    lines = make_scene("indoor", 2)
    larger = scaled(lines, factor)
    sentence = unit_warning(larger, lines)
    assert sentence is not None
    assert sentence.startswith(text)
    swapped = {"source": "target", "target": "source"}
    assert unit_warning(lines, larger) == re.sub("source|target", lambda side: swapped[side[0]], sentence)


def test_an_unknown_factor_is_a_number() -> None:
    lines = make_scene("indoor", 2)
    sentence = "The source looks about 200 times larger than the target, and scale is not searched for:"
    assert unit_warning(scaled(lines, 220.0), lines) == f"{sentence} are both maps in the same unit?"


@pytest.mark.parametrize("seed", range(6))
def test_two_surveys(seed: int) -> None:
    source, target = survey(seed)
    assert unit_warning(source, target) is None
    assert unit_warning(source.infinite(), target.infinite()) is None
    assert unit_warning(source.infinite(), target) is None
    for factor in (1000.0, 100.0):
        assert unit_warning(scaled(source, factor), target) is not None
        assert unit_warning(source, scaled(target, factor)) is not None


def test_a_part_of_a_street() -> None:
    whole, house = street(40), make_scene("indoor", 1)
    assert unit_warning(house, whole) is None
    assert unit_warning(whole, house) is None
    assert unit_warning(house.infinite(), whole.infinite()) is None
    for factor in (1000.0, 100.0):  # at 100 times, the extent of the house is about that of the street
        assert "is the source in" in str(unit_warning(scaled(house, factor), whole))
        assert "is the target in" in str(unit_warning(house, scaled(whole, factor)))


@pytest.mark.parametrize("kept", [0.15, 0.05])
def test_a_coarser_level_of_detail(kept: float) -> None:
    lines = make_scene("outdoor", 1)
    coarse = lines[lines.lengths().topk(int(kept * len(lines))).indices]
    assert unit_warning(coarse, lines) is None
    assert unit_warning(lines, coarse) is None
    assert unit_warning(scaled(coarse, 1000.0), lines) is not None


def test_feet_need_enough_lines() -> None:
    lines = make_scene("indoor", 2)[:12]
    assert unit_warning(scaled(lines, 3.2808), lines) is None


def test_maps_without_a_size() -> None:
    """Lines through one point and copies of one line have no spacing or extent to compare."""
    star = LineSet.from_point_direction(torch.zeros(3, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64))
    house = make_scene("indoor", 2)
    copies = house[torch.zeros(9, dtype=torch.long)]
    for lines in (star, copies):
        assert unit_warning(lines, house) is None
        assert unit_warning(house, lines) is None


def test_registering_warns_once_and_keeps_the_sentence() -> None:
    source, target = survey(1)
    larger = scaled(source, 1000.0)
    with pytest.warns(UnitWarning, match="millimetres") as caught:
        result = register(larger, target, matcher="descriptors")
    assert len(caught) == 1
    assert result.warnings == (unit_warning(larger, target),)
    with pytest.warns(UnitWarning):
        many = list(register_many([(larger, target)], matcher="descriptors"))
    assert many[0].warnings == result.warnings


def test_without_a_difference_there_is_no_warning() -> None:
    assert register(*survey(1), matcher="descriptors").warnings == ()


@pytest.mark.skipif(not SHARED_LINES.is_dir(), reason="../shared/data/lines is not here")
def test_real_maps_of_two_levels_of_detail() -> None:
    path = SHARED_LINES / "cityjson" / "multi_lod.json"
    coarse, fine = read_lines(path, lod="1.2"), read_lines(path, lod="2.2")
    house = read_lines(SHARED_LINES / "bim" / "duplex_edges.npy")
    longest = house[house.lengths().topk(len(house) // 7).indices]
    for source, target in ((coarse, fine), (longest, house)):
        assert unit_warning(source, target) is None
        assert unit_warning(target, source) is None
        assert "millimetres" in str(unit_warning(scaled(source, 1000.0), target))


def test_an_empty_map_has_no_unit() -> None:
    """That it is empty is told by who needs its lines."""
    lines = make_scene("indoor", 1)
    assert unit_warning(lines[:0], lines) is None
    assert unit_warning(lines, lines[:0]) is None
