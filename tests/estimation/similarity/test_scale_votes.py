"""Pairs of matches vote for the scale between two maps."""

import math

import pytest
import torch

from plueckernet.estimation.matching import Matches
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.similarity.scale_votes import vote_for_scales
from plueckernet.geometry import LineSet, Pose, Similarity


def scene(count: int = 60) -> LineSet:
    generator = torch.Generator().manual_seed(8)
    middle = 4 * torch.rand(count, 1, 3, generator=generator, dtype=torch.float64)
    axis = torch.eye(3, dtype=torch.float64)[torch.randint(3, (count,), generator=generator)]
    half = axis + 0.05 * torch.randn(count, 3, generator=generator, dtype=torch.float64)
    return LineSet.from_segments(torch.cat([middle - half[:, None], middle + half[:, None]], 1))


def matches(count: int, wrong: int) -> Matches:
    """The right matches, then wrong ones."""
    generator = torch.Generator().manual_seed(9)
    rows = torch.arange(count)
    others = torch.randint(count, (2, wrong), generator=generator)
    source, target = torch.cat([rows, others[0]]), torch.cat([rows, others[1]])
    return Matches(source, target, torch.ones(count + wrong).double())


@pytest.mark.parametrize("grown", [0.75, 1.0, 1.4])
def test_the_strongest_peak_is_the_scale_whatever_wrong_matches_say(grown: float) -> None:
    lines = scene()
    motion = Pose.random(generator=torch.Generator().manual_seed(1), translation=9.0)
    target = Similarity.from_pose(motion, grown) @ lines
    peaks = vote_for_scales(RegistrationSettings().normalize(lines, target), matches(60, 120), 3)
    assert abs(peaks[0].log_scale - math.log(grown)) < 0.01
    assert peaks[0].votes == 1
    assert all(peak.votes < 0.7 for peak in peaks[1:])


def test_infinite_lines_vote_too() -> None:
    lines = scene().infinite()
    target = Similarity.from_pose(Pose.identity(), 1.2) @ lines
    peaks = vote_for_scales(RegistrationSettings().normalize(lines, target), matches(60, 0), 1)
    assert abs(peaks[0].log_scale - math.log(1.2)) < 0.01


def test_lines_that_meet_in_a_point_say_nothing() -> None:
    directions = torch.nn.functional.normalize(torch.randn(5, 3, generator=torch.Generator().manual_seed(4)), dim=-1)
    star = LineSet.from_segments(torch.stack([-directions, 2 * directions], 1).double())
    assert vote_for_scales(RegistrationSettings().normalize(star, star), matches(5, 0), 2) == []
