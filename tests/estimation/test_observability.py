"""The motions that inliers leave free are named, in whatever frame and unit the lines are."""

import math

import pytest
import torch
from tests.estimation.shapes_for_tests import anchored, corridor, cube, pole_field, scattered

from plueckernet.estimation.evidence import lateral_support
from plueckernet.estimation.observability import MotionKind, firmness, unobservable_motions
from plueckernet.estimation.refinement import refine_pose
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry import LineSet, Pose

COVARIANCE = torch.diag(torch.tensor([0.01, 0.02, 0.03, 1.0, 2.0, 3.0], dtype=torch.float64)).square()
DISTANCE = 0.2
UP = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)


def bundle(*offsets: tuple[float, float, float]) -> torch.Tensor:
    """Vertical segments above each other."""
    start = torch.tensor(offsets, dtype=torch.float64)[:, None]
    return torch.cat([start, start + 0.4 * UP], 1)


@pytest.mark.parametrize("segments", [cube(), corridor(3), scattered(30, 0)], ids=["cube", "corridor", "scattered"])
def test_lines_of_several_directions_leave_nothing_free(segments):
    assert float(firmness(anchored(segments))[0]) > 1.5
    assert unobservable_motions(anchored(segments), COVARIANCE, DISTANCE) == ()


def test_firmness_is_a_number_of_lines_in_any_frame_and_unit():
    pose = Pose.random(generator=torch.Generator().manual_seed(0), translation=50.0)
    segments = scattered(30, 0)
    expected = firmness(anchored(segments))
    torch.testing.assert_close(firmness(anchored(segments, pose)), expected)
    torch.testing.assert_close(firmness(anchored(1000 * segments)), expected)
    torch.testing.assert_close(firmness(anchored(torch.cat([segments, segments]))), 2 * expected)
    assert float(expected[-1]) <= 30


def test_no_translation_is_less_firm_than_the_least_firm_motion():
    lines = anchored(scattered(30, 0))
    assert float(firmness(lines)[0]) <= lateral_support(lines.lines.direction)


def test_poles_leave_the_shift_along_them_free():
    (motion,) = unobservable_motions(anchored(pole_field(20)), COVARIANCE, DISTANCE)
    assert motion.kind is MotionKind.TRANSLATION
    assert motion.axis == pytest.approx((0, 0, 1))
    assert motion.firmness == pytest.approx(0, abs=1e-9)
    assert motion.describe() == "translation along (0.00, 0.00, 1.00) of the target frame"


def test_the_axis_is_that_of_the_target_frame():
    pose = Pose.random(generator=torch.Generator().manual_seed(3), translation=5.0)
    (motion,) = unobservable_motions(anchored(pole_field(20), pose), COVARIANCE, DISTANCE)
    along = pose.rotation @ UP
    assert abs(float(torch.tensor(motion.axis, dtype=torch.float64) @ along)) == pytest.approx(1)


def test_sigma_is_that_of_the_pose_where_the_lines_are():
    turn, shift = math.radians(3), 0.2
    covariance = torch.diag(torch.tensor([turn, 0, 0, 0, 0, shift], dtype=torch.float64)).square()
    (motion,) = unobservable_motions(anchored(pole_field(40)), covariance, DISTANCE)
    near = motion.sigma
    (motion,) = unobservable_motions(
        anchored(pole_field(40) + 100 * torch.eye(3, dtype=torch.float64)[1]), covariance, DISTANCE
    )
    assert near == pytest.approx(shift, rel=0.1)
    assert motion.sigma == pytest.approx(100 * turn, rel=0.1)  # a rotation about x moves distant lines up


def test_infinite_parallel_lines_leave_the_shift_along_them_free():
    points = torch.randn(10, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    lines = AnchoredLines.of(LineSet.from_point_direction(points, UP.expand(10, 3)))
    (motion,) = unobservable_motions(lines, COVARIANCE, DISTANCE)
    assert motion.describe().startswith("translation along (0.00, 0.00, 1.00)")


def test_a_bundle_leaves_the_shift_along_it_and_the_rotation_about_it_free():
    lines = anchored(bundle((2, 3, 0), (2, 3, 0.5), (2, 3, 1.0)))
    motions = unobservable_motions(lines, COVARIANCE, DISTANCE)
    assert {motion.kind for motion in motions} == {MotionKind.TRANSLATION, MotionKind.ROTATION}
    assert all(motion.axis == pytest.approx((0, 0, 1)) for motion in motions)
    (rotation,) = (motion for motion in motions if motion.kind is MotionKind.ROTATION)
    assert rotation.point[:2] == pytest.approx((2, 3))
    assert rotation.sigma == pytest.approx(math.degrees(0.03))
    assert "rotation about the axis along (0.00, 0.00, 1.00) through (2.00, 3.00," in rotation.describe()


def test_two_separate_poles_hold_the_rotation_about_them():
    poles = torch.cat([bundle((0, 0, 0), (0, 0, 0.5), (0, 0, 1)), bundle((2, 0, 0), (2, 0, 0.5), (2, 0, 1))])
    (motion,) = unobservable_motions(anchored(poles), COVARIANCE, DISTANCE)
    assert motion.kind is MotionKind.TRANSLATION


def test_a_street_with_a_single_cross_line():
    along = torch.tensor([[0.0, 0, 0], [1.0, 0, 0]], dtype=torch.float64)
    edges = torch.stack([along + torch.tensor([0.0, y, z]) for y, z in ((0, 0), (0, 0.1), (0.8, 0), (0.8, 0.2))])
    cross = torch.tensor([[[0.5, 0.1, 0], [0.5, 0.6, 0]]], dtype=torch.float64)
    (motion,) = unobservable_motions(anchored(torch.cat([edges, cross])), COVARIANCE, DISTANCE)
    assert motion.kind is MotionKind.TRANSLATION
    assert motion.axis[0] == pytest.approx(1, abs=0.02)
    assert 0.5 < motion.firmness <= 1
    crossed = torch.cat([edges, cross, cross + torch.tensor([0.3, 0, 0]), cross - torch.tensor([0.3, 0, 0])])
    assert unobservable_motions(anchored(crossed), COVARIANCE, DISTANCE) == ()


def test_lines_through_a_point_are_determined():
    arms = scattered(20, 1)
    arms = arms - arms.mean(1, keepdim=True)
    assert unobservable_motions(anchored(torch.stack([0 * arms[:, 0], arms[:, 1]], 1)), COVARIANCE, DISTANCE) == ()


def test_no_inliers_have_no_motions():
    nothing = anchored(cube())[torch.zeros(0, dtype=torch.int64)]
    assert firmness(nothing).tolist() == [0] * 6
    assert unobservable_motions(nothing, COVARIANCE, DISTANCE) == ()


@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
def test_poles_get_a_pose_in_the_directions_they_determine(turned):
    generator = torch.Generator().manual_seed(4)
    pose = Pose.random(generator=generator, translation=0.5) if turned else Pose.identity()
    poles = anchored(pole_field(30))
    target = anchored(pole_field(30), pose)
    xi = 0.01 * torch.randn(6, generator=generator, dtype=torch.float64)
    start = pose @ Pose.exp(xi)
    refined = refine_pose(start, poles, target, InlierThreshold(0.1, 0.1))
    assert refined is not None
    assert len(refined.matches) == 30
    error = pose.inverse() @ refined.pose
    assert float(error.angle_to(Pose.identity()).rad2deg()) < 0.01
    assert error.translation[:2].abs().max() < 1e-4  # across the poles
    assert float(error.translation[2]) == pytest.approx(float(xi[5]), abs=3e-3)  # the steps leave it as it was
    assert bool(refined.covariance.isfinite().all())
    (motion,) = unobservable_motions(target[refined.matches[:, 1]], refined.covariance, DISTANCE)
    assert motion.kind is MotionKind.TRANSLATION
    assert motion.sigma > 10


def test_noisy_poles_are_parallel_enough():
    generator = torch.Generator().manual_seed(6)
    poles = pole_field(30)
    shaken = [
        anchored(poles + 0.005 * torch.randn(poles.shape, generator=generator, dtype=torch.float64)) for _ in "ab"
    ]
    refined = refine_pose(Pose.identity(), *shaken, InlierThreshold(0.1, 0.14))
    assert refined is not None
    (motion,) = unobservable_motions(shaken[1][refined.matches[:, 1]], refined.covariance, DISTANCE)
    assert motion.kind is MotionKind.TRANSLATION
    assert motion.axis[2] > 0.99
    assert float(refined.pose.angle_to(Pose.identity()).rad2deg()) < 1
    assert float(refined.pose.translation[:2].abs().max()) < 0.01


def sloping(count: int, slope: float) -> torch.Tensor:
    """Poles that lean in all directions by an angle in radians."""
    angle = torch.arange(count, dtype=torch.float64) * 2.4
    lean = torch.stack([slope * angle.cos(), slope * angle.sin(), torch.ones_like(angle)], -1)
    foot = pole_field(count)[:count, 0]
    return torch.stack([foot, foot + 2 * lean], 1)


@pytest.mark.parametrize(
    ("slope", "sigma", "free"), [(0.2, 0.05, False), (0.2, 0.3, True), (0.02, 0.05, True)], ids=str
)
def test_many_sloping_lines_determine_a_shift_if_precisely(slope, sigma, free):
    covariance = torch.diag(torch.tensor([1e-4, 1e-4, 1e-4, 0.01, 0.01, sigma], dtype=torch.float64)).square()
    lines = anchored(sloping(30, slope))
    assert float(firmness(lines)[0]) < 1.5
    assert bool(unobservable_motions(lines, covariance, DISTANCE)) is free


def test_a_single_cross_line_does_not_determine_a_shift_however_precisely():
    covariance = torch.eye(6, dtype=torch.float64) * 1e-8
    cross = torch.tensor([[[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]], dtype=torch.float64)
    (motion,) = unobservable_motions(anchored(torch.cat([pole_field(20), cross])), covariance, DISTANCE)
    assert motion.kind is MotionKind.TRANSLATION
