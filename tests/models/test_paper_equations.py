"""Eq. (2)-(5) of the paper and Algorithm 1, each against the plain version, and the network as a whole.

Each way of misreading the paper that is named here makes the comparison of the whole fail.
"""

import copy
from dataclasses import replace

import pytest
import torch
from benchmarks import plain_pluecker as plain
from benchmarks.plain_pluecker import PAPER, Reading
from tests.models.random_lines import random_lines
from torch import nn
from torch.nn.functional import normalize

from plueckernet.geometry import LineSet, stack_lines
from plueckernet.models import Matcher, PlueckerConfig, SinkhornConfig, build_matcher, sinkhorn
from plueckernet.models.transport import pairwise_distance

SAME = {"atol": 1e-10, "rtol": 1e-9}  # in float64
SIZES = pytest.mark.parametrize("sizes", [(40, 40), (40, 25), (7, 30)], ids=["equal", "fewer", "less-than-k"])

MISREADINGS = {
    "self and cross attention swapped": replace(PAPER, is_self=lambda t: t % 2 == 0),
    "self attention only": replace(PAPER, is_self=lambda t: True),
    "cross attention only": replace(PAPER, is_self=lambda t: False),
    "the residual dropped": replace(PAPER, residual=False),
    "directions without their sign": replace(
        PAPER, direction_distance=lambda o: plain.angular_distance(o).minimum(torch.pi - plain.angular_distance(o))
    ),
    "neighbours of moments by angle": replace(PAPER, moment_distance=plain.angular_distance),
    "farthest moments": replace(PAPER, moment_distance=lambda o: -plain.euclidean_distance(o)),
    "attention scaled by the channels of a head": replace(PAPER, scaled_by=32),
    "matchability from the own map": replace(PAPER, pooled_from="own"),
    "no matchability": replace(PAPER, prior=False),
}


@pytest.fixture(scope="module")
def net() -> Matcher:
    """The published network with weights large enough that every term counts."""
    torch.manual_seed(0)
    net = build_matcher(PlueckerConfig()).double().eval().requires_grad_(False)
    for name, parameter in net.named_parameters():
        if "norm" in name:
            parameter.add_(0.3 * torch.randn_like(parameter))  # or weight 1 and bias 0 would hide what they do
        elif "query" in name or "key_value" in name or "matchability" in name:
            parameter.mul_(3)  # or attention and priors would be nearly uniform
    return net


def maps(sizes: tuple[int, int]) -> tuple[LineSet, LineSet]:
    """A source and a target, without endpoints, which the paper does not use."""
    return random_lines(sizes[0], 1, segments=False), random_lines(sizes[1], 2, segments=False)


def batched(lines: LineSet) -> LineSet:
    return LineSet(lines.direction[None], lines.moment[None])


def features(count: int, seed: int) -> torch.Tensor:
    return torch.randn(1, count, 128, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plain_weights(net: Matcher, sizes: tuple[int, int], reading: Reading = PAPER) -> torch.Tensor:
    return plain.plain_pluecker(net, *map(batched, maps(sizes)), reading)[0]


def our_weights(net: Matcher, sizes: tuple[int, int]) -> torch.Tensor:
    return net.match(*maps(sizes)).exp()


def log_difference(ours: torch.Tensor, other: torch.Tensor) -> float:
    return float((ours.log() - other.log()).abs().max())


@pytest.mark.parametrize("count", [1, 7, 40])
@pytest.mark.parametrize("space", ["direction", "moment"])
def test_equation_2_is_the_average_over_edges(net, space, count):
    subspace = getattr(net.trunk.encoder, space)
    o = getattr(random_lines(count), space)[None]
    distance = {"direction": plain.angular_distance, "moment": plain.euclidean_distance}[space]
    features = plain.edge_features(subspace, o, distance)
    assert features.shape == (1, count, 8)
    ours = subspace.theta(subspace.mean_of_neighbours(o, None) - o) + subspace.phi(o)
    torch.testing.assert_close(ours, features, **SAME)
    torch.testing.assert_close(subspace(o, None), plain.plain_mlp(subspace.lift, features), **SAME)


def test_the_subspaces_are_joined(net):
    lines = batched(random_lines(40))
    torch.testing.assert_close(net.trunk.encoder(lines), plain.plain_encoder(net.trunk.encoder, lines), **SAME)


@pytest.mark.parametrize("count", [1, 30])
def test_equations_3_and_4_are_a_layer(net, count):
    layer, x, context = net.trunk.layers[0], features(20, 0), features(count, 1)
    torch.testing.assert_close(layer(x, context), plain.plain_layer(layer, x, context), **SAME)
    torch.testing.assert_close(layer(x, x), plain.plain_layer(layer, x, x), **SAME)
    for misread in (Reading(residual=False), Reading(scaled_by=32)):
        if count > 1 or not misread.residual:  # attention to a single line has no use for a scale
            assert (layer(x, context) - plain.plain_layer(layer, x, context, misread)).abs().max() > 1e-2


def test_equation_5_is_the_prior(net):
    x, y = features(20, 0), features(30, 1)
    out = net.head(x, y, None, None)
    torch.testing.assert_close(out.source_matchability, plain.plain_matchability(net.head, x, y), **SAME)
    torch.testing.assert_close(out.target_matchability, plain.plain_matchability(net.head, y, x), **SAME)
    own = plain.plain_matchability(net.head, x, y, Reading(pooled_from="own"))
    assert (out.source_matchability / own - 1).abs().max() > 1e-2


@pytest.mark.parametrize("cost_range", [2.0, torch.inf], ids=["kernel", "logarithm"])
def test_algorithm_1_is_the_transport(cost_range):
    x, y = (normalize(features(n, n), dim=-1) for n in (20, 30))
    r, s = (features(n, 50 + n)[..., 0].softmax(-1) for n in (20, 30))
    cost = torch.cdist(x, y)
    torch.testing.assert_close(pairwise_distance(x, y), cost, **SAME)
    ours = sinkhorn(cost, r.log(), s.log(), SinkhornConfig(0.1, 30), cost_range=cost_range)
    torch.testing.assert_close(ours.exp(), plain.plain_transport(cost, r, s, 0.1, 30), **SAME)


def test_features_and_probabilities_are_the_head(net):
    x, y = features(20, 0), features(30, 1)
    ours = net.head(x, y, None, None).log_probability.exp()
    torch.testing.assert_close(ours, plain.plain_head(net.head, x, y), **SAME)


@SIZES
def test_the_trunk_is_the_papers(net, sizes):
    source, target = maps(sizes)
    together = stack_lines([source, target])  # padded to one length
    ours = net.trunk(together)
    expected = plain.plain_trunk(net.trunk, batched(source), batched(target))
    for side, (features, size) in enumerate(zip(expected, sizes, strict=True)):
        torch.testing.assert_close(ours[side, :size], features[0], **SAME)


@SIZES
def test_the_network_is_the_papers(net, sizes):
    torch.testing.assert_close(our_weights(net, sizes), plain_weights(net, sizes), **SAME)


@pytest.mark.parametrize("misread", MISREADINGS.values(), ids=MISREADINGS.keys())
def test_a_misreading_is_noticed(net, misread):
    sizes = (40, 25)
    assert log_difference(our_weights(net, sizes), plain_weights(net, sizes, misread)) > 1e-3


class Skip(nn.Module):
    """A layer that changes nothing and moves the layers after it by one."""

    def forward(self, x: torch.Tensor, *_others: torch.Tensor | None) -> torch.Tensor:
        return x


def test_self_and_cross_attention_swapped_in_the_package_are_noticed(net):
    swapped = copy.deepcopy(net)
    swapped.trunk.layers.insert(0, Skip())
    ours = our_weights(swapped, (40, 25))
    assert log_difference(ours, plain_weights(net, (40, 25))) > 1e-3
    misread = MISREADINGS["self and cross attention swapped"]
    torch.testing.assert_close(ours, plain_weights(net, (40, 25), misread), **SAME)
