"""The paper's pose estimation: exact without noise, proof against wrong matches, at a minimum of its own score."""

import pytest
import torch
from tests.estimation.lines_for_tests import errors, noisy

from plueckernet.errors import DegenerateError
from plueckernet.estimation.published import PublishedSettings, published_pose
from plueckernet.geometry import LineSet, Pose


def rows(wrong: int = 0, noise: float = 0.0) -> tuple[LineSet, LineSet, Pose]:
    """Directed lines matched row by row, the first ones wrongly."""
    generator = torch.Generator().manual_seed(0)
    points = (torch.rand(100, 3, generator=generator, dtype=torch.float64) - 0.5) * 10
    lines = LineSet.from_point_direction(points, torch.randn(100, 3, generator=generator, dtype=torch.float64))
    pose = Pose.random(generator=generator, translation=2.0)
    target = pose @ noisy(lines, noise, 20 * noise, generator)
    order = torch.arange(100)
    order[:wrong] = order[:wrong].roll(1)
    return lines, target[order].replaced(ids=None), pose


@pytest.mark.parametrize("wrong", [0, 60])
def test_without_noise_the_pose_is_exact(wrong):
    source, target, truth = rows(wrong)
    result = published_pose(source, target)
    assert max(errors(result.target_T_source, truth)) < 1e-9
    assert result.inliers[wrong:].all()


def test_the_result_minimises_the_score_over_its_inliers():
    source, target, truth = rows(noise=0.02)
    result = published_pose(source, target)
    assert max(errors(result.target_T_source, truth)) < 1.0

    def score(pose: Pose) -> float:
        off = target.pluecker() - (pose @ source).pluecker()
        return float(off[result.inliers].square().sum())

    best = score(result.target_T_source)
    for axis in range(6):
        for size in (-1e-3, 1e-3):
            nudge = Pose.exp(size * torch.eye(6, dtype=torch.float64)[axis])
            assert score(nudge @ result.target_T_source) > best


def test_the_seed_decides():
    source, target, _ = rows(noise=0.05)
    few = PublishedSettings(iterations=3, steps=0)
    first, again, other = (published_pose(source, target, few, seed).target_T_source.matrix() for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_parallel_lines_and_single_matches_fix_no_pose():
    points = torch.eye(3, dtype=torch.float64)
    parallel = LineSet.from_point_direction(points, points[:1].expand(3, 3))
    with pytest.raises(DegenerateError):
        published_pose(parallel, parallel)
    source, target, _ = rows()
    with pytest.raises(DegenerateError):
        published_pose(source[:1], target[:1])
