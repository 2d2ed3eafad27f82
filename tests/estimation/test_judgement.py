"""The verdict follows the evidence, and the weights are those that were fitted."""

import json
from pathlib import Path

import pytest

from plueckernet.estimation.judgement import WEIGHTS, Evidence, Status, confidence, judge

RESULT = Path(__file__).parents[2] / "benchmarks" / "results" / "confidence.json"


def test_weights_are_the_fitted_ones():
    assert json.loads(RESULT.read_text())["weights"] == pytest.approx(list(WEIGHTS))


def test_more_evidence_is_more_confidence():
    base = Evidence(inliers=40, share=0.3, rival=0.6, balance=0.8)
    assert confidence(Evidence(80, 0.3, 0.6, 0.8)) > confidence(base)
    assert confidence(Evidence(40, 0.4, 0.6, 0.8)) > confidence(base)
    assert confidence(Evidence(40, 0.3, 0.8, 0.8)) < confidence(base)
    assert confidence(Evidence(40, 0.3, 0.6, 0.05)) < confidence(base)


@pytest.mark.parametrize(
    ("evidence", "status"),
    [
        (Evidence(100, 0.7, 0.3, 0.9), Status.SUCCESS),
        (Evidence(100, 0.95, 0.97, 1.0), Status.AMBIGUOUS),
        (Evidence(15, 0.08, 0.9, 0.9), Status.FAILED),
        (Evidence(0, 0.0, 1.0, 1.0), Status.FAILED),
    ],
)
def test_verdicts(evidence, status):
    verdict = judge(evidence)
    assert verdict.status is status
    assert verdict.reason
    assert 0 <= verdict.confidence <= 1


def test_an_ambiguous_pose_is_not_called_likely():
    assert judge(Evidence(100, 0.95, 0.97, 1.0)).confidence <= 0.5
