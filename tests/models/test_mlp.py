"""The MLP block: the norm it says, and blind to padding."""

import pytest
import torch

from plueckernet.models.mlp import MLP, BatchNorm, GroupNorm

STYLES = ("group-gelu", "batch-relu", "layer-gelu")


def test_group_norm_is_pytorchs_where_nothing_is_padded():
    x = torch.randn(3, 7, 16, generator=torch.Generator().manual_seed(0))
    expected = torch.nn.functional.group_norm(x.mT, 8).mT
    torch.testing.assert_close(GroupNorm(16)(x, None), expected, atol=1e-5, rtol=0)


def test_batch_norm_is_pytorchs_in_training_and_after():
    x = 2 * torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(0)) + 1
    ours, theirs = BatchNorm(5), torch.nn.BatchNorm1d(5)
    torch.testing.assert_close(ours(x, None), theirs(x.flatten(0, 1)).unflatten(0, (3, 7)))
    ours.eval(), theirs.eval()
    # PyTorch keeps the unbiased variance of the 21 lines, as a tenth of what it keeps in all.
    theirs.running_var.sub_(0.9).mul_(20 / 21).add_(0.9)
    torch.testing.assert_close(ours(x, None), theirs(x.flatten(0, 1)).unflatten(0, (3, 7)))


@pytest.mark.parametrize("style", STYLES)
def test_padding_changes_nothing(style):
    torch.manual_seed(0)
    mlp = MLP((6, 16, 16, 4), style)
    x = torch.randn(1, 9, 6)
    mask = torch.arange(14)[None] < 9
    padded = torch.cat([x, 100 * torch.randn(1, 5, 6)], 1)
    unpadded = mlp(x, torch.ones(1, 9, dtype=torch.bool))
    torch.testing.assert_close(mlp(padded, mask)[:, :9], unpadded, atol=1e-5, rtol=0)
    torch.testing.assert_close(mlp(x), unpadded, atol=1e-5, rtol=0)


@pytest.mark.parametrize("style", STYLES)
def test_gradients(style):
    torch.manual_seed(0)
    mlp = MLP((3, 8, 2), style).double()
    mask = torch.tensor([[True, True, True, False], [True] * 4])
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: mlp(v, mask), [x])


def test_a_set_of_nothing_stays_finite():
    torch.manual_seed(0)
    mlp = MLP((3, 8, 2))
    out = mlp(torch.randn(1, 4, 3), torch.zeros(1, 4, dtype=torch.bool))
    assert out.isfinite().all()


@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_of_group_norm_is_that_of_its_value(masked):
    norm, generator = GroupNorm(16).double(), torch.Generator().manual_seed(0)
    x = (torch.randn(3, 7, 16, dtype=torch.float64, generator=generator) + 2).requires_grad_()
    mask = torch.arange(7) < torch.tensor([[7], [3], [0]]) if masked else None
    parameters = [torch.randn(16, dtype=torch.float64, generator=generator, requires_grad=True) for _ in range(2)]

    def normalised(x, weight, bias):
        return torch.func.functional_call(norm, {"weight": weight, "bias": bias}, (x, mask))

    assert torch.autograd.gradcheck(normalised, (x, *parameters))
    with torch.no_grad():  # without gradients, another path
        expected = normalised(x, *parameters)
    torch.testing.assert_close(normalised(x, *parameters), expected, atol=1e-12, rtol=0)
