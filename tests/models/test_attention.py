"""Attention in linear time approximates the softmax, and padding changes nothing."""

import pytest
import torch
from tests.models.random_lines import random_lines
from torch.nn.functional import scaled_dot_product_attention

from plueckernet.geometry import stack_lines
from plueckernet.models import PlueckerConfig, build_matcher
from plueckernet.models.attention import linear_attention, orthogonal_rows


def test_many_random_features_give_the_softmax():
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 20, 8, generator=generator)
    exact = scaled_dot_product_attention(0.4 * query, 0.4 * key, value, scale=1.0)
    errors = [
        float((linear_attention(0.4 * query, 0.4 * key, value, orthogonal_rows(count, 8), None) - exact).norm())
        for count in (16, 4096)
    ]
    assert errors[1] < 0.1 * float(exact.norm())
    assert errors[1] < errors[0] / 4


def test_padding_sends_no_message():
    generator = torch.Generator().manual_seed(1)
    query, key, value = torch.randn(3, 1, 4, 9, 8, generator=generator)
    mask = (torch.arange(9) < 6)[None]
    rows = orthogonal_rows(32, 8)
    padded = linear_attention(query, key, value, rows, mask)
    torch.testing.assert_close(padded, linear_attention(query, key[:, :, :6], value[:, :, :6], rows, None))


def test_rows_are_orthogonal_in_blocks_and_always_the_same():
    rows = orthogonal_rows(16, 8)
    assert torch.equal(rows, orthogonal_rows(16, 8))
    product = rows[:8] @ rows[:8].mT
    assert float((product - product.diag().diag()).abs().max()) < 1e-4


@torch.no_grad()
@pytest.mark.parametrize("orthogonal", [False, True])
def test_features_of_the_subspaces_are_orthogonal_if_asked(orthogonal, monkeypatch):
    torch.manual_seed(0)
    encoder = build_matcher(PlueckerConfig(layers=2, orthogonal_subspaces=orthogonal)).trunk.encoder
    joined = []
    monkeypatch.setattr(encoder.joint, "forward", lambda x, _mask: joined.append(x) or x)
    encoder(stack_lines([random_lines(12)]))
    v, m = joined[0].split(64, -1)
    assert (float((v * m).sum(-1).abs().max()) < 1e-4) is orthogonal
