"""A map that repeats itself is recognised, and all poses that it makes exchangeable are listed."""

import time

import pytest
import torch
from tests.estimation.shapes_for_tests import anchored, corridor, cube, prism, scattered, window_grid

from plueckernet.estimation.distinct import are_close
from plueckernet.estimation.maps import MapPair, normalize_maps
from plueckernet.estimation.pose_family import FamilySettings, PoseFamily, pose_family
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.estimation.symmetry import polished_on_maps, self_symmetries
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import stacked

NOTHING = Pose.identity(0)
ALONG = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)


def map_pair(source: torch.Tensor, target: torch.Tensor, noise: float = 0.0) -> tuple[MapPair, Pose]:
    """Two maps in different frames, and the true pose between their normalized lines."""
    generator = torch.Generator().manual_seed(5)
    pose = Pose.random(generator=generator, translation=3.0)
    shaken = [
        ends + noise * torch.randn(ends.shape, generator=generator, dtype=torch.float64) for ends in (source, target)
    ]
    first, second = LineSet.from_segments(shaken[0]), pose @ LineSet.from_segments(shaken[1])
    maps = normalize_maps(first, second, max_lines=1000, inlier_distance=None, inlier_angle=0.14)
    return maps, maps.normalized_pose(pose)


def family_of(maps: MapPair, best: Pose, others: Pose = NOTHING) -> PoseFamily:
    return pose_family(best, others, maps, MapScorer(maps.source, maps.target, maps.threshold))


def contains(family: PoseFamily, pose: Pose, maps: MapPair) -> bool:
    return any(are_close(family.poses[index], pose, maps.threshold) for index in range(len(family)))


@pytest.mark.parametrize("noise", [0.0, 0.006])
@pytest.mark.parametrize(
    ("shape", "count"), [(cube(), 24), (prism(6), 12), (prism(4, height=0.7), 8)], ids=["cube", "prism", "room"]
)
def test_all_poses_of_a_symmetric_solid_are_listed(shape, count, noise):
    maps, pose = map_pair(shape, shape, noise)
    family = family_of(maps, pose)
    assert len(family) == count
    assert float(family.score_ratio.min()) > 0.9
    assert torch.equal(family.poses.rotation[0], pose.rotation)


def test_every_member_has_the_same_family():
    maps, pose = map_pair(prism(4, height=0.7), prism(4, height=0.7))
    family = family_of(maps, pose)
    for index in range(1, len(family)):
        assert contains(family_of(maps, family.poses[index]), pose, maps)


def test_the_symmetries_of_a_cube_form_a_group():
    lines, threshold = anchored(cube()), InlierThreshold(0.1, 0.14)
    group = self_symmetries(lines, threshold)
    assert len(group.translation) == 23  # the identity is left out
    assert float(group.translation.abs().max()) < 1e-3
    inverse = group.inverse()
    for index in range(23):
        assert any(are_close(inverse[index], group[other], threshold) for other in range(23))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_map_without_repetition_has_no_symmetries(seed):
    lines = anchored(scattered(100, seed))
    assert len(self_symmetries(lines, InlierThreshold(0.05, 0.14)).translation) == 0
    maps, pose = map_pair(scattered(100, seed), scattered(100, seed))
    assert len(family_of(maps, pose)) == 1


def test_a_symmetry_that_clutter_breaks_is_none():
    threshold = InlierThreshold(0.05, 0.14)
    assert len(self_symmetries(anchored(torch.cat([prism(6), scattered(60, 0)])), threshold).translation) == 0
    assert len(self_symmetries(anchored(torch.cat([prism(6), scattered(3, 0)])), threshold).translation) >= 5


@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_bays_of_a_corridor_can_be_exchanged(noise):
    """The crops overlap by four of six bays, but a pose with all six overlapping explains more lines."""
    bay = 0.5 * ALONG
    maps, pose = map_pair(corridor(6) + 2 * bay, corridor(6), noise)  # bays 2 to 7 and 0 to 5
    unit = pose.rotation @ bay / maps.unit
    best = Pose(pose.rotation, pose.translation - 2 * unit)
    scorer = MapScorer(maps.source, maps.target, maps.threshold)
    scores = [float(scorer.scores(Pose(p.rotation[None], p.translation[None]))) for p in (best, pose)]
    assert scores[0] > 1.2 * scores[1]
    family = family_of(maps, best)
    assert contains(family, pose, maps)
    for shift in (-2, -1, 1, 2):
        assert contains(family, Pose(best.rotation, best.translation + shift * unit), maps)
    assert float(family.fraction_ratio.min()) > 0.85


def test_windows_of_a_facade_can_be_exchanged():
    maps, pose = map_pair(window_grid(5, 3), window_grid(5, 3), 0.002)
    family = family_of(maps, pose)
    assert len(family.source_symmetries.translation) >= 4
    for shift in ((0.4, 0, 0), (-0.4, 0, 0), (0, 0, 0.5)):
        moved = pose.rotation @ torch.tensor(shift, dtype=torch.float64) / maps.unit
        assert contains(family, Pose(pose.rotation, pose.translation + moved), maps)


def test_other_candidates_become_members_by_their_score():
    maps, pose = map_pair(scattered(80, 2), scattered(80, 2))
    generator = torch.Generator().manual_seed(1)
    wrong = Pose.random(5, generator=generator, translation=0.5)
    assert len(family_of(maps, pose, wrong)) == 1
    maps, pose = map_pair(cube(), cube())
    quarter = Pose.exp(torch.tensor([[0, 0, torch.pi / 2, 0, 0, 0]], dtype=torch.float64))
    turned = Pose(pose.rotation[None], pose.translation[None]) @ quarter
    assert contains(family_of(maps, pose, turned), turned[0], maps)


def test_infinite_lines_have_symmetries_as_well():
    lines = LineSet.from_segments(cube()).infinite()
    symmetries = self_symmetries(AnchoredLines.of(lines), InlierThreshold(0.05, 0.14))
    assert len(symmetries.translation) == 23


def test_a_row_of_equal_poles_repeats():
    pole = torch.tensor([[[0.0, 0, -0.3], [0.0, 0, 0.3]]], dtype=torch.float64)
    row = torch.cat([pole + 0.3 * index * ALONG for index in range(-4, 5)])
    symmetries = self_symmetries(anchored(row), InlierThreshold(0.05, 0.14))
    shift = Pose(torch.eye(3, dtype=torch.float64), 0.3 * ALONG)
    assert any(
        are_close(symmetries[index], shift, InlierThreshold(0.05, 0.14)) for index in range(len(symmetries.translation))
    )


def test_polishing_moves_a_pose_towards_the_agreement_of_all_lines():
    lines = anchored(scattered(60, 3))
    rough = Pose.exp(0.01 * torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    polished = polished_on_maps(rough, lines, lines, InlierThreshold(0.1, 0.14))
    assert bool((polished.log().norm(dim=-1) < 0.2 * rough.log().norm(dim=-1)).all())


def test_little_is_spent_on_maps_without_repetition():
    lines, threshold = anchored(scattered(300, 0)), InlierThreshold(0.02, 0.14)
    self_symmetries(lines, threshold)
    start = time.process_time()
    self_symmetries(lines, threshold)
    assert time.process_time() - start < 0.3  # about 0.02 s


def test_lines_that_many_drawn_lines_leave_no_doubt_about_break_a_symmetry():
    """Of 320 exact lines 20 have no twin: a fraction too small for the score to see."""
    half = scattered(150, 3) + torch.tensor([4.0, 0.0, 0.0], dtype=torch.float64)
    turn = torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)
    twins = torch.cat([half, half * turn])
    details = torch.cat([twins, scattered(20, 9) + torch.tensor([4.0, 0.0, 0.0], dtype=torch.float64)])
    half_turn = Pose(torch.diag(turn), torch.zeros(3, dtype=torch.float64))
    for shape, count in ((twins, 2), (details, 1)):
        maps, pose = map_pair(shape, shape)
        turned = maps.normalized_pose(maps.original_pose(pose) @ half_turn)
        assert len(family_of(maps, pose, stacked([turned]))) == count
        scores = MapScorer(maps.source, maps.target, maps.threshold).scores(stacked([pose, turned]))
        assert float(scores[1] / scores[0]) > 0.85


def mirrored_flats(seed: int = 3) -> tuple[torch.Tensor, torch.Tensor, Pose]:
    """A flat and the same turned about the wall between them; each map shows one of them and a part of the other."""
    flat = scattered(60, seed)
    flat[..., 0] -= flat[..., 0].max()
    turned = Pose(torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)), torch.zeros(3).double())
    other = turned.act(flat)
    near = flat[..., 0].mean(1) > flat[..., 0].mean(1).quantile(0.75)
    return torch.cat([flat, other[near]]), torch.cat([other, flat[near]]), turned


def test_a_firm_runner_up_with_less_overlap_is_a_member_and_another_candidate_is_not():
    source, target, turned = mirrored_flats()
    maps, right = map_pair(source, target)
    wrong = maps.normalized_pose(maps.original_pose(right) @ turned)
    scorer = MapScorer(maps.source, maps.target, maps.threshold)
    others = stacked([right])
    assert float(scorer.scores(others) / scorer.scores(stacked([wrong]))) < 0.9
    assert not contains(pose_family(wrong, NOTHING, maps, scorer), right, maps)
    assert not contains(pose_family(wrong, others, maps, scorer), right, maps)
    lenient = FamilySettings(max_runner_up_deficit=2.5)
    assert contains(pose_family(wrong, others, maps, scorer, lenient, runner_ups=others), right, maps)
    strict = FamilySettings(max_runner_up_deficit=0.5)
    assert not contains(pose_family(wrong, others, maps, scorer, strict, runner_ups=others), right, maps)
    assert contains(pose_family(wrong, others, maps, scorer, strict, repetitions=others), right, maps)
