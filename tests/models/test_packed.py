"""Inference on a CPU packs lines and reads tables: it must say what the layers of the training say."""

import pytest
import torch
from tests.models.random_lines import random_lines

from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, stack_lines
from plueckernet.models import InvariantConfig, build_matcher
from plueckernet.models.attention import AttentionConfig, Edges, MessageLayer
from plueckernet.models.weights import load_pretrained

SEGMENTS = pytest.mark.parametrize("segments", [True, False], ids=["segments", "infinite"])


def _lines_of(kind: str, seed: int, *, segments: bool) -> tuple[LineSet, LineSet]:
    pair = sample_pair(make_scene(kind, seed), ScanProtocol(overlap=0.6), seed)
    source, target = (lines if segments else lines.infinite() for lines in (pair.source, pair.target))
    return source[torch.arange(0, len(source), 2)], target[torch.arange(0, len(target), 3)]


@SEGMENTS
def test_a_padded_batch_of_the_shipped_weights_is_what_the_training_computes(segments):
    net = load_pretrained("invariant")
    sources, targets = zip(*(_lines_of("indoor", seed, segments=segments) for seed in (3, 4)), strict=True)
    batch = stack_lines(list(sources)), stack_lines(list(targets))
    computed = net(*batch)
    with torch.no_grad():
        packed = net(*batch)
    likely = computed.log_probability > -8
    difference = (packed.log_probability - computed.log_probability)[likely].abs()
    assert difference.max() < 2e-2
    assert difference.mean() < 1e-3
    torch.testing.assert_close(packed.source_matchability, computed.source_matchability, atol=5e-3, rtol=0)


def test_padding_may_be_anywhere():
    torch.manual_seed(0)
    net = build_matcher(InvariantConfig(layers=4)).eval()
    source, target = stack_lines([random_lines(20)]), stack_lines([random_lines(20, 1)])
    mask = torch.arange(20) % 3 != 1
    masked = source.replaced(mask=mask[None])
    with torch.no_grad():
        log_p = net(masked, target).log_probability[0]
        kept = net(stack_lines([random_lines(20)[mask.nonzero()[:, 0]]]), target).log_probability[0]
    torch.testing.assert_close(log_p[mask], kept, atol=1e-5, rtol=1e-5)
    assert log_p[~mask].isneginf().all()


@pytest.mark.parametrize("filters", [0, 4])
def test_products_with_all_lines_give_the_messages_of_gathered_neighbours(filters):
    torch.manual_seed(0)
    layer = MessageLayer(AttentionConfig(32, 4, filters, "layer-gelu"))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 150, 32, generator=generator)
    index = torch.rand(2, 150, 150, generator=generator).topk(9, -1).indices
    bias, weights = (torch.randn(2, count, 150, 9, generator=generator) for count in (4, max(filters, 1)))
    edges = Edges(bias, weights, index)
    gathered = layer(x, x, edges=edges).detach()
    with torch.no_grad():
        torch.testing.assert_close(layer(x, x, edges=edges), gathered, atol=1e-5, rtol=1e-5)


def test_the_packed_matcher_takes_no_gradient_but_leaves_training_its_own():
    torch.manual_seed(0)
    net = build_matcher(InvariantConfig(layers=2)).eval()
    source, target = stack_lines([random_lines(9)]), stack_lines([random_lines(7, 1)])
    with torch.no_grad():
        net(source, target)
    net(source, target).log_probability.sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


@pytest.mark.parametrize("change", ["in place", "loaded"])
def test_changed_weights_are_used(change):
    torch.manual_seed(0)
    first, second = (build_matcher(InvariantConfig(layers=2)).eval() for _ in range(2))
    source, target = random_lines(20), random_lines(20, 1)
    expected = second.match(source, target)
    assert not torch.allclose(first.match(source, target), expected)
    if change == "loaded":
        first.load_state_dict(second.state_dict(), assign=True)
    else:
        with torch.no_grad():
            for old, new in zip(first.parameters(), second.parameters(), strict=True):
                old.copy_(new)
    assert torch.equal(first.match(source, target), expected)
