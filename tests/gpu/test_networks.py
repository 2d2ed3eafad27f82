"""Networks and transport give on a GPU what they give on the CPU."""

import copy

import pytest
import torch
from tests.models.random_lines import random_lines

from plueckernet.data import ScanProtocol, make_scene, sample_pair
from plueckernet.geometry import stack_lines
from plueckernet.models import (
    InvariantConfig,
    PlueckerConfig,
    PoseRegressor,
    SinkhornConfig,
    build_matcher,
    sinkhorn,
    top_k_matches,
)
from plueckernet.models.weights import load_pretrained

pytestmark = pytest.mark.gpu

SEGMENTS = pytest.mark.parametrize("segments", [True, False], ids=["segments", "infinite"])
CONFIGS = {
    "invariant": InvariantConfig(layers=4),
    "sparse": InvariantConfig(layers=4, dense_limit=8, neighbours=12),
    "transport": InvariantConfig(layers=4, assignment="transport"),
    "pluecker": PlueckerConfig(layers=4),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
@SEGMENTS
@torch.no_grad()
def test_a_padded_batch_has_the_probabilities_of_the_cpu(device, config, segments):
    torch.manual_seed(0)
    net = build_matcher(config).eval()
    sources = stack_lines([random_lines(n, n, segments=segments) for n in (40, 25)])
    targets = stack_lines([random_lines(n, n, segments=segments) for n in (30, 37)])
    expected = net(sources, targets)
    output = copy.deepcopy(net).to(device)(sources.to(device), targets.to(device))
    for value, wanted in zip(output, expected, strict=True):
        assert value.device.type == device
        torch.testing.assert_close(value.cpu(), wanted, atol=5e-3, rtol=1e-3)


@torch.no_grad()
def test_in_float64_the_papers_network_agrees_to_the_last_digits(device):
    torch.manual_seed(0)
    net = build_matcher(PlueckerConfig()).double().eval()
    source, target = random_lines(40, 1), random_lines(25, 2)
    expected = net.match(source, target)
    result = copy.deepcopy(net).to(device).match(source.to(device), target.to(device))
    torch.testing.assert_close(result.cpu(), expected, atol=1e-8, rtol=1e-8)


@SEGMENTS
@pytest.mark.parametrize("name", ["invariant", "pluecker-indoor"])
def test_the_shipped_weights_say_the_same(device, name, segments):
    pair = sample_pair(make_scene("indoor", 7), ScanProtocol(overlap=0.6), 7)
    source, target = (lines if segments else lines.infinite() for lines in (pair.source, pair.target))
    expected = load_pretrained(name).match(source, target)
    result = load_pretrained(name, device).match(source.to(device), target.to(device)).cpu()
    likely = expected > -8
    torch.testing.assert_close(result[likely], expected[likely], atol=5e-2, rtol=0)
    ours, theirs = (top_k_matches(value[None], 50, mutual=True) for value in (result, expected))
    pairs = [{*zip(best.source[0].tolist(), best.target[0].tolist(), strict=True)} for best in (ours, theirs)]
    assert len(pairs[0] & pairs[1]) >= 0.9 * len(pairs[1])


@torch.no_grad()
def test_the_regression_baseline_says_the_same(device):
    torch.manual_seed(0)
    net = PoseRegressor(PlueckerConfig(layers=2)).eval()
    source, target = stack_lines([random_lines(20, 1)]), stack_lines([random_lines(15, 2)])
    expected = net(source, target)
    output = copy.deepcopy(net).to(device)(source.to(device), target.to(device))
    for value, wanted in zip(output, expected, strict=True):
        torch.testing.assert_close(value.cpu(), wanted, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("cost_range", [2.0, torch.inf], ids=["kernel", "logarithm"])
def test_transport_and_its_gradient(device, cost_range):
    generator = torch.Generator().manual_seed(0)
    cost = 2 * torch.rand(2, 30, 20, generator=generator, dtype=torch.float64)
    log_r, log_s = (torch.randn(2, n, generator=generator, dtype=torch.float64).log_softmax(-1) for n in (30, 20))
    log_r[:, 25:] = -torch.inf

    def solve(where: str) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = [value.detach().to(where) for value in (cost, log_r, log_s)]
        inputs[0].requires_grad_()
        weights = sinkhorn(*inputs, SinkhornConfig(0.1, 30), cost_range=cost_range)
        weights[:, :25].sum().backward()
        return weights.detach().cpu(), inputs[0].grad.cpu()

    for value, expected in zip(solve(device), solve("cpu"), strict=True):
        torch.testing.assert_close(value, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("mutual", [False, True])
def test_the_best_matches(device, mutual):
    values = torch.randn(2, 30, 20, generator=torch.Generator().manual_seed(0))
    for value, expected in zip(
        top_k_matches(values.to(device), 15, mutual=mutual), top_k_matches(values, 15, mutual=mutual), strict=True
    ):
        assert value.device.type == device
        real = expected[..., :5]  # mutual matches may be fewer than asked for
        torch.testing.assert_close(value.cpu()[..., :5], real)
