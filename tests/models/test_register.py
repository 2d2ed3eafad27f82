"""A network is a matcher of `register()`: float32 inside, float64 geometry around it."""

import pytest
import torch
from tests.estimation.lines_for_tests import errors

from plueckernet.data import AnyProtocol, LinePair, make_scene, sample_pair
from plueckernet.geometry import LineSet
from plueckernet.models import InvariantConfig, Matcher, build_matcher
from plueckernet.registration import register
from plueckernet.result import RegistrationResult, Status


@pytest.fixture(scope="module")
def net() -> Matcher:
    torch.manual_seed(0)
    return build_matcher(InvariantConfig(layers=4)).eval()


def house(*, segments: bool = True) -> LinePair:
    return sample_pair(make_scene("indoor", 1), AnyProtocol(segments=segments), 1)


def assert_right(result: RegistrationResult, pair: LinePair) -> None:
    assert result.status is Status.SUCCESS
    turn, shift = errors(result.target_T_source, pair.target_T_source)
    assert turn < 1
    assert shift < 0.15


def test_an_untrained_network_registers_a_house(net):
    pair = house()
    assert_right(register(pair.source, pair.target, matcher=net.match), pair)


def test_maps_in_float32_are_registered_in_float64(net):
    pair = house()
    result = register(pair.source.to(torch.float32), pair.target.to(torch.float32), matcher=net.match)
    assert_right(result, pair)
    assert result.target_T_source.rotation.dtype == result.covariance.dtype == torch.float64


@pytest.mark.parametrize("segments", [True, False], ids=["segments", "infinite"])
def test_what_the_two_say_to_each_other(net, segments):
    """The network gets float64 maps without a batch, as many lines as there are, and answers in its own type."""
    pair = house(segments=segments)
    asked: list[tuple[LineSet, LineSet, torch.Tensor]] = []

    def matcher(source: LineSet, target: LineSet) -> torch.Tensor:
        asked.append((source, target, net.match(source, target)))
        return asked[-1][-1]

    result = register(pair.source, pair.target, matcher=matcher)
    ((source, target, log_probability),) = asked
    for given, lines in ((source, pair.source), (target, pair.target)):
        assert given.direction.shape == given.moment.shape == (len(lines), 3)
        assert given.direction.dtype == torch.float64
        assert (given.endpoints is not None) == segments
    assert log_probability.shape == (len(pair.source), len(pair.target))
    assert log_probability.dtype == torch.float32
    assert not log_probability.requires_grad
    chosen = log_probability[result.matches[:, 0], result.matches[:, 1]]
    torch.testing.assert_close(chosen, log_probability.flatten().topk(len(chosen)).values)
