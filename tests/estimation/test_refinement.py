"""Refinement reaches the maximum of the likelihood, and its covariance tells how far off that is."""

import math

import pytest
import torch
from tests.estimation.lines_for_tests import errors, matched_lines

from plueckernet.data.protocols import AnyProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.estimation.refinement import close_pairs, refine_matches, refine_pose
from plueckernet.estimation.scoring import AnchoredLines, Tolerance, pair_residuals
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.residuals import NoiseModel, line_residuals, variances, whitened


def perturbed(pose: Pose, size: float, seed: int = 0) -> Pose:
    xi = size * torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Pose.exp(xi) @ pose


def test_exact_lines_give_the_exact_pose():
    source, target, pose, _ = matched_lines(position=0, degrees=0)
    found = refine_pose(perturbed(pose, 0.003), source, target, Tolerance(0.3, 0.1))
    assert found is not None
    assert found.converged
    assert errors(found.pose, pose)[0] < 1e-6
    assert torch.equal(found.matches[:, 0], found.matches[:, 1])


def test_gradient_of_the_likelihood_vanishes():
    source, target, pose, _ = matched_lines(count=80)
    found = refine_matches(pose, source, target, NoiseModel())
    rows = found.matches[:, 0]

    def cost(xi):
        moved = Pose.exp(xi) @ found.pose
        r = line_residuals(moved, source[rows].lines, target[rows].lines, source.anchor[rows], target.anchor[rows])
        noise = NoiseModel()
        sigma = noise.sigmas(source[rows].lines), noise.sigmas(target[rows].lines)
        value, _ = whitened(r, *variances(r, *sigma))
        return value.square().sum() / 2

    at = torch.zeros(6, dtype=torch.float64)
    gradient = torch.autograd.functional.jacobian(cost, at)
    # In standard deviations; what is left is the lever's change, which Gauss-Newton leaves out.
    step = found.covariance @ gradient
    assert float((step / found.covariance.diagonal().sqrt()).abs().max()) < 0.15


def test_wrong_matches_are_gated_out():
    source, target, pose, bad = matched_lines(wrong=0.5)
    found = refine_matches(perturbed(pose, 0.01), source, target, NoiseModel())
    assert int((found.matches[:, 0] < bad).sum()) <= 2
    assert int((found.matches[:, 0] >= bad).sum()) >= 85


def test_covariance_is_honest():
    nees = []
    for seed in range(60):
        source, target, pose, _ = matched_lines(count=60, seed=seed)
        found = refine_pose(pose, source, target, Tolerance(0.6, 0.15))
        xi = (pose @ found.pose.inverse()).log()
        nees.append(float(xi @ torch.linalg.solve(found.covariance, xi)))
    assert 4.8 < sum(nees) / len(nees) < 7.4  # 6, give or take three standard errors of 60 pairs


def test_noise_is_estimated():
    source, target, pose, _ = matched_lines(count=400, position=0.03, degrees=1.0)
    found = refine_pose(pose, source, target, Tolerance(0.6, 0.15))
    assert found.noise.position == pytest.approx(0.03, rel=0.25)
    assert found.noise.direction == pytest.approx(math.radians(1.0) / math.sqrt(3), rel=0.25)


def test_noise_is_estimated_among_parallel_rivals_too():
    """As in a house, where most wrong pairs of lines are parallel, and where a third of the lines has no partner."""
    estimates = []
    for seed in range(8):
        scene = make_scene("indoor", 9_000 + seed)
        pair = sample_pair(scene, AnyProtocol(keep=0.7), seed)
        there = pair.target_T_source.act(scene.centre()[None])[0]
        source, target = AnchoredLines.of(pair.source, scene.centre()), AnchoredLines.of(pair.target, there)
        found = refine_pose(pair.target_T_source, source, target, Tolerance(0.3, 0.14))
        estimates.append((found.noise.position, found.noise.direction))
    position, direction = torch.tensor(estimates, dtype=torch.float64).median(0).values.tolist()
    assert position == pytest.approx(NoiseModel().position, rel=0.08)
    assert direction == pytest.approx(NoiseModel().direction, rel=0.12)  # four fifths if pairs far off were lost


def test_swapped_maps_give_the_inverse():
    source, target, pose, _ = matched_lines(count=100)
    there = refine_pose(pose, source, target, Tolerance(0.6, 0.15))
    back = refine_pose(pose.inverse(), target, source, Tolerance(0.6, 0.15))
    turn, shift = errors(there.pose, back.pose.inverse())
    assert turn < 0.02
    assert shift < 0.005


def test_close_pairs_in_slabs_are_those_of_all_pairs():
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(900, 1, 3, generator=generator, dtype=torch.float64) * 40
    ends = torch.cat([start, start + torch.randn(900, 1, 3, generator=generator, dtype=torch.float64)], 1)
    lines = LineSet.from_segments(ends)
    shaken = LineSet.from_segments(ends + 0.02 * torch.randn(900, 2, 3, generator=generator, dtype=torch.float64))
    source, target, tolerance = AnchoredLines.of(lines), AnchoredLines.of(shaken), Tolerance(0.2, 0.2)
    fast = close_pairs(Pose.identity(), source, target, tolerance).rows
    every = (pair_residuals(Pose.identity(1), source, target, tolerance)[0] < 1).nonzero()
    assert {tuple(row) for row in fast.tolist()} == {tuple(row) for row in every.tolist()}
    assert len(fast) > 700


def test_rivals_take_from_what_is_known():
    source, target, pose, _ = matched_lines(count=60)
    alone = refine_pose(pose, source, target, Tolerance(0.6, 0.15), NoiseModel())
    rows = torch.cat([torch.arange(60), torch.arange(30)])  # half of the target's lines are there twice
    rivalled = refine_pose(pose, source, target[rows], Tolerance(0.6, 0.15), NoiseModel())
    assert float(rivalled.covariance.diagonal().sum()) > 1.05 * float(alone.covariance.diagonal().sum())


def test_maps_apart_give_nothing():
    source, target, pose, _ = matched_lines(count=20)
    away = Pose(pose.rotation, pose.translation + 1000)
    assert refine_pose(away, source, target, Tolerance()) is None


def test_few_lines_are_not_given_up_where_some_agree_by_chance():
    """The noise then looks small, and the others too far off to be left."""
    given_up = 0
    for seed in range(40):
        source, target, pose, _ = matched_lines(count=5, seed=seed)
        given_up += refine_pose(pose, source, target, Tolerance(0.3, 0.14)) is None
    assert given_up <= 2


def test_too_little_to_go_by():
    source, target, pose, _ = matched_lines(count=2)
    assert refine_pose(pose, source, target, Tolerance()) is None
    points = torch.randn(10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    up = LineSet.from_point_direction(points, torch.tensor([[0.0, 0, 1]], dtype=torch.float64).expand(10, 3))
    assert refine_pose(Pose.identity(), AnchoredLines.of(up), AnchoredLines.of(up), Tolerance()) is None
