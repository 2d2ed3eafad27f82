"""The verdict follows the evidence, and the calibrations are those that were fitted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from plueckernet.errors import InputError
from plueckernet.estimation.evidence import Evidence, lateral_support
from plueckernet.estimation.judgement import (
    DESCRIPTOR_CALIBRATION,
    FEATURES,
    Calibration,
    JudgementSettings,
    Status,
    judge,
)
from plueckernet.matchers import load_matcher

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
GOOD = Evidence(100, 0.7, 0.3, 0.9, 0.8, 40.0, 0.6)
SYMMETRIC = Evidence(100, 0.95, 0.97, 1.0, 0.95, 50.0, 0.5)
DOUBTFUL = Evidence(30, 0.1, 0.6, 0.8, 0.2, 10.0, 0.6)
BY_CHANCE = Evidence(15, 0.08, 0.9, 0.9, 0.2, 5.0, 0.05)
LEARNED = load_matcher("invariant").calibration


@pytest.mark.parametrize("name", ["descriptors", "invariant", "pluecker-indoor", "pluecker-outdoor"])
def test_calibrations_are_the_fitted_ones(name):
    """After plueckernet evaluate confidence."""
    document = json.loads((RESULTS / f"confidence_{name}.json").read_text())
    assert load_matcher(name).calibration == Calibration.from_dict(document["values"]["calibration"])


@pytest.mark.parametrize("calibration", [DESCRIPTOR_CALIBRATION, LEARNED], ids=["descriptors", "invariant"])
def test_more_evidence_is_more_confidence(calibration):
    base = Evidence(40, 0.3, 0.6, 0.8, 0.4, 15.0, 0.3)
    confidence = calibration.confidence
    assert confidence(replace(base, runner_up_ratio=0.8)) < confidence(base)
    assert confidence(replace(base, size_ratio=0.05)) < confidence(base)
    assert confidence(replace(base, explained_fraction=0.6)) > confidence(base)
    if "matcher_agreement" in calibration.weights:
        assert confidence(replace(base, matcher_agreement=0.5)) > confidence(base)
    else:
        assert confidence(replace(base, matcher_agreement=0.5)) == confidence(base)


@pytest.mark.parametrize(
    ("evidence", "calibration", "status"),
    [
        (GOOD, DESCRIPTOR_CALIBRATION, Status.SUCCESS),
        (GOOD, LEARNED, Status.SUCCESS),
        (DOUBTFUL, LEARNED, Status.SUCCESS),
        (replace(DOUBTFUL, matcher_agreement=0.02), LEARNED, Status.FAILED),  # the matcher expected other pairs
        (replace(GOOD, lateral_support=0.3), LEARNED, Status.AMBIGUOUS),  # all lines along one street
        (SYMMETRIC, DESCRIPTOR_CALIBRATION, Status.AMBIGUOUS),
        (SYMMETRIC, LEARNED, Status.AMBIGUOUS),
        (BY_CHANCE, DESCRIPTOR_CALIBRATION, Status.FAILED),
        (BY_CHANCE, LEARNED, Status.FAILED),
        (Evidence.nothing((9, 9)), LEARNED, Status.FAILED),
    ],
)
def test_verdicts(evidence, calibration, status):
    verdict = judge(evidence, calibration)
    assert verdict.status is status
    assert verdict.reason
    assert 0 <= verdict.confidence <= 1
    assert verdict.calibrated


def test_an_ambiguous_pose_has_no_high_confidence():
    assert judge(SYMMETRIC, LEARNED).confidence <= 0.5


def test_without_a_calibration_the_verdict_says_so():
    verdict = judge(GOOD, None)
    assert not verdict.calibrated
    assert verdict.confidence == DESCRIPTOR_CALIBRATION.confidence(GOOD)


def test_a_runner_up_that_was_not_found_is_no_number():
    single = replace(GOOD, runner_up_ratio=None)
    assert "no other pose" in judge(single, LEARNED).reason
    assert "30%" in judge(GOOD, LEARNED).reason
    # A measured ratio of just the assumed value is still a measured one.
    assert "70%" in judge(replace(GOOD, runner_up_ratio=0.7), LEARNED).reason
    assert LEARNED.confidence(single) == LEARNED.confidence(replace(GOOD, runner_up_ratio=0.7))


def test_the_required_confidence_is_a_setting():
    strict = JudgementSettings(min_confidence=1.0)
    assert judge(GOOD, LEARNED, strict).status is Status.FAILED
    with pytest.raises(InputError, match="min_confidence"):
        JudgementSettings(min_confidence=1.1)


@pytest.mark.parametrize(
    "document",
    [
        {"weights": {"surprise": 1.0}, "fitted_on": ""},
        {"weights": {"constant": "many"}, "fitted_on": ""},
        {"weights": {"constant": float("nan")}, "fitted_on": ""},
        {"weights": {}},
        {"weights": [1.0], "fitted_on": ""},
    ],
)
def test_a_calibration_that_makes_no_sense_is_refused(document):
    with pytest.raises(InputError):
        Calibration.from_dict(document)


def test_every_feature_is_finite_for_any_evidence():
    for evidence in (Evidence.nothing((3, 9)), GOOD, BY_CHANCE, replace(GOOD, normalized_score=0.0)):
        assert all(abs(feature(evidence)) < 1e3 for feature in FEATURES.values())


def test_parallel_lines_have_no_lateral_support():
    along, across = torch.tensor([[1.0, 0.0, 0.0]] * 5), torch.tensor([[0.0, 0.6, 0.8]] * 2)
    assert lateral_support(along) == pytest.approx(0, abs=1e-6)
    assert lateral_support(torch.cat([along, across])) == pytest.approx(2, abs=1e-5)
    assert lateral_support(along[:0]) == 0
