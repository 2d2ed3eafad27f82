"""Refinement reaches the maximum of the likelihood, and its covariance tells how far off that is."""

import math

import pytest
import torch
from tests.estimation.lines_for_tests import errors, matched_lines, noisy

from plueckernet.data.protocols import AnyProtocol, ScanProtocol, sample_pair
from plueckernet.data.scan import Survey
from plueckernet.data.scenes import make_scene
from plueckernet.estimation.close_pairs import NearbyPairs, close_pairs
from plueckernet.estimation.match_refinement import refine_matches
from plueckernet.estimation.noise import KnownNoise
from plueckernet.estimation.paired_lines import LineColumns, PairedLines, PoseArrays
from plueckernet.estimation.refinement import RefinedCandidate, Refinement, refine_candidates, refine_pose
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.residuals import NoiseModel, line_residuals, variances, whitened

KNOWN = KnownNoise(NoiseModel().position, NoiseModel().direction)


def perturbed(pose: Pose, size: float, seed: int = 0) -> Pose:
    xi = size * torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Pose.exp(xi) @ pose


def test_exact_lines_give_the_exact_pose():
    source, target, pose, _ = matched_lines(position=0, degrees=0)
    refined = refine_pose(perturbed(pose, 0.003), source, target, InlierThreshold(0.3, 0.1))
    assert refined is not None
    assert refined.converged
    assert errors(refined.pose, pose)[0] < 1e-6
    assert torch.equal(refined.matches[:, 0], refined.matches[:, 1])


def test_gradient_of_the_likelihood_vanishes():
    source, target, pose, _ = matched_lines(count=80)
    refined = refine_matches(pose, source, target, NoiseModel())
    rows = refined.matches[:, 0]

    def cost(xi):
        moved = Pose.exp(xi) @ refined.pose
        r = line_residuals(moved, source[rows].lines, target[rows].lines, source.anchor[rows], target.anchor[rows])
        noise = NoiseModel()
        sigma = noise.sigmas(source[rows].lines), noise.sigmas(target[rows].lines)
        value, _ = whitened(r, *variances(r, *sigma))
        return value.square().sum() / 2

    at = torch.zeros(6, dtype=torch.float64)
    gradient = torch.autograd.functional.jacobian(cost, at)
    # In standard deviations; what is left is the lever's change, which Gauss-Newton leaves out.
    step = refined.covariance @ gradient
    assert float((step / refined.covariance.diagonal().sqrt()).abs().max()) < 0.15


@pytest.mark.parametrize("endpoint", [0.0, 0.02])
def test_arrays_of_pairs_have_the_residuals_of_tensors(endpoint):
    source, target = shaken_segments()
    pose, noise = perturbed(Pose.identity(), 0.1), NoiseModel(endpoint=endpoint)
    residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
    gain, shift, turn = variances(residuals, source.sigmas(noise), target.sigmas(noise))
    value, jacobian = whitened(residuals, gain, shift, turn)
    lines = PairedLines(LineColumns.of(source), LineColumns.of(target))
    arrays = lines.residuals(PoseArrays.of(pose))
    design, variance = arrays.design(lines.source.variances(noise), lines.target.variances(noise))
    expected = torch.cat([jacobian, value[..., None]], -1).permute(2, 1, 0)
    assert torch.allclose(torch.from_numpy(design), expected, rtol=1e-10, atol=1e-9)
    assert torch.allclose(torch.from_numpy(variance), shift, rtol=1e-12)
    assert torch.allclose(torch.from_numpy(arrays.position), residuals.position.mT, atol=1e-12)


@pytest.mark.parametrize("size", [1e-6, 0.3])
def test_a_pose_of_arrays_steps_and_turns_like_a_pose(size):
    pose, xi = Pose.random(generator=torch.Generator().manual_seed(0)), size * torch.linspace(-1, 1, 6).double()
    stepped = Pose.exp(xi) @ pose
    arrays = PoseArrays.of(pose).stepped(xi.numpy())
    assert torch.allclose(arrays.pose(like=pose).matrix(), stepped.matrix(), atol=1e-14)
    assert arrays.angle_to(PoseArrays.of(pose)) == pytest.approx(float(stepped.angle_to(pose)), rel=1e-6)


def test_wrong_matches_are_gated_out():
    source, target, pose, bad = matched_lines(wrong=0.5)
    refined = refine_matches(perturbed(pose, 0.01), source, target, NoiseModel())
    assert int((refined.matches[:, 0] < bad).sum()) <= 2
    assert int((refined.matches[:, 0] >= bad).sum()) >= 85


def test_covariance_is_honest():
    nees = []
    for seed in range(60):
        source, target, pose, _ = matched_lines(count=60, seed=seed)
        refined = refine_pose(pose, source, target, InlierThreshold(0.6, 0.15))
        xi = (pose @ refined.pose.inverse()).log()
        nees.append(float(xi @ torch.linalg.solve(refined.covariance, xi)))
    assert 4.8 < sum(nees) / len(nees) < 7.4  # 6, give or take three standard errors of 60 pairs


def test_noise_is_estimated():
    source, target, pose, _ = matched_lines(count=400, position=0.03, degrees=1.0)
    refined = refine_pose(pose, source, target, InlierThreshold(0.6, 0.15))
    assert refined.noise.position == pytest.approx(0.03, rel=0.25)
    assert refined.noise.direction == pytest.approx(math.radians(1.0) / math.sqrt(3), rel=0.25)


def test_noise_is_estimated_among_parallel_competitors():
    """As in a house, where most wrong pairs of lines are parallel, and where a third of the lines has no partner."""
    estimates = []
    for seed in range(8):
        scene = make_scene("indoor", 9_000 + seed)
        pair = sample_pair(scene, AnyProtocol(keep=0.7), seed)
        there = pair.target_T_source.act(scene.centre()[None])[0]
        source, target = AnchoredLines.of(pair.source, scene.centre()), AnchoredLines.of(pair.target, there)
        refined = refine_pose(pair.target_T_source, source, target, InlierThreshold(0.3, 0.14))
        estimates.append((refined.noise.position, refined.noise.direction))
    position, direction = torch.tensor(estimates, dtype=torch.float64).median(0).values.tolist()
    assert position == pytest.approx(NoiseModel().position, rel=0.08)
    assert direction == pytest.approx(NoiseModel().direction, rel=0.12)  # four fifths if distant pairs were lost


@pytest.mark.parametrize(("kind", "overlap", "seed"), [("room", 0.3, 11), ("indoor", 0.15, 10)])
def test_noise_does_not_shrink_to_a_few_lines_that_agree_by_chance(kind, overlap, seed):
    pair = sample_pair(make_scene(kind, seed), ScanProtocol(overlap=overlap, survey=Survey(missing=0.2)), seed)
    maps = RegistrationSettings().normalize(pair.source, pair.target)
    truth = maps.normalized_pose(pair.target_T_source)
    refinement = refine_pose(truth, maps.source, maps.target, maps.threshold)
    assert len(refinement.matches) > 0.55 * len(pair.matches)
    assert 0.025 < refinement.noise.position * maps.unit < 0.055  # m; of a line of 1 m it is 0.04


def test_swapped_maps_give_the_inverse():
    source, target, pose, _ = matched_lines(count=100)
    there = refine_pose(pose, source, target, InlierThreshold(0.6, 0.15))
    back = refine_pose(pose.inverse(), target, source, InlierThreshold(0.6, 0.15))
    turn, shift = errors(there.pose, back.pose.inverse())
    assert turn < 0.02
    assert shift < 0.005


def shaken_segments():
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(900, 1, 3, generator=generator, dtype=torch.float64) * 40
    ends = torch.cat([start, start + torch.randn(900, 1, 3, generator=generator, dtype=torch.float64)], 1)
    shaken = ends + 0.02 * torch.randn(900, 2, 3, generator=generator, dtype=torch.float64)
    return AnchoredLines.of(LineSet.from_segments(ends)), AnchoredLines.of(LineSet.from_segments(shaken))


def row_set(rows):
    return {tuple(row) for row in rows.tolist()}


def test_close_pairs_in_slabs_are_those_of_all_pairs():
    (source, target), threshold = shaken_segments(), InlierThreshold(0.2, 0.2)
    fast = close_pairs(Pose.identity(), source, target, threshold).rows
    every = (pair_residuals(Pose.identity(1), source, target, threshold)[0] < 1).nonzero()
    assert row_set(fast) == row_set(every)
    assert len(fast) > 700


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_nearby_pairs_are_those_of_all_pairs_while_pose_and_threshold_change(directed, infinite, monkeypatch):
    source, target = shaken_segments()
    if infinite:
        source, target = (AnchoredLines.of(side.lines.replaced(endpoints=None)) for side in (source, target))
    compared = []

    def counted(*arguments):
        compared.append(arguments)
        return close_pairs(*arguments)

    monkeypatch.setattr("plueckernet.estimation.close_pairs.close_pairs", counted)
    nearby = NearbyPairs(source, target)
    for size, distance, slope in (
        (0.0, 0.2, 0.0),
        (5e-4, 0.15, 0.1),
        (1e-3, 0.1, 0.05),
        (1.0, 0.2, 0.0),
        (1.0003, 0.1, 0.0),
    ):
        pose, threshold = perturbed(Pose.identity(), size), InlierThreshold(distance, 0.15, directed, slope)
        square = pair_residuals(Pose(pose.rotation[None], pose.translation[None]), source, target, threshold)[0]
        rows = row_set(nearby.within(PoseArrays.of(pose), threshold)[0].rows)
        assert row_set((square < 0.999).nonzero()) <= rows <= row_set((square < 1.001).nonzero())  # float32 rounds
    assert len(compared) == 2  # at the beginning, and after the pose has moved far


def test_competing_lines_reduce_the_information():
    source, target, pose, _ = matched_lines(count=60)
    single = refine_pose(pose, source, target, InlierThreshold(0.6, 0.15), KNOWN)
    rows = torch.cat([torch.arange(60), torch.arange(30)])  # half of the target's lines are there twice
    competing = refine_pose(pose, source, target[rows], InlierThreshold(0.6, 0.15), KNOWN)
    assert float(competing.covariance.diagonal().sum()) > 1.05 * float(single.covariance.diagonal().sum())


def test_maps_apart_give_nothing():
    source, target, pose, _ = matched_lines(count=20)
    away = Pose(pose.rotation, pose.translation + 1000)
    assert refine_pose(away, source, target, InlierThreshold()) is None


def test_few_lines_are_not_given_up_where_some_agree_by_chance():
    """The noise then looks small, and the others too far off to be left."""
    given_up = 0
    for seed in range(40):
        source, target, pose, _ = matched_lines(count=5, seed=seed)
        given_up += refine_pose(pose, source, target, InlierThreshold(0.3, 0.14)) is None
    assert given_up <= 2


def test_too_little_to_go_by():
    source, target, pose, _ = matched_lines(count=2)
    assert refine_pose(pose, source, target, InlierThreshold()) is None


def test_parallel_lines_determine_the_pose_but_for_the_shift_along_them():
    points = torch.randn(10, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    up = LineSet.from_point_direction(points, torch.tensor([[0.0, 0, 1]], dtype=torch.float64).expand(10, 3))
    start = Pose.exp(torch.tensor([0.01, -0.02, 0.01, 0.02, 0.01, 0.3], dtype=torch.float64))
    refined = refine_pose(start, AnchoredLines.of(up), AnchoredLines.of(up), InlierThreshold())
    assert refined is not None
    assert float(refined.pose.angle_to(Pose.identity())) < 1e-6
    assert refined.pose.translation.tolist() == pytest.approx([0, 0, 0.3], abs=0.01)
    sigma = refined.covariance.diagonal().sqrt()
    assert float(sigma[5]) > 10
    assert float(sigma[:5].max()) < 1e-3


def test_lines_that_are_parallel_to_the_last_digit_do_not_shut_out_the_others():
    """Some programs make walls exactly upright; only the directions of other lines are noisy."""
    generator = torch.Generator().manual_seed(0)
    up = torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64).expand(60, 3)
    directions = torch.cat([up, torch.randn(20, 3, generator=generator, dtype=torch.float64)])
    points = torch.rand(80, 3, generator=generator, dtype=torch.float64) - 0.5
    lines = LineSet.from_point_direction(points, directions)
    turned = torch.cat([up, noisy(lines, 0.0, 0.5, generator).direction[60:]])
    target = LineSet.from_point_direction(noisy(lines, 0.01, 0.0, generator).footpoints(), turned)
    refined = refine_pose(
        Pose.identity(), AnchoredLines.of(lines), AnchoredLines.of(target), InlierThreshold(0.1, 0.14)
    )
    assert (refined.matches[:, 0] == refined.matches[:, 1]).sum() > 70
    assert errors(refined.pose, Pose.identity())[1] < 0.01


@pytest.mark.parametrize(
    "known", [KnownNoise(position=0.04), KnownNoise(direction=0.02)], ids=["position", "direction"]
)
def test_a_known_part_of_the_noise_is_kept_and_the_rest_estimated(known):
    source, target, pose, _ = matched_lines(count=400, position=0.03, degrees=1.0)
    noise = refine_pose(pose, source, target, InlierThreshold(0.6, 0.15), known).noise
    if known.position is not None:
        assert noise.position == known.position
        assert noise.direction == pytest.approx(math.radians(1.0) / math.sqrt(3), rel=0.3)
    else:
        assert noise.direction == known.direction
        assert noise.position == pytest.approx(0.03, rel=0.3)


@pytest.mark.parametrize(("score", "count"), [(1.0, 2), (1e3, 1)])
def test_a_candidate_beside_a_refined_one_is_refined_if_it_explains_clearly_more(score, count):
    pair = sample_pair(make_scene("indoor", 11), ScanProtocol(overlap=0.6), 11)
    maps = RegistrationSettings().normalize(pair.source, pair.target)
    right = maps.normalized_pose(pair.target_T_source)
    aside = torch.tensor([1.5 * maps.threshold.distance, 0.0, 0.0], dtype=torch.float64)
    beside = Pose(right.rotation, right.translation + aside)
    nothing = torch.eye(6, dtype=torch.float64), torch.zeros(0, 2, dtype=torch.int64), NoiseModel(), True
    earlier = RefinedCandidate(score, 1.0, 0.0, Refinement(beside, *nothing))
    scorer = MapScorer(maps.source, maps.target, maps.threshold)
    refined = refine_candidates([right], maps, scorer, earlier=[earlier])
    assert len(refined) == count
    assert (refined[0] is earlier) == (count == 1)
