"""Every verdict text, word by word, and that the texts and colours of a status do not contradict each other."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import DESCRIPTOR_CALIBRATION, Status, judge
from plueckernet.geometry import Pose
from plueckernet.report.words import (
    CANDIDATES_ADVICE,
    CAUSES_ADVICE,
    COMPARE_ADVICE,
    HEADLINES,
    PICTURE_TITLES,
    REQUIRED_CONFIDENCE,
    SENTENCES,
    UNCALIBRATED_NOTE,
    Band,
    as_sentence,
    confidence_band,
    confidence_digits,
    matrix_rows,
    percent,
    translation_digits,
    verdict,
)

REGISTERED, AMBIGUOUS, FAILED = "Registered", "Ambiguous: several poses fit equally well", "Not registered"
ONE_OF_SEVERAL = "The pose shown is one of several. The confidence that it is the correct one is"
GOLDEN = [  # status, confidence, calibrated, headline, sentence, advice
    ("success", 0.999, True, REGISTERED, "The pose is almost certainly correct: its confidence is above 0.99.", ""),
    ("success", 0.97, True, REGISTERED, "The pose is almost certainly correct: its confidence is 0.97.", ""),
    ("success", 0.969, True, REGISTERED, "The pose is very likely correct: its confidence is 0.96.", ""),
    ("success", 0.9, True, REGISTERED, "The pose is very likely correct: its confidence is 0.90.", ""),
    ("success", 0.7, True, REGISTERED, "The pose was accepted, but its confidence is only 0.70.", ""),
    ("success", 0.2, True, REGISTERED, "The pose was accepted, but its confidence is only 0.20.", ""),
    ("success", 0.95, False, REGISTERED, "The pose was accepted with confidence 0.95.", ""),
    ("ambiguous", 0.98, True, AMBIGUOUS, f"{ONE_OF_SEVERAL} 0.98.", COMPARE_ADVICE),
    ("ambiguous", 0.92, True, AMBIGUOUS, f"{ONE_OF_SEVERAL} 0.92.", COMPARE_ADVICE),
    ("ambiguous", 0.5, True, AMBIGUOUS, f"{ONE_OF_SEVERAL} 0.50.", COMPARE_ADVICE),
    ("ambiguous", 0.1, True, AMBIGUOUS, f"{ONE_OF_SEVERAL} 0.10.", COMPARE_ADVICE),
    ("ambiguous", 0.5, False, AMBIGUOUS, f"{ONE_OF_SEVERAL} 0.50.", COMPARE_ADVICE),
    (
        "failed", 0.98, True, FAILED,
        "No pose was accepted, although the best candidate has confidence 0.98.", CANDIDATES_ADVICE,
    ),
    (
        "failed", 0.93, True, FAILED,
        "No pose was accepted, although the best candidate has confidence 0.93.", CANDIDATES_ADVICE,
    ),
    (
        "failed", 0.8999, True, FAILED,
        "No pose was accepted. The best candidate has confidence 0.89, below the 0.9 required.", CANDIDATES_ADVICE,
    ),
    (
        "failed", 0.72, True, FAILED,
        "No pose was accepted. The best candidate has confidence 0.72, below the 0.9 required.", CANDIDATES_ADVICE,
    ),
    (
        "failed", 0.12, True, FAILED,
        "No pose was accepted. The best candidate is probably wrong: its confidence is 0.12, and 0.9 is required.",
        CANDIDATES_ADVICE,
    ),
    (
        "failed", 0.001, True, FAILED,
        "No pose was accepted. The best candidate is probably wrong:"
        " its confidence is below 0.01, and 0.9 is required.",
        CANDIDATES_ADVICE,
    ),
    (
        "failed", 0.72, False, FAILED,
        "No pose was accepted. The best candidate has confidence 0.72.", CANDIDATES_ADVICE,
    ),
]  # fmt: skip


def outcome(status: str, sure: float, calibrated: bool = True, inliers: int = 9) -> SimpleNamespace:
    """As much of a result as its verdict needs."""
    return SimpleNamespace(
        status=Status(status), confidence=sure, calibrated=calibrated, inliers=range(inliers), settings={}
    )


@pytest.mark.parametrize(("status", "sure", "calibrated", "headline", "sentence", "advice"), GOLDEN)
def test_the_text_of_each_status_and_band(status, sure, calibrated, headline, sentence, advice) -> None:
    text = verdict(outcome(status, sure, calibrated))
    assert (text.headline, text.sentence, text.advice) == (headline, sentence, advice)
    assert text.note == ("" if calibrated else "The confidence is not calibrated for this matcher.")
    assert text.summary == (sentence if calibrated else f"{sentence} {UNCALIBRATED_NOTE}")


def test_a_failure_without_a_candidate() -> None:
    for calibrated in (True, False):
        text = verdict(outcome("failed", 0.0, calibrated, inliers=0))
        assert text.headline == "Not registered"
        assert text.summary == "No pose was accepted, and no candidate was found."
        assert text.advice == CAUSES_ADVICE


def test_advice() -> None:
    causes = "the maps may have too little in common, differ in unit, or need a larger inlier threshold."
    assert verdict(outcome("success", 0.95)).advice == ""
    compare = "Compare the alternatives. The maps alone cannot tell which of them is correct."
    assert verdict(outcome("ambiguous", 0.5)).advice == compare
    assert verdict(outcome("failed", 0.0, inliers=0)).advice == f"T{causes[1:]}"
    candidates = "Look at the candidates. If one of them is correct, refine it in the viewer (plueckernet view)."
    assert verdict(outcome("failed", 0.5)).advice == f"{candidates} If none of them is correct, {causes}"


def test_the_golden_table_has_every_text() -> None:
    listed = {(Status(status), confidence_band(outcome(status, sure, known))) for status, sure, known, *_ in GOLDEN}
    assert listed | {(Status.FAILED, Band.NO_CANDIDATE)} == set(SENTENCES)
    expected = {(status, band) for status in Status for band in Band if band is not Band.NO_CANDIDATE}
    assert listed == expected
    assert set(HEADLINES) == set(PICTURE_TITLES) == set(Status)


@pytest.mark.parametrize("status", Status)
def test_no_text_contradicts_its_status(status) -> None:
    for hundredths in range(101):
        for calibrated in (True, False):
            words = verdict(outcome(status, hundredths / 100, calibrated)).summary
            assert ("correct" in words and "one of several" not in words) <= (status is Status.SUCCESS)
            assert ("one of several" in words) == (status is Status.AMBIGUOUS)
            assert ("No pose was accepted" in words) == (status is Status.FAILED)
            assert ("almost certainly" in words or "very likely" in words) <= calibrated


def test_labels_are_short() -> None:
    labels = [verdict(outcome(status, 0.5)).label for status in Status]
    assert labels == ["Registered", "Ambiguous", "Not registered"]


def test_the_required_confidence_is_the_one_that_judges() -> None:
    """Results on both sides of the limit, between which only the explained fraction changes."""
    for explained in torch.linspace(0.01, 1, 200).tolist():
        evidence = Evidence(40, 0.6, 0.5, 0.9, explained, 12.0, 0.4)
        judged = judge(evidence, DESCRIPTOR_CALIBRATION)
        assert (judged.status is Status.SUCCESS) == (judged.confidence >= REQUIRED_CONFIDENCE)


def test_another_required_confidence_is_named() -> None:
    strict = outcome("failed", 0.8)
    strict.settings = {"judgement": {"min_confidence": 0.99}}
    assert "0.99 required" in verdict(strict).sentence


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "above 0.99"), (0.99, "0.99"), (0.8999, "0.89"), (0.29, "0.29"), (0.01, "0.01"), (0.004, "below 0.01")],
)
def test_the_confidence_is_rounded_down(value, text) -> None:
    assert confidence_digits(value) == text


@pytest.mark.parametrize(
    ("fraction", "text"), [(1.0, "100%"), (274 / 275, ">99%"), (0.994, "99%"), (0.5, "50%"), (0.0, "0%"), (1.2, "120%")]
)
def test_only_the_whole_is_a_hundred_percent(fraction, text) -> None:
    assert percent(fraction) == text


def test_a_reason_becomes_a_sentence() -> None:
    assert as_sentence("12 lines coincide") == "12 lines coincide."
    assert as_sentence("no pose was found") == "No pose was found."


def test_digits_follow_the_uncertainty() -> None:
    pose = Pose(torch.eye(3, dtype=torch.float64), torch.tensor([1.23456, -20.0, 0.0], dtype=torch.float64))
    assert translation_digits(pose, 0.01) == ["1.235", "-20.000", "0.000"]
    assert translation_digits(pose, 5.0) == ["1.2", "-20.0", "0.0"]
    assert matrix_rows(pose, 5.0)[0] == " 1.000000  0.000000  0.000000   1.2"
