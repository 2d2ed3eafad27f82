"""The verdict follows the evidence, and the weights are those that were fitted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from plueckernet.estimation.judgement import LEARNED, PLAIN, Evidence, Status, confidence, held, judge

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
GOOD = Evidence(inliers=100, share=0.7, rival=0.3, balance=0.9, borne_out=0.8, held=40.0)
SYMMETRIC = Evidence(inliers=100, share=0.95, rival=0.97, balance=1.0, borne_out=0.95, held=50.0)
DOUBTFUL = Evidence(inliers=30, share=0.1, rival=0.6, balance=0.8, borne_out=0.2, held=10.0)
BY_CHANCE = Evidence(inliers=15, share=0.08, rival=0.9, balance=0.9, borne_out=0.2, held=5.0)
NOTHING = Evidence(inliers=0, share=0.0, rival=1.0, balance=1.0, borne_out=0.0, held=0.0)


@pytest.mark.parametrize(("name", "weights"), [("invariant", LEARNED), ("descriptors", PLAIN)])
def test_weights_are_the_fitted_ones(name, weights):
    document = json.loads((RESULTS / f"confidence_{name}.json").read_text())
    assert document["values"]["calibration"]["weights"] == pytest.approx(list(weights))


@pytest.mark.parametrize("agreement", [None, 0.3])
def test_more_evidence_is_more_confidence(agreement):
    base = Evidence(inliers=40, share=0.3, rival=0.6, balance=0.8, borne_out=0.4, held=15.0, agreement=agreement)
    assert confidence(replace(base, rival=0.8)) < confidence(base)
    assert confidence(replace(base, balance=0.05)) < confidence(base)
    assert confidence(replace(base, borne_out=0.6)) > confidence(base)
    if agreement is not None:
        assert confidence(replace(base, agreement=0.5)) > confidence(base)


@pytest.mark.parametrize(
    ("evidence", "status"),
    [
        (GOOD, Status.SUCCESS),
        (replace(GOOD, agreement=0.6), Status.SUCCESS),
        (replace(DOUBTFUL, agreement=0.6), Status.SUCCESS),
        (replace(DOUBTFUL, agreement=0.02), Status.FAILED),  # the matcher had expected something else
        (replace(GOOD, agreement=0.6, held=0.3), Status.AMBIGUOUS),  # all along one street
        (SYMMETRIC, Status.AMBIGUOUS),
        (replace(SYMMETRIC, agreement=0.5), Status.AMBIGUOUS),
        (BY_CHANCE, Status.FAILED),
        (replace(BY_CHANCE, agreement=0.05), Status.FAILED),
        (NOTHING, Status.FAILED),
    ],
)
def test_verdicts(evidence, status):
    verdict = judge(evidence)
    assert verdict.status is status
    assert verdict.reason
    assert 0 <= verdict.confidence <= 1


def test_an_ambiguous_pose_is_not_called_likely():
    assert judge(SYMMETRIC).confidence <= 0.5


def test_parallel_lines_hold_nothing_along_them():
    along, across = torch.tensor([[1.0, 0.0, 0.0]] * 5), torch.tensor([[0.0, 0.6, 0.8]] * 2)
    assert held(along) == pytest.approx(0, abs=1e-6)
    assert held(torch.cat([along, across])) == pytest.approx(2, abs=1e-5)
    assert held(along[:0]) == 0
