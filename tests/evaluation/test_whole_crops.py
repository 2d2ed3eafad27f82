"""Crops of lines that nobody broke."""

from __future__ import annotations

import pytest
import torch
from benchmarks.whole_crops import SURVEY

from plueckernet.data.protocols import LinePair
from plueckernet.data.scan import Survey
from plueckernet.data.scenes import make_scene
from plueckernet.evaluation.crop_pairs import crop_pair
from plueckernet.evaluation.crop_results import OVERLAPS
from plueckernet.geometry import LineSet

SCENE = make_scene("outdoor", 1)


def drawn(overlap: int, how: Survey = SURVEY) -> LinePair:
    """The first pair that the scene has."""
    pair = crop_pair(SCENE, OVERLAPS[overlap], 3, how)
    assert pair is not None
    return pair


def is_one_to_one(pair: LinePair) -> bool:
    """Whether no line has two matches."""
    return all(len(column.unique()) == len(column) for column in pair.matches.T)


@pytest.mark.parametrize("overlap", range(len(OVERLAPS)))
def test_as_many_lines_are_in_common_as_asked_for(overlap: int) -> None:
    pair, (low, high) = drawn(overlap), OVERLAPS[overlap]
    assert low <= 2 * len(pair.matches) / (len(pair.source) + len(pair.target)) < high


def test_lines_are_not_broken() -> None:
    assert is_one_to_one(drawn(0))
    assert not is_one_to_one(drawn(0, Survey(missing=0.2)))


def test_matches_coincide_in_the_true_pose() -> None:
    pair = drawn(0)
    moved = (pair.target_T_source @ pair.source)[pair.matches[:, 0]]
    target = pair.target[pair.matches[:, 1]]
    assert (moved.direction * target.direction).sum(-1).abs().median() > 0.999
    assert torch.linalg.cross(target.midpoints() - moved.midpoints(), moved.direction).norm(dim=-1).median() < 0.15


def test_a_seed_gives_the_same_pair() -> None:
    first, second = drawn(1), drawn(1)
    assert torch.equal(first.source.endpoints, second.source.endpoints)
    assert torch.equal(first.target.endpoints, second.target.endpoints)


def test_a_place_with_few_lines_has_no_pair() -> None:
    few: LineSet = SCENE[torch.arange(10)]
    assert crop_pair(few, OVERLAPS[0], 3, SURVEY) is None
