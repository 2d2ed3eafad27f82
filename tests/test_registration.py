"""Registration finds the motion wherever the maps lie and however they are written, and says when it cannot."""

import math
from functools import partial

import pytest
import torch
from tests.estimation.lines_for_tests import errors

import plueckernet as pn
from plueckernet.coincidence import CoincidenceFinder, coincident_lines
from plueckernet.data.noise import Noise
from plueckernet.data.protocols import AnyProtocol, PaperProtocol, ScanProtocol, sample_pair, unrelated_pair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError, WorkerLostError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.evaluation.repetition import symmetric
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.parallel import TaskOutcome
from plueckernet.registration import refine, register, register_many
from plueckernet.stages import STAGES

SCAN = ScanProtocol(overlap=0.6)


def house(seed: int = 7, protocol=SCAN):
    return sample_pair(make_scene("indoor", seed), protocol, seed)


@pytest.mark.parametrize("protocol", [SCAN, AnyProtocol(), AnyProtocol(segments=True)], ids=["scan", "any", "segments"])
def test_any_rotation_is_recovered(protocol):
    pair = house(protocol=protocol)
    result = register(pair.source, pair.target)
    assert result.status is pn.Status.SUCCESS
    turn, shift = errors(result.target_T_source, pair.target_T_source)
    assert turn < 1
    assert shift < 0.15
    true = {tuple(row) for row in pair.matches.tolist()}
    hits = sum(tuple(row) in true for row in result.inliers.tolist())
    assert hits > 0.6 * len(result.inliers)


def test_same_input_same_output():
    pair = house()
    first, second = (register(pair.source, pair.target, seed=5).to_dict() for _ in range(2))
    first.pop("timings"), second.pop("timings")
    assert first == second


def test_what_is_found_can_be_differentiated_through():
    pair = house()
    result = register(pair.source, pair.target, matcher="descriptors")
    points = pair.source.midpoints().requires_grad_()
    moved = result.target_T_source.act(points)[result.inliers[:, 0]]
    (moved @ result.covariance[3:, 3:]).sum().backward()
    assert points.grad.abs().sum() > 0


def test_writing_lines_the_other_way_round_changes_nothing():
    pair = house()
    flips = torch.rand(len(pair.source), generator=torch.Generator().manual_seed(0)) < 0.5
    first = register(pair.source, pair.target).target_T_source
    second = register(pair.source.flipped(flips), pair.target).target_T_source
    torch.testing.assert_close(first.matrix(), second.matrix(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("factor", [0.001, 1000.0])
def test_any_unit(factor):
    pair = house()
    plain = register(pair.source, pair.target)
    grow = Similarity.from_pose(Pose.identity(), factor)
    scaled = register(grow @ pair.source, grow @ pair.target)
    torch.testing.assert_close(scaled.target_T_source.rotation, plain.target_T_source.rotation, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        scaled.target_T_source.translation / factor, plain.target_T_source.translation, atol=1e-5, rtol=0
    )
    assert scaled.status is plain.status
    assert len(scaled.inliers) == len(plain.inliers)


@pytest.mark.parametrize("infinite", [False, True])
def test_anywhere_in_space(infinite):
    pair = house(protocol=AnyProtocol() if infinite else SCAN)
    offset = torch.tensor([1e6, -1e6, 1e6], dtype=torch.float64)
    plain = register(pair.source, pair.target).target_T_source
    moved = register(pair.source.shifted(-offset), pair.target.shifted(offset)).target_T_source
    point = pair.source.centre()
    back = moved.act((point + offset)[None])[0] + offset
    torch.testing.assert_close(back, plain.act(point[None])[0], atol=1e-4, rtol=0)


def test_moved_source_moves_the_answer():
    pair = house()
    motion = Pose.random(generator=torch.Generator().manual_seed(2), translation=30.0)
    first = register(pair.source, pair.target).target_T_source
    second = register(motion @ pair.source, pair.target).target_T_source
    turn, shift = errors(second @ motion, first)
    assert turn < 1e-3
    assert shift < 1e-3


def test_swapped_maps_give_the_inverse():
    pair = house()
    there = register(pair.source, pair.target).target_T_source
    back = register(pair.target, pair.source).target_T_source
    turn, shift = errors(back.inverse(), there)
    assert turn < 0.2
    assert shift < 0.05


def test_unrelated_maps_have_no_pose():
    source, target = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), SCAN, 0)
    result = register(source, target)
    assert result.status is pn.Status.FAILED
    assert result.target_T_source is None
    assert result.covariance is None
    assert result.reason
    assert result.alternatives  # what came closest can still be looked at


def test_a_symmetric_map_is_ambiguous():
    corner = torch.tensor([[0.0, 0, 0], [4, 0, 0], [4, 4, 0], [0, 4, 0]], dtype=torch.float64)
    up = torch.tensor([0.0, 0, 3.0], dtype=torch.float64)
    ring = torch.stack([corner, corner.roll(-1, 0)], 1)
    box = LineSet.from_segments(torch.cat([ring, ring + up, torch.stack([corner, corner + up], 1)]))
    pose = Pose.random(generator=torch.Generator().manual_seed(0), translation=3.0)
    result = register(box, pose @ box)
    assert result.status is not pn.Status.SUCCESS
    assert len(result.alternatives) >= 1


def test_a_piece_of_a_field_of_equal_poles_is_ambiguous():
    """A shift by one pole explains nearly as much, which made the right pose doubtful."""
    pair = symmetric("pole field", torch.Generator().manual_seed(1002))
    result = register(pair.source, pair.target)
    assert result.status is pn.Status.AMBIGUOUS
    assert result.exchangeable > 10
    assert result.unobservable
    assert max(other.confidence for other in result.alternatives) <= result.confidence


@pytest.mark.parametrize(("seed", "status"), [(8_000_013, pn.Status.FAILED), (8_000_001, pn.Status.AMBIGUOUS)])
def test_noisy_maps_are_registered_with_a_wider_threshold(seed, status):
    noise = Noise(position=0.1, position_limit=None, direction=5.0, direction_limit=None)
    pair = sample_pair(make_scene("outdoor", seed), PaperProtocol(noise=noise), 1)
    result = register(pair.source, pair.target)
    assert result.status is pn.Status.SUCCESS
    assert result.settings["inlier_angle"] == 16
    assert errors(result.target_T_source, pair.target_T_source) < (2.0, 0.3)
    narrow = register(pair.source, pair.target, settings=RegistrationSettings(coarser=1.0))
    assert narrow.status is status
    given = RegistrationSettings(inlier_distance=narrow.settings["inlier_distance"])  # is not widened
    assert register(pair.source, pair.target, settings=given).status is status


def test_covariance_moves_with_its_point():
    pair = house()
    result = register(pair.source, pair.target)
    point = torch.tensor([100.0, 0, 0], dtype=torch.float64)
    at = result.covariance_at(point)
    torch.testing.assert_close(at[:3, :3], result.covariance[:3, :3])
    normal = torch.randn(6, 20_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    xi = torch.linalg.cholesky(result.covariance) @ normal
    displaced = xi[3:] + torch.linalg.cross(xi[:3], point[:, None].expand(3, 20_000), dim=0)
    torch.testing.assert_close(displaced @ displaced.mT / 20_000, at[3:, 3:], rtol=0.1, atol=1e-6)


def test_sigma_in_words_is_small_and_positive():
    turn, shift = register(house().source, house().target).sigmas()
    assert 0 < turn < 1
    assert 0 < shift < 0.1


def test_a_given_matcher_is_asked():
    pair = house(protocol=AnyProtocol())
    asked = []

    def matcher(source, target):
        asked.append((len(source), len(target)))
        truth = torch.full((len(source), len(target)), -20.0)
        truth[pair.matches[:, 0], pair.matches[:, 1]] = 0.0
        return truth

    result = register(pair.source, pair.target, matcher=matcher)
    assert asked == [(len(pair.source), len(pair.target))]
    assert errors(result.target_T_source, pair.target_T_source)[0] < 1


@pytest.mark.parametrize("processes", [1, 2])
def test_many_pairs_give_what_single_pairs_give(processes):
    pairs = [house(seed) for seed in (3, 4)]
    maps = [(pair.source, pair.target) for pair in pairs]
    maps.insert(1, (pairs[0].source[:2], pairs[0].target))
    seen = []
    options = {"processes": processes, "threads": 1, "on_progress": seen.append}
    first, failed, last = register_many(maps, matcher="descriptors", seed=7, **options)
    assert seen == [1, 2, 3]
    for result, pair in ((first, pairs[0]), (last, pairs[1])):
        single = register(pair.source, pair.target, matcher="descriptors", seed=7)
        assert torch.equal(result.target_T_source.matrix(), single.target_T_source.matrix())
        assert torch.equal(result.inliers, single.inliers)
    assert failed.status is pn.Status.FAILED
    assert "at least three" in failed.reason
    assert failed.to_dict()["num_lines"]


def test_a_pair_that_kills_its_process_is_a_failed_result():
    class LosingExecutor:
        def run(self, function, tasks):
            yield from (TaskOutcome(place, error=WorkerLostError("was killed", 3)) for place, _ in enumerate(tasks))

    threads = torch.get_num_threads()
    (result,) = register_many([([], [])], processes=LosingExecutor(), matcher="descriptors")
    assert not result
    assert "was killed, 3 times" in result.reason
    assert torch.get_num_threads() == threads


def test_the_papers_weights_see_the_maps_in_their_original_frames():
    pair = sample_pair(make_scene("indoor", 41), PaperProtocol(), 41)
    settings = RegistrationSettings(directed=True)
    result = register(pair.source, pair.target, matcher="pluecker-indoor", settings=settings)
    turn, shift = errors(result.target_T_source, pair.target_T_source)
    assert turn < 1
    assert shift < 0.1
    true = {tuple(row) for row in pair.matches.tolist()}
    right = [tuple(row) in true for row in result.matches[:50].tolist()]
    assert sum(right) > 25, "shown centred and scaled maps, the network knows nothing"


def test_exact_drawings_of_many_parallel_lines_are_refined():
    """Where even wrong pairs are exactly parallel, the noise must not fall faster than the pose gets better."""
    houses = [make_scene("indoor", seed).endpoints + 25.0 * seed for seed in range(4)]
    whole, generator = LineSet.from_segments(torch.cat(houses)), torch.Generator().manual_seed(0)
    pose = Pose.random(generator=generator, translation=50.0)
    rows = [torch.randperm(len(whole), generator=generator)[: 2 * len(whole) // 3] for _ in range(2)]
    result = refine(whole[rows[0]], (pose @ whole)[rows[1]], pose, matcher="descriptors")
    common = len(set(rows[0].tolist()) & set(rows[1].tolist()))
    assert len(result.inliers) > 0.9 * common
    assert max(errors(result.target_T_source, pose)) < 1e-6


def test_weights_that_do_not_match_lines_are_refused():
    pair = house()
    with pytest.raises(InputError, match="do not match lines"):
        register(pair.source, pair.target, matcher="regression-indoor")


def test_stages_are_told_in_order():
    pair, told = house(), []
    result = register(pair.source, pair.target, on_stage=told.append)
    assert tuple(told) == STAGES == tuple(result.timings)


def test_known_noise_is_used():
    pair = house(protocol=AnyProtocol())
    settings = RegistrationSettings(position_noise=0.05, direction_noise=2 / math.sqrt(3))
    result = register(pair.source, pair.target, settings=settings)
    assert result.noise == pytest.approx((0.05, 2 / math.sqrt(3)))
    position_only = register(pair.source, pair.target, settings=RegistrationSettings(position_noise=0.05))
    assert position_only.noise[0] == pytest.approx(0.05)
    assert position_only.noise[1] == pytest.approx(2 / math.sqrt(3), rel=0.3)  # estimated


def test_five_lines_suffice_if_they_have_no_ends():
    generator = torch.Generator().manual_seed(0)
    source = LineSet.from_segments(4 * torch.rand(5, 2, 3, generator=generator, dtype=torch.float64))
    truth = Pose.random(generator=generator)
    target = truth @ source
    assert not register(source, target)
    result = register(source.infinite(), target.infinite())
    assert result
    assert result.rigid_pose.angle_to(truth).rad2deg() < 0.1


@pytest.mark.parametrize("count", [0, 2])
def test_too_few_lines_are_refused(count):
    pair = house()
    with pytest.raises(pn.InputError, match="at least three"):
        register(pair.source[torch.arange(count)], pair.target)


def test_lines_through_one_point_are_refused():
    directions = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    star = LineSet.from_point_direction(torch.zeros(5, 3, dtype=torch.float64), directions)
    with pytest.raises(pn.InputError, match="one point"):
        register(star, star)


def test_a_pose_by_hand_is_refined_to_the_same_answer():
    pair = house()
    result = register(pair.source, pair.target)
    nudge = Pose.exp(torch.tensor([0.01, -0.01, 0.01, 0.05, -0.05, 0.05], dtype=torch.float64))
    by_hand = refine(pair.source, pair.target, nudge @ result.target_T_source)
    turn, shift = errors(by_hand.target_T_source, result.target_T_source)
    assert turn < 0.05
    assert shift < 0.005
    assert len(by_hand.inliers) == pytest.approx(len(result.inliers), rel=0.05)
    assert by_hand.alternatives == ()


def test_a_pose_by_hand_that_is_wrong_fails():
    pair = house()
    away = Pose(torch.eye(3, dtype=torch.float64), torch.tensor([1e3, 0, 0], dtype=torch.float64))
    result = refine(pair.source, pair.target, away @ pair.target_T_source)
    assert result.status is pn.Status.FAILED
    assert result.target_T_source is None


def test_lines_that_coincide_under_a_pose():
    source = make_scene("indoor", 7)
    pose = Pose.random(generator=torch.Generator().manual_seed(4), translation=1e4)
    settings = RegistrationSettings(inlier_distance=0.1)
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(5))
    rows, residuals = coincident_lines(source, (pose @ source)[order], pose, settings=settings)
    assert len(rows) > 0.9 * len(source)  # scenes have a few lines twice
    assert (order[rows[:, 1]] == rows[:, 0]).double().mean() > 0.99
    assert residuals.max() < 1e-5
    aside = Pose(torch.eye(3, dtype=torch.float64), torch.tensor([0.06, 0.0, 0.0], dtype=torch.float64))
    rows, residuals = coincident_lines(source, (pose @ source)[order], pose @ aside, settings=settings)
    assert residuals[:, 0].max() == pytest.approx(0.06, rel=0.01)
    assert residuals[:, 1].max() < 1e-3
    finder = CoincidenceFinder(source, (pose @ source)[order], settings)
    assert all(torch.equal(*pair) for pair in zip(finder.pairs(pose @ aside), (rows, residuals), strict=True))
    narrow = RegistrationSettings(inlier_distance=0.03)
    along_x, _ = coincident_lines(source, (pose @ source)[order], pose @ aside, settings=narrow)
    assert 0 < len(along_x) < len(rows)


def test_short_lines_of_a_large_map_are_found_too():
    """Their ends tell their direction less well than those of the longest, which are matched first."""
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    middle, direction = 20 * draw(3000, 3), torch.nn.functional.normalize(draw(3000, 3), dim=-1)
    half = (0.25 + 2 * torch.rand(3000, 1, generator=generator).double()) * direction
    ends = torch.stack([middle - half, middle + half], 1)
    pose = Pose.random(generator=generator, translation=5.0)
    source, target = (LineSet.from_segments(ends + 0.005 * draw(3000, 2, 3)) for _ in range(2))
    result = refine(source, pose @ target, pose)
    assert len(result.inliers) > 0.8 * 3000
    assert float(result.target_T_source.angle_to(pose).rad2deg()) < 0.01


def test_wheels_of_which_only_the_hubs_agree_are_no_success():
    """Most midpoints coincide, so that a network has no unit of length to derive from them."""

    def wheel(seed: int) -> LineSet:
        generator = torch.Generator().manual_seed(seed)
        spokes = torch.nn.functional.normalize(torch.randn(40, 3, generator=generator, dtype=torch.float64), dim=-1)
        hub = torch.stack([-spokes, spokes], 1) + torch.tensor([50.0, 0.0, 0.0], dtype=torch.float64)
        return LineSet.from_segments(
            torch.cat([hub, 3 * torch.randn(40, 2, 3, generator=generator, dtype=torch.float64)])
        )

    result = register(wheel(1), wheel(2))
    assert not result
    assert math.isfinite(result.evidence.matcher_agreement)
