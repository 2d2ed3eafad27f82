"""The search ends when a pose is clear, goes on while it is not, and keeps a pose that is given."""

import math
from dataclasses import replace

import pytest
import torch
from tests.estimation.shapes_for_tests import scattered

from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.estimation.hypotheses import propose_poses
from plueckernet.estimation.judgement import JudgementSettings
from plueckernet.estimation.pose_family import PoseFamily
from plueckernet.estimation.search import Matching, PoseSearch
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import stacked
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
    """Matches maps and parts of them, and remembers how many lines they had."""

    def __init__(self):
        self.counts = []

    def __call__(self, maps):
        self.counts.append(maps.core_counts)
        return MATCHER.putative_matches(maps, 800)


ALL_AT_ONCE = RegistrationSettings(first_lines=1000)
NOTHING_ACCEPTED = JudgementSettings(min_confidence=1.0, clear_confidence=1.0)


def search_of(source, target, settings=ALL_AT_ONCE, match=None):
    maps = settings.normalize(source, target)
    return PoseSearch(maps, Matching(match or CountedMatches(), MATCHER.calibration), settings), maps


@pytest.fixture(scope="module")
def pair():
    return sample_pair(make_scene("indoor", 11), ScanProtocol(overlap=0.6), 11)


def test_a_clear_pose_ends_the_search(pair, monkeypatch):
    rounds = CountedRounds(monkeypatch)
    with torch.inference_mode():
        search, maps = search_of(pair.source, pair.target)
        assessment = search.run()
    assert rounds.count == 1
    assert assessment.weighing.confidence > 0.99
    pose = maps.original_pose(assessment.candidates[0].refinement.pose)
    turn = pose.rotation @ pair.target_T_source.rotation.mT
    assert math.degrees(math.acos(min(1.0, (float(turn.trace()) - 1) / 2))) < 1


def test_the_longest_lines_are_matched_first_and_often_suffice(pair):
    match, first = CountedMatches(), 40
    settings = RegistrationSettings(first_lines=first, judgement=JudgementSettings(longest_clear_confidence=0.95))
    with torch.inference_mode():
        search, maps = search_of(pair.source, pair.target, settings, match)
        assessment = search.run()
    assert match.counts == [(first, first)]
    assert assessment.weighing.confidence > settings.judgement.longest_clear_confidence
    for side, rows in ((maps.source, search.matches.source), (maps.target, search.matches.target)):
        assert set(rows.tolist()) <= set(side.half_length.topk(first).indices.tolist())
    shift = maps.original_pose(assessment.candidates[0].refinement.pose).translation - pair.target_T_source.translation
    assert float(shift.norm()) < 0.1


def test_all_lines_are_matched_where_the_longest_do_not_suffice(pair):
    match = CountedMatches()
    settings = RegistrationSettings(first_lines=4)
    with torch.inference_mode():
        search, maps = search_of(pair.source, pair.target, settings, match)
        assessment = search.run()
    assert match.counts == [(4, 4), maps.core_counts]
    assert len(search.matches) == 800
    assert assessment.weighing.confidence > settings.judgement.clear_confidence


def test_the_longest_lines_must_be_clearer_than_all(pair):
    match, first = CountedMatches(), 40
    settings = RegistrationSettings(first_lines=first, judgement=JudgementSettings(longest_clear_confidence=1.0))
    with torch.inference_mode():
        search, maps = search_of(pair.source, pair.target, settings, match)
        assessment = search.run()
    assert match.counts == [(first, first), maps.core_counts]
    assert assessment.weighing.confidence > settings.judgement.clear_confidence


def test_without_a_clear_pose_every_round_is_tried(pair, monkeypatch):
    rounds = CountedRounds(monkeypatch)
    parts = CountedMatches()
    other = make_scene("outdoor", 5)
    with torch.inference_mode():
        search, maps = search_of(pair.source, other, ALL_AT_ONCE, parts)
        assessment = search.run()
    assert rounds.count == 3
    assert parts.counts[0] == maps.core_counts
    assert 1 + 8 < len(parts.counts) <= 1 + 8 + 4  # four parts of the source, two of the target, and some overlaps
    assert assessment.weighing.confidence < 0.9


def test_overlaps_are_matched_by_themselves_where_no_pose_is_accepted(pair):
    source, target = pair.source, pair.target_T_source.inverse() @ pair.target
    for least, most, settings in (
        (1, 4, RegistrationSettings(first_lines=1000, up=(0.0, 0.0, 1.0), judgement=NOTHING_ACCEPTED)),
        (0, 0, RegistrationSettings(first_lines=1000, up=(0.0, 0.0, 1.0))),
    ):
        match = CountedMatches()
        with torch.inference_mode():
            search, maps = search_of(source, target, settings, match)
            assessment = search.run()
        assert match.counts[0] == maps.core_counts
        assert least <= len(match.counts[1:]) <= most
        assert all(sum(counts) < sum(maps.core_counts) for counts in match.counts[1:])
        assert assessment.evidence.matcher_agreement > 0.5


def test_a_pose_that_suffices_ends_the_search_after_the_second_round(pair, monkeypatch):
    rounds = CountedRounds(monkeypatch)
    settings = replace(ALL_AT_ONCE, judgement=JudgementSettings(clear_confidence=1.0))
    with torch.inference_mode():
        search_of(pair.source, pair.target, settings)[0].run()
    assert rounds.count == 2


def test_a_given_pose_is_kept_and_competes_with_others(pair):
    with torch.inference_mode():
        search, maps = search_of(pair.source, pair.target)
        right = maps.normalized_pose(pair.target_T_source)
        turned = Pose(
            right.rotation @ torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)), right.translation
        )
        good, bad = search.around(right), search.around(turned)
    assert good.weighing.confidence > 0.99
    if bad.candidates:  # refinement may give up on a wrong pose
        assert bad.weighing.confidence < 0.01
        assert float((bad.candidates[0].refinement.pose.rotation * turned.rotation).sum()) > 2.9


def mirrored_flats() -> tuple[LineSet, LineSet, Pose]:
    """Parts of two flats that are each other turned by half a turn, and that turn; the right pose is the identity.

    Each map shows one flat, the beginning of the other, what is in the middle, and much that the other map does not.
    """
    flat = scattered(80, 0)
    flat[..., 0] -= flat[..., 0].max()
    turn = Pose(torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)), torch.zeros(3).double())
    near = flat[..., 0].mean(1) > flat[..., 0].mean(1).quantile(0.7)
    aside = 1.2 * torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64) * flat[..., 0].mean()
    middle, other = 0.4 * scattered(16, 500), turn.act(flat)
    source = torch.cat([flat, other[near], middle, 1.1 * scattered(280, 1000) + aside])
    target = torch.cat([other, flat[near], middle, 1.1 * scattered(280, 1001) - aside])
    return LineSet.from_segments(source), LineSet.from_segments(target), turn


def probability(pose: Pose, assessment, maps) -> float | None:
    """Of a pose; None if it is not listed."""
    for entry, share in zip(assessment.candidates, assessment.weighing.probabilities, strict=True):
        if torch.allclose(maps.original_pose(entry.refinement.pose).matrix(), pose.matrix(), atol=0.05):
            return share
    return None


def test_a_wrong_pose_that_hides_the_right_one_does_not_stand():
    source, target, turn = mirrored_flats()
    wrong, right = [], []
    for fraction in (0.0, JudgementSettings().hiding_fraction):
        settings = replace(ALL_AT_ONCE, judgement=JudgementSettings(hiding_fraction=fraction))
        with torch.inference_mode():
            search, maps = search_of(source, target, settings)
            assessment = search.run()
        wrong.append(probability(turn, assessment, maps))
        right.append(probability(Pose.identity(), assessment, maps))
    assert (wrong[0] > 0.9, right[0]) == (True, None)
    assert (wrong[1] < 0.9, right[1] > 0.05) == (True, True)
    assert assessment.weighing.presence > 0.9


def test_a_right_pose_that_explains_more_takes_the_place_of_the_one_that_hides_it():
    """A wrong pose that explains a part of many lines, and the right one that explains all of a few."""
    own = scattered(50, 3)
    turn = Pose(torch.diag(torch.tensor([-1.0, -1.0, 1.0], dtype=torch.float64)), torch.zeros(3).double())
    repeated = scattered(90, 7) + torch.tensor([1.5, 0.0, 0.0], dtype=torch.float64)
    clutter = [scattered(160, seed) + torch.tensor([1.5, 0.0, 0.0], dtype=torch.float64) for seed in (20, 30)]
    source = LineSet.from_segments(torch.cat([own, repeated, clutter[0]]))
    target = LineSet.from_segments(torch.cat([own, turn.act(repeated), turn.act(clutter[1])]))
    best = []
    for fraction in (0.0, JudgementSettings().hiding_fraction):
        settings = replace(ALL_AT_ONCE, judgement=JudgementSettings(hiding_fraction=fraction))
        with torch.inference_mode():
            search, maps = search_of(source, target, settings)
            best.append(maps.original_pose(search.run().candidates[0].refinement.pose).matrix())
    assert torch.allclose(best[0], turn.matrix(), atol=0.05)
    assert torch.allclose(best[1], torch.eye(4).double(), atol=0.05)


def test_nothing_changes_where_no_runner_up_is_hidden(pair):
    assessments = []
    for fraction in (0.0, 1.0):
        settings = replace(ALL_AT_ONCE, judgement=JudgementSettings(hiding_fraction=fraction))
        with torch.inference_mode():
            search, _ = search_of(pair.source, pair.target, settings)
            assessments.append(search.run())
    assert len(assessments[0].candidates) == len(assessments[1].candidates)
    assert assessments[0].weighing == assessments[1].weighing


@pytest.mark.parametrize(("shift", "members"), [(0.05, 1), (0.5, 2)])
def test_a_family_of_poses_that_give_the_same_answer_is_not_ambiguous(shift, members, pair, monkeypatch):
    """The planks of a barn coincide when they are shifted by one; that is no other answer."""

    def shifted_family(best, *_):
        moved = Pose(best.rotation, best.translation + torch.tensor([shift, 0.0, 0.0], dtype=torch.float64))
        ratio, nothing = torch.ones(2), Pose.identity(0)
        return PoseFamily(stacked([best, moved]), ratio, ratio, nothing, nothing)

    monkeypatch.setattr("plueckernet.estimation.search.pose_family", shifted_family)
    with torch.inference_mode():
        assessment = search_of(pair.source, pair.target)[0].run()
    assert assessment.members == members
    assert (assessment.weighing.confidence > 0.9) == (members == 1)
