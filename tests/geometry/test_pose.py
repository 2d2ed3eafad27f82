"""Motions are defined by the group axioms and by what they do to points and lines."""

import math

import pytest
import torch

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.geometry.pose import (
    quaternion_from_rotation,
    rotation_exp,
    rotation_from_quaternion,
    rotation_log,
)


def random_pose(*batch: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Pose:
    return Pose.random(*batch, generator=torch.Generator().manual_seed(seed), translation=5.0, dtype=dtype)


def random_similarity(*batch: int, seed: int = 0) -> Similarity:
    pose = random_pose(*batch, seed=seed)
    scale = torch.rand(batch, generator=torch.Generator().manual_seed(seed + 1), dtype=torch.float64) + 0.3
    return Similarity(scale, pose.rotation, pose.translation)


MAKERS = {"pose": random_pose, "similarity": random_similarity}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize("batch", [(), (4,), (2, 3), (0,)], ids=str)
def test_group_axioms(make, batch):
    a, b, c = (make(*batch, seed=seed) for seed in (1, 2, 3))
    eye = torch.eye(4, dtype=torch.float64).expand(*batch, 4, 4)
    torch.testing.assert_close((a @ a.inverse()).matrix(), eye)
    torch.testing.assert_close((a.inverse() @ a).matrix(), eye)
    torch.testing.assert_close(((a @ b) @ c).matrix(), (a @ (b @ c)).matrix())
    torch.testing.assert_close((a @ b).matrix(), a.matrix() @ b.matrix())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_exp_and_log_are_inverse(make):
    motion = make(50, seed=7)
    torch.testing.assert_close(type(motion).exp(motion.log()).matrix(), motion.matrix())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_acting_on_points_and_lines_agree(make):
    motion = make(3, seed=5)
    ends = torch.randn(3, 6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moved = motion @ LineSet.from_segments(ends)
    by_points = LineSet.from_segments((motion @ ends.flatten(1, 2)).unflatten(1, (6, 2)))
    torch.testing.assert_close(moved.direction, by_points.direction)
    torch.testing.assert_close(moved.moment, by_points.moment)
    torch.testing.assert_close(moved.endpoints, by_points.endpoints)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_line_motion_matrix_is_equation_1(make):
    motion = make(seed=11)
    lines = LineSet.from_segments(torch.randn(9, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(lines.pluecker() @ motion.line_motion_matrix().mT, (motion @ lines).pluecker())


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 1e-4, 1e-3, 1.0, math.pi - 1e-7, math.pi])
def test_rotation_log_at_every_angle(angle):
    axis = torch.nn.functional.normalize(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), dim=0)
    omega = rotation_log(rotation_exp(angle * axis))
    torch.testing.assert_close(rotation_exp(omega), rotation_exp(angle * axis))
    assert omega.norm().item() == pytest.approx(angle, abs=1e-12, rel=1e-7)


def test_exp_is_the_matrix_exponential():
    xi = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    generator = torch.zeros(20, 4, 4, dtype=torch.float64)
    generator[:, 0, 1], generator[:, 0, 2], generator[:, 1, 2] = -xi[:, 2], xi[:, 1], -xi[:, 0]
    generator = generator - generator.mT
    generator[:, :3, 3] = xi[:, 3:]
    torch.testing.assert_close(Pose.exp(xi).matrix(), torch.linalg.matrix_exp(generator))


def test_adjoint_carries_twists_across():
    pose = random_pose(seed=3)
    xi = torch.randn(6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    left = pose @ Pose.exp(xi)
    right = Pose.exp(pose.adjoint() @ xi) @ pose
    torch.testing.assert_close(left.matrix(), right.matrix())


def test_exp_has_a_gradient_at_zero():
    xi = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    Pose.exp(xi).matrix().sum().backward()
    assert xi.grad is not None
    assert bool(torch.isfinite(xi.grad).all())


def test_quaternions_round_trip():
    rotation = random_pose(200, seed=8).rotation
    quaternion = quaternion_from_rotation(rotation)
    assert bool((quaternion[:, 0] >= 0).all())
    torch.testing.assert_close(rotation_from_quaternion(quaternion), rotation)


def test_angle_between_poses():
    pose = random_pose(seed=1)
    turned = Pose(
        pose.rotation @ rotation_exp(torch.tensor([0.0, 0.3, 0.0], dtype=torch.float64)),
        pose.translation,
    )
    assert pose.angle_to(turned).item() == pytest.approx(0.3)


def test_a_reflection_is_no_pose():
    matrix = torch.eye(4, dtype=torch.float64)
    matrix[0, 0] = -1
    with pytest.raises(InputError, match="not a rotation"):
        Pose.from_matrix(matrix)


def test_matrix_round_trip():
    pose = random_pose(5, seed=4)
    torch.testing.assert_close(Pose.from_matrix(pose.matrix()).matrix(), pose.matrix())
