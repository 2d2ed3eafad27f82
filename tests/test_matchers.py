"""A matcher is one object: its method, its frame and its calibration; anything else is made into one."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from plueckernet.data.protocols import AnyProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import FormatError, InputError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.matchers import DescriptorMatcher, LineMatcher, MatchFrame, NetworkMatcher, load_matcher
from plueckernet.models import InvariantConfig, PlueckerConfig, build_matcher
from plueckernet.models.weights import pretrained_path
from plueckernet.registration import register


@pytest.fixture(scope="module")
def pair():
    return sample_pair(make_scene("indoor", 1), AnyProtocol(segments=True), 1)


class Oracle(LineMatcher):
    """Knows the truth, and remembers in which frame it was asked."""

    def __init__(self, pair, frame):
        self._pair, self.frame, self.asked = pair, frame, []

    def match(self, source, target):
        self.asked.append(source)
        truth = torch.full((len(source), len(target)), -20.0)
        truth[self._pair.matches[:, 0], self._pair.matches[:, 1]] = 0.0
        return truth


@pytest.mark.parametrize("frame", MatchFrame)
def test_lines_come_in_the_frame_that_is_asked_for(pair, frame):
    oracle = Oracle(pair, frame)
    result = register(pair.source, pair.target, matcher=oracle)
    (asked,) = oracle.asked
    same = torch.allclose(asked.endpoints, pair.source.endpoints, atol=1e-9)
    assert same == (frame is MatchFrame.ORIGINAL)
    assert not result.calibrated
    assert result.matcher == "unnamed matcher"


def test_a_function_is_asked_once_however_unclear_the_pose(pair):
    asked = []

    def nothing(source, target):
        asked.append((len(source), len(target)))
        return torch.zeros(len(source), len(target))

    assert not register(pair.source[:40], pair.target[-60:], matcher=nothing)
    assert asked == [(40, 60)]


def test_a_network_is_passed_as_it_is(pair):
    torch.manual_seed(0)
    network = build_matcher(InvariantConfig(layers=2))
    result = register(pair.source, pair.target, matcher=network)
    assert not result.calibrated
    wrapped = register(pair.source, pair.target, matcher=NetworkMatcher(network))
    assert torch.equal(result.matches, wrapped.matches)


@pytest.mark.parametrize(
    ("config", "frame"),
    [(InvariantConfig(layers=2), MatchFrame.NORMALIZED), (PlueckerConfig(layers=2), MatchFrame.ORIGINAL)],
)
def test_a_network_knows_its_frame(config, frame):
    torch.manual_seed(0)
    assert NetworkMatcher(build_matcher(config)).frame is frame


@pytest.mark.parametrize("name", ["invariant", "descriptors"])
def test_the_shipped_matchers_are_calibrated(pair, name):
    result = register(pair.source, pair.target, matcher=name)
    assert result.calibrated
    assert result.matcher == name


def test_names_and_files_are_loaded_once():
    assert load_matcher("invariant") is load_matcher("invariant")
    assert isinstance(load_matcher("descriptors"), DescriptorMatcher)
    assert load_matcher(pretrained_path("invariant")).calibration == load_matcher("invariant").calibration


@pytest.fixture
def weights(tmp_path) -> Path:
    path = pretrained_path("invariant")
    shutil.copy(path.with_suffix(".json"), tmp_path / "mine.json")
    return Path(shutil.copy(path, tmp_path / "mine.safetensors"))


def test_weights_without_a_calibration_say_so(pair, weights):
    card = json.loads(weights.with_suffix(".json").read_text())
    del card["calibration"]
    weights.with_suffix(".json").write_text(json.dumps(card))
    assert not register(pair.source, pair.target, matcher=weights).calibrated


def test_a_calibration_that_makes_no_sense_names_the_card(weights):
    card = json.loads(weights.with_suffix(".json").read_text())
    card["calibration"]["presence"]["surprise"] = 1.0
    weights.with_suffix(".json").write_text(json.dumps(card))
    with pytest.raises(FormatError, match=r"mine\.json.*surprise"):
        load_matcher(str(weights))


@pytest.mark.parametrize("matcher", [None, 3, object()])
def test_what_is_no_matcher_is_refused(matcher):
    with pytest.raises(InputError, match="expected a matcher"):
        load_matcher(matcher)


def test_the_number_of_putative_matches_is_limited(pair):
    result = register(pair.source, pair.target, settings=RegistrationSettings(max_matches=50))
    assert len(result.matches) == 50
