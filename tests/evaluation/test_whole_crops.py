"""Crops of lines that nobody broke."""

from __future__ import annotations

import pytest
import torch
from benchmarks import whole_crops
from benchmarks.whole_crops import whole_pair

from plueckernet.data.scan import Survey
from plueckernet.data.scenes import make_scene
from plueckernet.evaluation.crop_results import OVERLAPS
from plueckernet.evaluation.protocols import LabelledPair
from plueckernet.geometry import LineSet

SCENE = make_scene("outdoor", 1)


def drawn(overlap: int) -> LabelledPair:
    """The first pair that the scene has."""
    pair = whole_pair(SCENE, "here", overlap, 3)
    assert pair is not None
    return pair


def is_one_to_one(pair: LabelledPair) -> bool:
    """Whether no line has two matches."""
    return all(len(column.unique()) == len(column) for column in pair.matches.T)


@pytest.mark.parametrize("overlap", range(len(OVERLAPS)))
def test_as_many_lines_are_in_common_as_asked_for(overlap: int) -> None:
    pair, (low, high) = drawn(overlap), OVERLAPS[overlap]
    assert low <= 2 * len(pair.matches) / (len(pair.source) + len(pair.target)) < high


def test_lines_are_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_one_to_one(drawn(0))
    monkeypatch.setattr(whole_crops, "SURVEY", Survey(missing=0.2))
    assert not is_one_to_one(drawn(0))


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
    assert whole_pair(few, "here", 0, 3) is None
