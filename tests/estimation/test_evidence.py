"""Facts about candidates."""

import math

import torch

from plueckernet import register
from plueckernet.data.protocols import AnyProtocol, Noise
from plueckernet.estimation.evidence import MATCH_EVIDENCE, Evidence, MatchSupport
from plueckernet.evaluation.datasets import StandIn


def test_the_matches_that_stand_out_most_tell_the_agreement():
    """Of many parallel lines half agree with any pose; a third of few distinct ones agree with the right pose only."""
    anywhere = torch.tensor([[10.0, 9.0, 9.5, 8.5, 9.5]])
    here = torch.tensor([[4.0, 0.1, 0.0, 0.2, 0.1]])
    support = MatchSupport.of(torch.stack([anywhere, here]), torch.tensor([[20.0], [12.0]]))
    assert support.matcher_agreement.tolist() == [float(torch.tensor(4.0) / 12)]
    assert math.isclose(float(support.chance_matches[0]), 0.1, rel_tol=1e-6)
    assert support.matched_lines.tolist() == [10.0]  # of the first matches, whatever stands out


def test_each_pose_has_its_own_best_matches():
    first = torch.tensor([[5.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    second = torch.tensor([[1.0, 1.0, 1.0], [3.0, 0.0, 0.0]])
    support = MatchSupport.of(torch.stack([first, second]), torch.tensor([[10.0], [10.0]]))
    assert torch.allclose(support.matcher_agreement, torch.tensor([0.5, 0.3]))
    assert support.matched_lines.tolist() == [5.0, 1.0]


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
