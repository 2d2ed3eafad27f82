"""The search ends when a pose is clear, goes on while it is not, and keeps a pose that is given."""

import math

import pytest
import torch

from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.estimation.hypotheses import propose_poses
from plueckernet.estimation.judgement import JudgementSettings
from plueckernet.estimation.search import PoseSearch
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import Pose
from plueckernet.matchers import load_matcher

MATCHER = load_matcher("invariant")


class CountedRounds:
    """Counts the rounds that a search asks for."""

    def __init__(self, monkeypatch):
        self.count = 0
        monkeypatch.setattr("plueckernet.estimation.search.propose_poses", self)

    def __call__(self, *arguments):
        for hypotheses in propose_poses(*arguments):
            self.count += 1
            yield hypotheses


class CountedMatches:
    """Matches parts of maps, and remembers how many lines they had."""

    def __init__(self):
        self.counts = []

    def __call__(self, maps):
        self.counts.append(maps.core_counts)
        return MATCHER.putative_matches(maps, 800)


def search_of(source, target, settings, match=None):
    maps = settings.normalize(source, target)
    matches = MATCHER.putative_matches(maps, settings.max_matches)
    return PoseSearch(maps, matches, MATCHER.calibration, settings, match=match), maps


@pytest.fixture(scope="module")
def pair():
    return sample_pair(make_scene("indoor", 11), ScanProtocol(overlap=0.6), 11)


def test_a_clear_pose_ends_the_search(pair, monkeypatch):
    rounds = CountedRounds(monkeypatch)
    with torch.inference_mode():
        search, maps = search_of(pair.source, pair.target, RegistrationSettings())
        assessment = search.run()
    assert rounds.count == 1
    assert assessment.weighing.confidence > 0.99
    pose = maps.original_pose(assessment.candidates[0].refinement.pose)
    turn = pose.rotation @ pair.target_T_source.rotation.mT
    assert math.degrees(math.acos(min(1.0, (float(turn.trace()) - 1) / 2))) < 1


def test_without_a_clear_pose_every_round_is_tried(pair, monkeypatch):
    rounds = CountedRounds(monkeypatch)
    parts = CountedMatches()
    other = make_scene("outdoor", 5)
    with torch.inference_mode():
        search, _ = search_of(pair.source, other, RegistrationSettings(), parts)
        assessment = search.run()
    assert rounds.count == 3
    assert len(parts.counts) == 8  # four parts of the source, two of the target
    assert assessment.weighing.confidence < 0.9


def test_a_pose_that_suffices_ends_the_search_after_the_second_round(pair, monkeypatch):
    rounds = CountedRounds(monkeypatch)
    settings = RegistrationSettings(judgement=JudgementSettings(clear_confidence=1.0))
    with torch.inference_mode():
        search_of(pair.source, pair.target, settings)[0].run()
    assert rounds.count == 2


def test_a_given_pose_is_kept_and_competes_with_others(pair):
    settings = RegistrationSettings()
    with torch.inference_mode():
        search, maps = search_of(pair.source, pair.target, settings)
        right = maps.normalized_pose(pair.target_T_source)
        turned = Pose(
            right.rotation @ torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)), right.translation
        )
        good, bad = search.around(right), search.around(turned)
    assert good.weighing.confidence > 0.99
    if bad.candidates:  # refinement may give up on a wrong pose
        assert bad.weighing.confidence < 0.01
        assert float((bad.candidates[0].refinement.pose.rotation * turned.rotation).sum()) > 2.9
