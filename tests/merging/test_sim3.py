"""Similarities as matrices: the axioms of the group, and what the graph differentiates."""

import pytest
import torch

from plueckernet.geometry import LineSet, Similarity
from plueckernet.merging import sim3


def tangents(seed: int, size: float = 0.6) -> torch.Tensor:
    return size * torch.randn(6, 7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_log_inverts_exp():
    xi = tangents(0)
    assert torch.allclose(sim3.log(sim3.exp(xi)), xi, atol=1e-12)


def test_exp_is_that_of_the_value_type():
    xi = tangents(1)
    assert torch.allclose(sim3.exp(xi), Similarity.exp(xi).matrix(), atol=1e-12)


def test_inverse():
    matrices = sim3.exp(tangents(2))
    eye = torch.eye(4, dtype=torch.float64).expand(6, 4, 4)
    assert torch.allclose(sim3.inverse(matrices) @ matrices, eye, atol=1e-12)


def test_adjoint_moves_a_step_to_the_other_side():
    matrices, step = sim3.exp(tangents(3)), tangents(4)
    moved = (sim3.adjoint(matrices) @ step[..., None])[..., 0]
    assert torch.allclose(matrices @ sim3.exp(step), sim3.exp(moved) @ matrices, atol=1e-11)


def test_left_jacobian_predicts_a_small_step():
    xi, step = tangents(5, 0.05), tangents(6, 1e-5)
    predicted = xi + (sim3.inverse_left_jacobian(xi) @ step[..., None])[..., 0]
    assert torch.allclose(sim3.log(sim3.exp(step) @ sim3.exp(xi)), predicted, atol=1e-9)


@pytest.mark.parametrize("rigid", [True, False])
def test_a_motion_moves_as_its_matrix(rigid):
    xi = tangents(7)[0]
    xi[6] = 0.0 if rigid else 0.4
    matrix = sim3.exp(xi)
    points = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    moved = sim3.as_motion(matrix, rigid) @ LineSet.from_segments(points)
    expected = points @ matrix[:3, :3].mT + matrix[:3, 3]
    assert torch.allclose(moved.endpoints, expected, atol=1e-12)
