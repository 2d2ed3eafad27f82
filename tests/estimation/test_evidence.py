"""Facts about candidates."""

import math
from dataclasses import replace

import torch

from plueckernet import register
from plueckernet.data.protocols import AnyProtocol, Noise, ScanProtocol
from plueckernet.estimation.evidence import MATCH_EVIDENCE, Evidence, MatchSupport, coincide_whole, compared
from plueckernet.evaluation.datasets import StandIn
from plueckernet.geometry import LineSet


def test_the_matches_that_stand_out_most_tell_the_agreement():
    """Of many parallel lines half agree with any pose; a third of few distinct ones agree with the right pose only."""
    anywhere = torch.tensor([[10.0, 9.0, 9.5, 8.5, 9.5]])
    here = torch.tensor([[4.0, 0.1, 0.0, 0.2, 0.1]])
    support = MatchSupport.of(torch.stack([anywhere, here]), torch.tensor([[20.0], [12.0]]))
    assert math.isclose(float(support.matcher_agreement[0]), (4.0 + 0.3) / (12 + 10), rel_tol=1e-6)
    assert math.isclose(float(support.chance_matches[0]), 0.1, rel_tol=1e-6)
    assert support.matched_lines.tolist() == [10.0]  # of the first matches, whatever stands out


def test_each_pose_has_its_own_best_matches():
    first = torch.tensor([[5.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    second = torch.tensor([[1.0, 1.0, 1.0], [3.0, 0.0, 0.0]])
    support = MatchSupport.of(torch.stack([first, second]), torch.tensor([[10.0], [10.0]]))
    assert torch.allclose(support.matcher_agreement, torch.tensor([5.3, 3.3]) / 20)
    assert support.matched_lines.tolist() == [5.0, 1.0]


def test_matches_of_less_than_a_line_say_little():
    """A tenth of many matches is a reason to prefer a pose, a tenth of half a match is not."""
    few, many = (
        MatchSupport.of(torch.tensor([[[0.1 * total, 0.0, 0.0], [0.0, 0.0, 0.0]]]), torch.tensor([[total]]))
        for total in (0.5, 100.0)
    )
    agreed, ignored = few.matcher_agreement
    assert agreed < 1.2 * ignored
    agreed, ignored = many.matcher_agreement
    assert agreed > 20 * ignored


def candidate(score: float, explained: float, expected: float) -> Evidence:
    return replace(Evidence.nothing(), score=score, smaller_explained=explained, smaller_expected=expected)


def test_candidates_are_compared_with_the_best_score():
    best, other, rim = compared(
        [candidate(20.0, 0.8, 100.0), candidate(10.0, 0.4, 100.0), candidate(2.0, 0.9, 5.0)], 4.0
    )
    assert (best.deficit, best.runner_up_ratio, best.crowd_ratio) == (0.0, 0.5, 0.2)
    assert math.isclose(other.deficit, (0.8 - 0.4) * 100 / math.sqrt(100 * 0.8 * 0.2 + 4))
    assert (other.runner_up_ratio, other.crowd_ratio) == (2.0, 0.4)
    assert -0.5 < rim.deficit < 0  # most of a few lines at the rim of the maps is not much


def test_a_single_candidate_has_no_runner_up():
    (only,) = compared([candidate(3.0, 0.5, 10.0)], 0.0)
    assert (only.runner_up_ratio, only.deficit) == (None, 0.0)
    assert compared([], 1.0) == []


def test_a_right_pose_has_many_matches_and_a_shifted_one_few():
    pair = StandIn("indoor", 3, 3).pair(AnyProtocol(keep=0.7), 0)
    evidence = register(pair.source, pair.target).evidence
    assert evidence.matched_lines > 20 * evidence.chance_matches > 0
    assert 0 < evidence.rotation_deviation < math.radians(0.5)


def test_noisier_lines_hold_a_rotation_less_firmly():
    noisy = AnyProtocol(keep=0.7, noise=Noise(0.1, None, 5.0, None))
    pairs = [StandIn("indoor", 3, 3).pair(protocol, 0) for protocol in (AnyProtocol(keep=0.7), noisy)]
    clear, vague = (register(pair.source, pair.target).evidence.rotation_deviation for pair in pairs)
    assert vague > 1.5 * clear


def test_evidence_of_nothing_is_zero():
    nothing = Evidence.nothing()
    assert nothing.runner_up_ratio is None
    assert all(getattr(nothing, name) == 0 for name in (*MATCH_EVIDENCE, "inliers", "rotation_deviation"))


def test_segments_coincide_as_a_whole_if_both_ends_do():
    """A shift, another length, and a short segment whose ends are close anyway."""
    along = torch.tensor([0.0, 0.05, 0.3, 0.0, 0.05])
    source = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.1])
    target = torch.tensor([1.0, 0.95, 1.0, 0.5, 0.1])
    assert coincide_whole(along, source, target, 0.1).tolist() == [True, True, False, False, False]
    assert not coincide_whole(along, source, target, 0.04)[1]  # both ends of it differ by 0.1 at most


def test_lines_that_end_at_the_same_places_are_counted():
    pair = StandIn("indoor", 3, 3).pair(ScanProtocol(overlap=0.5), 0)
    evidence = register(pair.source, pair.target).evidence
    ends = torch.lerp(pair.source.endpoints, pair.source.endpoints.flip(1), 0.2)
    cut = LineSet.from_segments(ends)
    assert 0.1 * evidence.inliers < evidence.whole_lines <= evidence.inliers
    assert register(cut, pair.target).evidence.whole_lines < 0.5 * evidence.whole_lines
    assert register(pair.source.infinite(), pair.target.infinite()).evidence.whole_lines == 0
