"""The closed form recovers a motion exactly for any line signs, or raises."""

import math

import pytest
import torch

from plueckernet.errors import DegenerateError, ShapeError
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.geometry.alignment import (
    align,
    align_directed,
    align_similarity,
    fit_directed,
    two_line_agreement,
    two_line_poses,
)


def lines_and_pose(count: int, seed: int, *batch: int) -> tuple[LineSet, Pose]:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randn(*batch, count, 2, 3, generator=generator, dtype=torch.float64) * 4
    return LineSet.from_segments(ends).infinite(), Pose.random(*batch, generator=generator, translation=10.0)


def error(a: Pose, b: Pose) -> float:
    return float((a.matrix() - b.matrix()).abs().max())


@pytest.mark.parametrize("count", [2, 3, 50])
@pytest.mark.parametrize("seed", range(10))
def test_directed_is_exact(count, seed):
    source, pose = lines_and_pose(count, seed)
    assert error(align_directed(source, pose @ source), pose) < 1e-8


def test_the_rotation_from_two_lines_is_proper():
    # Division by the determinant, as printed in the paper, fails for every second sample.
    source, pose = lines_and_pose(2, 0, 500)
    fitted, well_posed = fit_directed(source, pose @ source)
    assert bool(well_posed.all())
    assert float((fitted.rotation - pose.rotation).abs().max()) < 1e-6


def test_weights_choose_lines():
    source, pose = lines_and_pose(20, 1)
    target = pose @ source
    wrong = target.replaced(direction=target.direction.roll(1, 0), moment=target.moment.roll(1, 0))
    weight = torch.ones(20, dtype=torch.float64)
    mixed = LineSet(
        torch.cat([target.direction[:10], wrong.direction[10:]]),
        torch.cat([target.moment[:10], wrong.moment[10:]]),
    )
    weight[10:] = 0
    assert error(align_directed(source, mixed, weight), pose) < 1e-8


@pytest.mark.parametrize("count", [3, 4, 30])
@pytest.mark.parametrize("seed", range(10))
def test_undirected_finds_the_pose_under_any_signs(count, seed):
    source, pose = lines_and_pose(count, seed)
    flips = torch.rand(count, generator=torch.Generator().manual_seed(seed)) < 0.5
    candidates = align(source, (pose @ source).flipped(flips))
    assert error(candidates.poses[0], pose) < 1e-7
    assert bool((candidates.cost.diff() >= 0).all())


def test_two_undirected_lines_leave_two_poses():
    source, pose = lines_and_pose(2, 5)
    candidates = align(source, (pose @ source).flipped(torch.tensor([True, False])))
    exact = candidates.cost < 1e-12
    assert int(exact.sum()) == 2
    assert min(error(candidates.poses[0], pose), error(candidates.poses[1], pose)) < 1e-8
    assert candidates.poses[0].angle_to(candidates.poses[1]).item() == pytest.approx(math.pi, abs=1e-6)


def test_minimal_solver_contains_the_pose_for_every_sign():
    source, pose = lines_and_pose(2, 3, 200)
    target = pose @ source
    for first in (False, True):
        for second in (False, True):
            flips = torch.tensor([first, second]).expand(200, 2)
            solved = two_line_poses(source, target.flipped(flips))
            errors = (solved.matrix() - pose.matrix()[:, None]).abs().amax((-1, -2))
            assert float(errors.min(-1).values.max()) < 1e-6
            agrees = two_line_agreement(source, target.flipped(flips), angle=0.01, distance=0.01)
            assert bool(agrees.gather(1, errors.argmin(-1, keepdim=True)).all())


def test_agreement_rules_out_wrong_angles_and_offsets():
    source, pose = lines_and_pose(2, 9, 300)
    other, _ = lines_and_pose(2, 10, 300)
    agrees = two_line_agreement(source, pose @ other, angle=0.05, distance=0.05)
    assert float(agrees.any(-1).double().mean()) < 0.05
    skewed = two_line_agreement(source, pose @ source, angle=0.05, distance=0.05)
    assert (
        float(skewed.sum(-1).double().mean()) < 2.2
    )  # generic skew lines: the angle and the offset determine one sign


def test_perpendicular_intersecting_lines_keep_all_four():
    axes = LineSet.from_point_direction(torch.zeros(2, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)[:2])
    assert bool(two_line_agreement(axes, axes, angle=0.01, distance=0.01).all())


def test_similarity_is_exact():
    source, pose = lines_and_pose(5, 2)
    truth = Similarity.from_pose(pose, 3.7)
    fitted = align_similarity(source, truth @ source)
    torch.testing.assert_close(fitted.matrix(), truth.matrix())


def test_similarity_with_a_large_offset_from_the_origin():
    source, pose = lines_and_pose(30, 4)
    offset = torch.tensor([6e5, 5e6, 100.0], dtype=torch.float64)
    truth = Similarity.from_pose(pose, 1.0)
    fitted = align_similarity(source.shifted(-offset), truth @ source)
    back = fitted.act(offset[None])[0] - truth.translation
    assert float(back.abs().max()) < 1e-6


def parallel(count: int = 4) -> LineSet:
    points = torch.randn(count, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return LineSet.from_point_direction(points, torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64).expand(count, 3))


@pytest.mark.parametrize("solver", [align_directed, align_similarity, align])
def test_parallel_lines_are_reported(solver):
    with pytest.raises(DegenerateError, match="parallel"):
        solver(parallel(), parallel())


@pytest.mark.parametrize("solver", [align_directed, align])
def test_one_line_is_reported(solver):
    with pytest.raises(DegenerateError):
        solver(parallel(1), parallel(1))


def test_lines_through_one_point_do_not_determine_the_scale():
    directions = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    star = LineSet.from_point_direction(torch.ones(6, 3, dtype=torch.float64), directions)
    assert error(align_directed(star, star), Pose.identity()) < 1e-9
    with pytest.raises(DegenerateError, match="one point"):
        align_similarity(star, star)


def test_unequal_counts_are_refused():
    with pytest.raises(ShapeError):
        align_directed(parallel(3), parallel(2))
