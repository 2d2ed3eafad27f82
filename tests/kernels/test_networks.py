"""The kernels of the invariant matcher compute what PyTorch computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.kernels.helpers import needs_kernels
from tests.models.random_lines import random_lines

from plueckernet.geometry import LineSet, stack_lines
from plueckernet.models import InvariantConfig, build_matcher, matcher
from plueckernet.models.matcher import Matcher, MatchOutput
from plueckernet.models.weights import load_pretrained

pytestmark = needs_kernels
BATCHED = "direction", "moment", "endpoints"
SMALL = {"channels": 16, "layers": 3, "heads": 2, "filters": 4, "edge_channels": 16}


def _network(**settings: Any) -> Matcher:
    """Random weights; those that training begins with as zeros or ones are random, too."""
    torch.manual_seed(1)
    network = build_matcher(InvariantConfig(**{**SMALL, **settings})).eval()
    with torch.no_grad():
        for values in network.parameters():
            if values.ndim < 2 or values.shape[0] == 2:
                values += 0.1 * torch.randn(values.shape)
    return network


def _both(network: Matcher, source: LineSet, target: LineSet, monkeypatch: pytest.MonkeyPatch) -> list[MatchOutput]:
    """The outputs with kernels and without."""
    outputs = []
    with torch.no_grad():
        outputs.append(network(source, target))
        with monkeypatch.context() as patch:
            patch.setattr(matcher, "compiled", lambda *_: False)
            outputs.append(network(source, target))
    return outputs


def _check_equal(outputs: list[MatchOutput], tolerance: float = 2e-5) -> None:
    for ours, theirs in zip(*outputs, strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)


def _infinite(lines: LineSet) -> LineSet:
    return LineSet(direction=lines.direction, moment=lines.moment)


def _batch(*lines: LineSet) -> LineSet:
    return stack_lines(list(lines))


@pytest.mark.parametrize("kind", [lambda lines: lines, _infinite], ids=["segments", "infinite"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"filters": 0},
        {"heads": 4, "channels": 20, "filters": 5},
        {"edge_channels": 9},
        {"edge_channels": 33, "channels": 40},
        {"scale": "metric"},
        {"signed": False},
        {"local": False},
        {"cross_attention": False},
        {"matchability_prior": False},
        {"assignment": "transport"},
        {"layers": 1},
    ],
    ids=str,
)
def test_every_config_is_computed_as_by_pytorch(
    settings: dict[str, Any], kind: Callable[[LineSet], LineSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = kind(random_lines(37)), kind(random_lines(21, 1))
    _check_equal(_both(_network(**settings), _batch(source), _batch(target), monkeypatch))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 20), (7, 8), (9, 5), (0, 5), (5, 0), (0, 0), (65, 130), (16, 48)])
def test_any_number_of_lines(m: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in [lambda lines: lines] + [_infinite] * (
        m != 1 or n == 1
    ):  # rounding decides the scale of one infinite line
        source, target = (_batch(kind(random_lines(k, k))) for k in (m, n))
        _check_equal(_both(_network(), source, target, monkeypatch))


def test_batches_with_padding_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = _batch(random_lines(12), random_lines(20, 1)), _batch(random_lines(18, 2), random_lines(3, 3))
    holes = torch.arange(20) % 3 != 1
    assert source.mask is not None
    source = source.replaced(mask=source.mask & holes)
    _check_equal(_both(_network(), source, target, monkeypatch))


def test_degenerate_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = random_lines(24)
    parallel = torch.zeros_like(lines.direction)
    parallel[:, 2] = 1
    bundle = LineSet(direction=parallel, moment=torch.linalg.cross(lines.moment, parallel))
    through_one_point = LineSet(direction=lines.direction, moment=torch.zeros_like(lines.moment))
    repeated = _infinite(lines)[torch.zeros(24, dtype=torch.long)]
    for source in (bundle, through_one_point, repeated):
        _check_equal(_both(_network(), _batch(source), _batch(_infinite(random_lines(24, 1))), monkeypatch), 1e-4)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_numbers_that_are_no_lines_do_no_harm(value: float) -> None:
    lines = random_lines(20)
    direction, moment = lines.direction.clone(), lines.moment.clone()
    direction[3], moment[7, 1] = value, value
    broken = LineSet(direction=direction, moment=moment)
    for source in (broken, LineSet(direction=direction, moment=moment, endpoints=lines.endpoints)):
        log_probability = _network().match(source, random_lines(20, 1))
        assert log_probability.shape == (20, 20)


@pytest.mark.parametrize("name", ["invariant-small", "invariant"])
def test_the_shipped_weights_give_the_same_matches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network, source = load_pretrained(name), random_lines(90)
    target = source[torch.arange(80).flip(0)]
    ours, theirs = _both(network, _batch(source), _batch(target), monkeypatch)
    torch.testing.assert_close(ours.log_probability, theirs.log_probability, atol=1e-3, rtol=1e-5)
    likely = theirs.log_probability > -5
    torch.testing.assert_close(ours.log_probability[likely], theirs.log_probability[likely], atol=2e-4, rtol=0)
    assert torch.equal(ours.log_probability.argmax(-1), theirs.log_probability.argmax(-1))


def test_memory_of_edges_is_used_again_and_changes_no_answer() -> None:
    network = load_pretrained("invariant")
    sets = [(random_lines(count, seed=count), random_lines(count + 3, seed=1)) for count in (20, 5, 40, 20)]
    with torch.no_grad():
        single = [load_pretrained("invariant").match(*pair) for pair in sets]
        again = [network.match(*pair) for pair in sets]
    for ours, theirs in zip(again, single, strict=True):
        assert torch.equal(ours, theirs)
