"""Rotations about a known vertical."""

import math

import torch

from plueckernet.geometry.pose import Pose, rotation_exp
from plueckernet.geometry.upright import allowed_motions, heading, nearest_turn, tilt_cosine, turn_about

UP = torch.nn.functional.normalize(torch.tensor([0.2, -0.5, 0.8], dtype=torch.float64), dim=0)
ANGLES = torch.linspace(-3.0, 3.0, 7, dtype=torch.float64)


def test_a_turn_is_the_rotation_about_the_vertical() -> None:
    torch.testing.assert_close(turn_about(UP, ANGLES), rotation_exp(ANGLES[:, None] * UP))


def test_the_nearest_turn_of_a_turn_is_itself() -> None:
    turns = turn_about(UP, ANGLES)
    torch.testing.assert_close(nearest_turn(turns, UP), turns)


def test_no_other_turn_is_nearer() -> None:
    rotation = Pose.random(20, generator=torch.Generator().manual_seed(2)).rotation
    nearest = (nearest_turn(rotation, UP) * rotation).sum((-1, -2))
    every = turn_about(UP, torch.linspace(-math.pi, math.pi, 721, dtype=torch.float64))
    best = (every * rotation[:, None]).sum((-1, -2)).amax(-1)
    assert bool((nearest >= best - 1e-12).all())


def test_tilt_is_the_angle_of_the_vertical() -> None:
    across = torch.nn.functional.normalize(torch.linalg.cross(UP, torch.eye(3, dtype=torch.float64)[0]), dim=0)
    tilted = rotation_exp(0.3 * across) @ turn_about(UP, ANGLES)
    torch.testing.assert_close(tilt_cosine(tilted, UP), torch.full_like(ANGLES, math.cos(0.3)))


def test_the_heading_grows_with_the_turn() -> None:
    direction = torch.nn.functional.normalize(torch.tensor([0.9, 0.3, -0.4], dtype=torch.float64), dim=0)
    grown = heading(turn_about(UP, ANGLES) @ direction, UP) - heading(direction, UP)
    torch.testing.assert_close((grown - ANGLES + math.pi) % math.tau, torch.full_like(ANGLES, math.pi))


def test_only_turns_and_translations_are_allowed() -> None:
    jacobian = torch.randn(4, 2, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    allowed = allowed_motions(jacobian, UP)
    xi = torch.cat([0.7 * UP, torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)])
    torch.testing.assert_close(allowed @ xi, jacobian @ xi)
    tilt = torch.cat([torch.linalg.cross(UP, torch.eye(3, dtype=torch.float64)[2]), torch.zeros(3).double()])
    torch.testing.assert_close(allowed @ tilt, torch.zeros(4, 2).double())
