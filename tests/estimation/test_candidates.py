"""Candidates are distinct, best first, and none where no hypothesis explains anything."""

from dataclasses import replace

import pytest
import torch
from tests.estimation.lines_for_tests import errors, matched_lines

from plueckernet.estimation.candidates import CandidateSettings, _crowd, polished, select_candidates
from plueckernet.estimation.distinct import Distinctness, are_close, distinct_poses
from plueckernet.estimation.ransac import Hypotheses, ransac_pose
from plueckernet.estimation.scoring import InlierThreshold, RowScorer
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry import Pose
from plueckernet.geometry.pose import stacked

THRESHOLD = InlierThreshold(0.4, 0.14)


@pytest.fixture(scope="module")
def search():
    source, target, pose, _ = matched_lines(wrong=0.6, seed=3)
    scorer, weight = RowScorer(source, target, THRESHOLD), torch.ones(len(source), dtype=torch.float64)
    return scorer, MapScorer(source, target, THRESHOLD), ransac_pose(scorer, weight), pose


def test_the_right_pose_is_the_first_candidate(search):
    scorer, maps, hypotheses, pose = search
    candidates = select_candidates(hypotheses, scorer, maps)
    turn, shift = errors(candidates.poses[0], pose)
    assert turn < 3
    assert shift < 0.3
    scores = [float(maps.scores(Pose(c.rotation[None], c.translation[None]))) for c in candidates.poses]
    assert scores == sorted(scores, reverse=True)
    assert 0 < candidates.crowd < scores[0]


def test_candidates_are_limited(search):
    scorer, maps, hypotheses, _ = search
    limited = CandidateSettings(max_candidates=2, min_candidate_score_ratio=0.0)
    assert len(select_candidates(hypotheses, scorer, maps, limited).poses) <= 2


def test_half_of_the_candidates_are_those_that_explain_most_of_what_both_maps_fill(search, monkeypatch):
    """Whatever their score is: where the maps share little, a right pose explains fewer lines than many wrong ones."""
    scorer, maps, hypotheses, _ = search
    by_score = CandidateSettings(max_distinct=50, max_verified=20, max_polished=20, max_candidates=4)
    mixed = replace(by_score, by_shared_volume=True)
    first = select_candidates(hypotheses, scorer, maps, by_score).poses
    monkeypatch.setattr(MapScorer, "shared_fractions", lambda self, poses: -self.compared_scores(poses))
    chosen = select_candidates(hypotheses, scorer, maps, mixed).poses
    assert len(first) <= len(chosen) == 4
    assert torch.equal(chosen[0].rotation, first[0].rotation)
    scores = [float(maps.compared_scores(stacked([pose]))) for pose in chosen]
    assert scores == sorted(scores, reverse=True)
    assert max(scores[2:]) < by_score.min_candidate_score_ratio * scores[0]  # they explain least of all
    monkeypatch.setattr(MapScorer, "shared_fractions", lambda *_: None)  # of infinite lines
    assert len(select_candidates(hypotheses, scorer, maps, mixed).poses) == len(first)


def test_polishing_brings_a_rough_pose_nearer(search):
    scorer, _, _, pose = search
    rough = Pose.exp(torch.tensor([[0.02, -0.02, 0.01, 0.05, 0.05, -0.05]], dtype=torch.float64)) @ pose
    before, after = (errors(candidate, pose) for candidate in (rough[0], polished(rough, scorer)[0]))
    assert after[0] < before[0]
    assert after[1] < before[1]


def test_distinct_poses_are_far_enough_apart(search):
    _, _, hypotheses, _ = search
    rows = distinct_poses(hypotheses.poses, hypotheses.scores, THRESHOLD, 50)
    chosen = [hypotheses.poses[row] for row in rows]
    assert 1 < len(chosen) <= 50
    assert not any(are_close(a, b, THRESHOLD) for i, a in enumerate(chosen) for b in chosen[:i])
    coarse = distinct_poses(hypotheses.poses, hypotheses.scores, THRESHOLD, 50, Distinctness(1e3, 3.1 / 0.14))
    assert len(coarse) < len(rows)


def test_poses_are_compared_block_by_block_as_all_at_once(search, monkeypatch):
    _, _, hypotheses, _ = search
    at_once = distinct_poses(hypotheses.poses, hypotheses.scores, THRESHOLD, 50)
    monkeypatch.setattr("plueckernet.estimation.distinct._BLOCK", 7)
    assert torch.equal(distinct_poses(hypotheses.poses, hypotheses.scores, THRESHOLD, 50), at_once)


@pytest.mark.parametrize("count", [0, 3])
def test_hypotheses_without_any_score_give_no_candidate(search, count):
    scorer, maps, _, _ = search
    shift = torch.full((count, 3), 1e3, dtype=torch.float64)
    poses = Pose(torch.eye(3, dtype=torch.float64).expand(count, 3, 3), shift)
    nothing = Hypotheses(poses, torch.zeros(count), drawn=1, limit=10)
    assert select_candidates(nothing, scorer, maps).poses == ()


def test_repetitions_of_the_best_pose_are_no_crowd():
    wrong = torch.linspace(4, 2, 40)
    single, repeated = (torch.cat([torch.full((count,), 10.0), wrong]) for count in (1, 24))
    assert _crowd(single) == pytest.approx(_crowd(repeated))
    assert 2 < _crowd(repeated) < 4
    assert _crowd(torch.full((12,), 10.0)) == 0.0
