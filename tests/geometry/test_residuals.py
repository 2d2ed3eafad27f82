"""Residuals vanish at the true pose, Jacobians equal autograd, and whitening gives unit covariance."""

import math

import pytest
import torch
from torch.autograd.functional import jacobian

from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.residuals import NoiseModel, line_residuals, variances, whitened


def matched(count: int = 12, noise: float = 0.0, seed: int = 0) -> tuple[Pose, LineSet, LineSet]:
    generator = torch.Generator().manual_seed(seed)
    source = LineSet.from_segments(torch.randn(count, 2, 3, generator=generator, dtype=torch.float64) * 3)
    pose = Pose.random(generator=generator, translation=4.0)
    moved = pose @ source
    jitter = noise * torch.randn(count, 2, 3, generator=generator, dtype=torch.float64)
    return pose, source, LineSet.from_segments(moved.endpoints + jitter)


def test_zero_at_the_true_pose_for_any_signs():
    pose, source, target = matched()
    target = target.flipped(torch.arange(12) % 3 == 0)
    residuals = line_residuals(pose, source, target, source.footpoints(), target.midpoints())
    assert float(residuals.position.abs().max()) < 1e-9
    assert float(residuals.direction.abs().max()) < 1e-9


def test_norms_are_distance_and_sine():
    pose, source, target = matched(noise=0.2)
    residuals = line_residuals(pose, source, target, source.midpoints(), target.midpoints())
    moved = pose @ source
    sine = torch.linalg.cross(moved.direction, target.direction).norm(dim=-1)
    torch.testing.assert_close(residuals.direction.norm(dim=-1), sine)
    crossing = moved.midpoints() + residuals.lever[:, None] * moved.direction * (
        (moved.direction * target.direction).sum(-1, keepdim=True).sign()
    )
    torch.testing.assert_close(residuals.position.norm(dim=-1), (crossing - target.midpoints()).norm(dim=-1))


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_analytic_jacobian_equals_autograd(noise):
    pose, source, target = matched(noise=noise, seed=3)
    target = target.flipped(torch.arange(12) % 2 == 0)

    def moved(xi):
        r = line_residuals(Pose.exp(xi) @ pose, source, target, source.midpoints(), target.footpoints())
        return torch.cat([r.position, r.direction], -1)

    expected = jacobian(moved, torch.zeros(6, dtype=torch.float64))
    r = line_residuals(pose, source, target, source.midpoints(), target.footpoints())
    torch.testing.assert_close(torch.cat([r.position_jacobian, r.direction_jacobian], -2), expected)


def test_a_batch_of_poses_is_a_loop():
    _, source, target = matched(seed=5)
    poses = Pose.random(4, generator=torch.Generator().manual_seed(1), translation=1.0)
    together = line_residuals(poses, source, target, source.midpoints(), target.midpoints())
    for i in range(4):
        single = line_residuals(poses[i], source, target, source.midpoints(), target.midpoints())
        torch.testing.assert_close(together.position[i], single.position)
        torch.testing.assert_close(together.position_jacobian[i], single.position_jacobian)


def test_whitened_residuals_have_unit_covariance():
    generator = torch.Generator().manual_seed(0)
    count, model = 40_000, NoiseModel(position=0.03, direction=0.01)
    point = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64).expand(count, 3)
    direction = torch.nn.functional.normalize(torch.tensor([[0.3, -0.5, 0.8]], dtype=torch.float64), dim=-1)

    def noisy(anchor):
        shift = model.position * torch.randn(count, 3, generator=generator, dtype=torch.float64)
        turn = model.direction * torch.randn(count, 3, generator=generator, dtype=torch.float64)
        return LineSet.from_point_direction(
            anchor + shift, direction + torch.linalg.cross(turn, direction)
        ), anchor + shift

    source, source_anchor = noisy(point)
    target, target_anchor = noisy(point + 2.5 * direction)  # the target's anchor lies 2.5 m along the line
    residuals = line_residuals(Pose.identity(), source, target, source_anchor, target_anchor)
    value, _ = whitened(residuals, *variances(residuals, model.sigmas(source), model.sigmas(target)))
    covariance = value.mT @ value / count
    torch.testing.assert_close(covariance, torch.eye(4, dtype=torch.float64), atol=0.03, rtol=0)


def test_long_segments_have_a_smaller_direction_error():
    ends = torch.tensor([[[0.0, 0, 0], [1, 0, 0]], [[0, 0, 0], [10, 0, 0]]], dtype=torch.float64)
    position, direction = NoiseModel(position=0.2, direction=0.0, endpoint=0.1).sigmas(LineSet.from_segments(ends))
    torch.testing.assert_close(direction[0], 10 * direction[1])
    assert direction[0].item() == pytest.approx(0.1 * math.sqrt(2))
    assert position.tolist() == [0.2, 0.2]
