"""The noise of each line, where it is known, decides how much the line counts."""

import pytest
import torch
from tests.estimation.lines_for_tests import errors

from plueckernet import register
from plueckernet.estimation.maps import normalize_maps
from plueckernet.estimation.refinement import Refinement, refine_pose
from plueckernet.geometry import LineSet, Pose, Similarity

SIGMA = 0.004  # of a good line, in the unit of the map


def noisy_pair(seed: int, count: int = 80, ratio: float = 10.0) -> tuple[LineSet, LineSet, Pose]:
    """Two maps of one place; four of five lines of the source are worse than the fifth by the ratio."""
    generator = torch.Generator().manual_seed(seed)
    middle = 4 * torch.rand(count, 1, 3, generator=generator, dtype=torch.float64) - 2
    half = 0.5 * torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)
    ends = torch.cat([middle - half, middle + half], 1)
    sigma = torch.full((count,), SIGMA, dtype=torch.float64)
    sigma[torch.arange(count) % 5 > 0] *= ratio
    pose = Pose.random(generator=generator)
    errors_of_ends = torch.randn(2, count, 2, 3, generator=generator, dtype=torch.float64)
    source = LineSet.from_segments(ends + sigma[:, None, None] * errors_of_ends[0], sigma=sigma)
    target = LineSet.from_segments(ends + SIGMA * errors_of_ends[1], sigma=torch.full_like(sigma, SIGMA))
    return source, pose @ target, pose


def refined(source: LineSet, target: LineSet, pose: Pose) -> tuple[Refinement, Pose]:
    """The refinement from the true pose, and the true pose in its frame."""
    maps = normalize_maps(source, target, max_lines=1000, inlier_distance=0.3, inlier_angle=0.3)
    truth = maps.normalized_pose(pose)
    refinement = refine_pose(truth, maps.source, maps.target, maps.threshold)
    assert refinement is not None
    return refinement, truth


def without_sigma(lines: LineSet) -> LineSet:
    return lines.replaced(sigma=None)


def test_lines_of_ten_times_the_noise_count_less():
    known, unknown = [], []
    for seed in range(20):
        source, target, pose = noisy_pair(seed)
        for sides, gathered in (((source, target), known), ((without_sigma(source), without_sigma(target)), unknown)):
            refinement, truth = refined(*sides, pose)
            gathered.append(errors(refinement.pose, truth)[1])
    assert sum(known) < 0.6 * sum(unknown)


def test_the_covariance_is_that_of_a_monte_carlo():
    nees, predicted, deviations = [], [], []
    for seed in range(60):
        refinement, truth = refined(*noisy_pair(seed))
        xi = (truth @ refinement.pose.inverse()).log()
        nees.append(float(xi @ torch.linalg.solve(refinement.covariance, xi)))
        predicted.append(refinement.covariance.trace())
        deviations.append(xi.square().sum())
    assert 4.6 < sum(nees) / len(nees) < 7.6
    assert float(sum(deviations) / sum(predicted)) == pytest.approx(1, abs=0.35)


def test_only_ratios_matter_because_the_common_noise_is_estimated():
    source, target, pose = noisy_pair(0)
    plain, _ = refined(source, target, pose)
    scaled, _ = refined(source.replaced(sigma=7 * source.sigma), target.replaced(sigma=7 * target.sigma), pose)
    torch.testing.assert_close(scaled.pose.matrix(), plain.pose.matrix())
    torch.testing.assert_close(scaled.covariance, plain.covariance)


def test_equal_sigmas_change_nothing():
    source, target, pose = noisy_pair(1, ratio=1.0)
    plain, _ = refined(without_sigma(source), without_sigma(target), pose)
    equal, _ = refined(source, target, pose)
    torch.testing.assert_close(equal.pose.matrix(), plain.pose.matrix())
    torch.testing.assert_close(equal.covariance, plain.covariance)


def test_sigmas_of_one_map_are_used():
    source, target, pose = noisy_pair(2)
    plain, truth = refined(without_sigma(source), without_sigma(target), pose)
    weighted, _ = refined(source, without_sigma(target), pose)
    assert weighted.covariance.trace() < 0.8 * plain.covariance.trace()
    assert errors(weighted.pose, truth)[1] < errors(plain.pose, truth)[1]


def test_register_uses_them():
    source, target, pose = noisy_pair(3, count=120)
    weighted = register(source, target, matcher="descriptors")
    plain = register(without_sigma(source), without_sigma(target), matcher="descriptors")
    assert weighted.ok
    assert plain.ok
    assert weighted.sigmas()[1] < 0.7 * plain.sigmas()[1]
    assert errors(weighted.target_T_source, pose)[1] < 3 * weighted.sigmas()[1]


def test_the_factor_stays_with_its_line():
    source, target, _ = noisy_pair(4)
    maps = normalize_maps(source, target, max_lines=30, inlier_distance=None, inlier_angle=0.1)
    factor = maps.all_source.noise_factor
    assert factor is not None
    torch.testing.assert_close(maps.source.noise_factor, factor[maps.source_core])
    torch.testing.assert_close(factor[1::5], 10 * factor[::5])
    single = maps.source[torch.tensor([3])]
    torch.testing.assert_close(single.to(torch.float32).noise_factor, single.noise_factor.float())


def test_an_absurd_sigma_is_limited():
    source, target, _ = noisy_pair(5)
    sigma = source.sigma.clone()
    sigma[0], sigma[1] = 1e9, 1e-12
    maps = normalize_maps(source.replaced(sigma=sigma), target, max_lines=100, inlier_distance=None, inlier_angle=0.1)
    assert maps.all_source.noise_factor[:2].tolist() == [20.0, 0.05]
    assert float(maps.all_source.noise_factor[2:].max()) < 3


def test_a_similarity_scales_the_noise():
    source, _, pose = noisy_pair(6)
    assert torch.equal((pose @ source).sigma, source.sigma)
    torch.testing.assert_close((Similarity.from_pose(pose, 4.0) @ source).sigma, 4 * source.sigma)
