"""A part is found in the whole, by `locate` and by `register`; what is not there, or there twice, is not accepted."""

import math

import pytest
import torch
from tests.retrieval.sites_for_tests import SPACING, part_of, row_of_rooms

import plueckernet as pn

SETTINGS = pn.RegistrationSettings(max_lines=60)  # fewer than the site has


@pytest.fixture(scope="module")
def index() -> pn.LineIndex:
    return pn.LineIndex.build(row_of_rooms())


def close(pose: pn.Pose, truth: pn.Pose, submap: pn.LineSet) -> bool:
    centre = submap.midpoints().mean(0)[None]
    turn = math.degrees(float(pose.angle_to(truth)))
    return turn < 1 and float((pose.act(centre) - truth.act(centre)).norm()) < 0.05


def test_a_part_is_found_and_rows_are_those_of_the_whole(index: pn.LineIndex) -> None:
    submap, truth = part_of(index.lines, 3 * SPACING, 5)
    result = pn.locate(submap, index)
    assert result.ok
    assert close(result.target_T_source, truth, submap)
    assert result.num_lines == (len(submap), len(index))
    moved = (truth @ submap).midpoints()[result.inliers[:, 0]]
    assert float((moved - index.lines.midpoints()[result.inliers[:, 1]]).norm(dim=-1).median()) < 0.1
    assert result.evidence.runner_up_ratio is None or result.evidence.runner_up_ratio < 0.5


@pytest.mark.parametrize("swapped", [False, True])
def test_register_finds_a_part_in_either_order(index: pn.LineIndex, swapped: bool) -> None:
    submap, truth = part_of(index.lines, SPACING, 2)
    pair = (index.lines, submap) if swapped else (submap, index.lines)
    result = pn.register(*pair, matcher="descriptors", settings=SETTINGS)
    assert result.ok
    pose = result.target_T_source.inverse() if swapped else result.target_T_source
    assert close(pose, truth, submap)
    assert result.num_lines == (len(pair[0]), len(pair[1]))
    moved = (result.target_T_source @ pair[0]).midpoints()[result.inliers[:, 0]]
    assert float((moved - pair[1].midpoints()[result.inliers[:, 1]]).norm(dim=-1).median()) < 0.1


def test_the_same_input_gives_the_same_output(index: pn.LineIndex) -> None:
    submap, _ = part_of(index.lines, SPACING, 2)
    first, second = (pn.locate(submap, index, matcher="descriptors").to_dict() for _ in range(2))
    first.pop("timings"), second.pop("timings")
    assert first == second
    assert first["num_inliers"] == len(first["inliers"]) > 0.5 * len(submap)


def test_a_place_that_is_there_twice_is_ambiguous() -> None:
    whole = row_of_rooms((0, 1, 2, 1))
    submap, truth = part_of(whole, SPACING, 2)
    result = pn.locate(submap, whole, matcher="descriptors")
    assert result.status is pn.Status.AMBIGUOUS
    shift = torch.tensor([2 * SPACING, 0.0, 0.0], dtype=torch.float64)
    other = pn.Pose(truth.rotation, truth.translation + shift)
    poses = [result.target_T_source, *(alternative.target_T_source for alternative in result.alternatives)]
    assert any(close(pose, truth, submap) for pose in poses)
    assert any(close(pose, other, submap) for pose in poses)
    evidence = [result.evidence, *(alternative.evidence for alternative in result.alternatives)]
    best = max(evidence, key=lambda entry: entry.score)
    assert best.deficit == 0.0
    for entry in evidence:  # also those of other places
        assert entry is best or entry.runner_up_ratio == pytest.approx(best.score / entry.score)


def test_parts_of_parallel_lines_fail_with_a_reason(index: pn.LineIndex) -> None:
    foot = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    poles = torch.stack([foot, foot + torch.tensor([0.0, 0.0, 1.0])], 1)
    result = pn.locate(poles, index, matcher="descriptors")
    assert result.status is pn.Status.FAILED
    assert "no place" in result.reason
