"""Every verdict text, word by word, and that no text, number or colour of a result contradicts another."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import DESCRIPTOR_CALIBRATION, Status, judge, weigh
from plueckernet.geometry import Pose
from plueckernet.report.words import (
    ADVICE,
    HEADLINES,
    IN_REPORT,
    IN_TERMINAL,
    IN_VIEWER,
    LIKELY_CONFIDENCE,
    PICTURE_TITLES,
    SENTENCES,
    UNCALIBRATED_NOTE,
    UNITS_ADVICE,
    Case,
    Medium,
    as_sentence,
    confidence_digits,
    matrix_rows,
    percent,
    pose_names,
    translation_digits,
    verdict,
    verdict_case,
)

SEVERAL = "Ambiguous: two or more poses fit equally well"
UNRELIABLE = "Not registered: no pose is reliable enough"
ONE_OF_SEVERAL = "The pose shown is one of several."
WHERE = "in the report (--report) or the viewer (plueckernet view)"
CHECK = f"Look at the pose {WHERE} before you use it."
COMPARE = (
    f"Compare the pose with alternatives 1 to 3 {WHERE}."
    " What you know of the place decides, or lines that make it less regular."
)
LOOK = f"Look at candidates 1 to 3 {WHERE}; the viewer (plueckernet view) can refine a correct one."
MORE = "More or longer lines, a larger part of the place in common, or a larger --inlier-threshold may help."
LOWER = "A lower --min-confidence accepts such poses, but also more wrong ones."
GOLDEN = [  # status, confidence, calibrated, headline, sentence, advice
    ("success", 0.999, True, "Registered", "The pose is almost certainly correct: its confidence is above 0.99.", ""),
    ("success", 0.97, True, "Registered", "The pose is almost certainly correct: its confidence is 0.97.", ""),
    ("success", 0.969, True, "Registered", "The pose is very likely correct: its confidence is 0.96.", ""),
    ("success", 0.9, True, "Registered", "The pose is very likely correct: its confidence is 0.90.", ""),
    ("success", 0.7, True, "Registered", "The pose was accepted with confidence 0.70.", CHECK),
    ("success", 0.95, False, "Registered", "The pose was accepted with confidence 0.95.", CHECK),
    (
        "ambiguous", 0.98, True, SEVERAL,
        f"{ONE_OF_SEVERAL} The maps do not tell which of them is the correct one.", COMPARE,
    ),
    (
        "ambiguous", 0.25, True, SEVERAL,
        f"{ONE_OF_SEVERAL} The confidence that it is the correct one is 0.25.", COMPARE,
    ),
    (
        "ambiguous", 0.1, False, SEVERAL,
        f"{ONE_OF_SEVERAL} The confidence that it is the correct one is 0.10.", COMPARE,
    ),
    (
        "failed", 0.98, True, UNRELIABLE,
        "No pose was accepted, for another reason than the confidence.", f"{LOOK} {MORE}",
    ),
    (
        "failed", 0.8999, True, UNRELIABLE,
        "No pose was accepted: the best candidate has confidence 0.89, and 0.9 is required.", f"{LOOK} {LOWER}",
    ),
    (
        "failed", 0.12, True, UNRELIABLE,
        "No pose was accepted. The best candidate is probably wrong: its confidence is 0.12, and 0.9 is required.",
        f"{LOOK} {MORE}",
    ),
    (
        "failed", 0.001, True, UNRELIABLE,
        "No pose was accepted. The best candidate is probably wrong:"
        " its confidence is below 0.01, and 0.9 is required.",
        f"{LOOK} {MORE}",
    ),
    (
        "failed", 0.72, False, UNRELIABLE,
        "No pose was accepted. The best candidate has confidence 0.72.", f"{LOOK} {MORE}",
    ),
]  # fmt: skip
MOTION = "translation along (0.00, 0.00, 1.00) of the target frame"
WARNING = "The source looks about 1000 times larger than the target."


def outcome(status: str, sure: float, calibrated: bool = True, **changes: object) -> SimpleNamespace:
    """As much of a result as its verdict needs."""
    values: dict[str, object] = {
        "inliers": range(9), "settings": {}, "alternatives": range(3), "unobservable": (), "warnings": (),
    }  # fmt: skip
    return SimpleNamespace(status=Status(status), confidence=sure, calibrated=calibrated, **(values | changes))


def unobservable(count: int) -> tuple[SimpleNamespace, ...]:
    """Motions that no line fixes."""
    return (SimpleNamespace(describe=lambda: MOTION),) * count


def required(value: float) -> dict[str, object]:
    """Settings with another required confidence."""
    return {"judgement": {"min_confidence": value}}


@pytest.mark.parametrize(("status", "sure", "calibrated", "headline", "sentence", "advice"), GOLDEN)
def test_the_text_of_each_status_and_confidence(status, sure, calibrated, headline, sentence, advice) -> None:
    text = verdict(outcome(status, sure, calibrated))
    assert (text.headline, text.sentence, text.advice) == (headline, sentence, advice)
    assert text.note == ("" if calibrated else "The confidence is not calibrated for this matcher.")
    assert text.summary == (sentence if calibrated else f"{sentence} {UNCALIBRATED_NOTE}")


def test_a_failure_without_a_candidate() -> None:
    for calibrated in (True, False):
        text = verdict(outcome("failed", 0.0, calibrated, inliers=(), alternatives=()))
        assert text.headline == "Not registered: no pose fits both maps"
        assert text.summary == "No pose was accepted, and no candidate was found."
        assert text.advice == MORE


def test_an_unobservable_motion_is_named() -> None:
    text = verdict(outcome("ambiguous", 0.5, unobservable=unobservable(1)))
    assert text.headline == f"Ambiguous: {MOTION} cannot be determined"
    assert text.sentence == f"The pose shown is one of many, which differ by {MOTION}."
    assert text.advice == "Use the pose only for the other motions, or add lines of other directions."
    text = verdict(outcome("ambiguous", 0.5, alternatives=()))
    assert text.headline == "Ambiguous: the lines do not determine the pose"


def test_the_number_of_other_poses_is_the_number_in_the_report() -> None:
    assert "with alternative 1 in" in verdict(outcome("ambiguous", 0.5, alternatives=range(1))).advice
    assert "Look at candidate 1 in" in verdict(outcome("failed", 0.7, alternatives=range(1))).advice
    shown = outcome("ambiguous", 0.5, alternatives=range(2), target_T_source=Pose.identity(), ok=False)
    assert pose_names(shown) == ["best pose", "alternative 1", "alternative 2"]
    shown.ok = True
    assert pose_names(shown)[0] == "registered"
    shown.target_T_source = None
    assert pose_names(shown) == ["candidate 1", "candidate 2"]


@pytest.mark.parametrize("status", Status)
def test_a_doubt_about_the_units_comes_first(status) -> None:
    text = verdict(outcome(status, 0.95, warnings=(WARNING,)))
    assert text.warnings == (WARNING,)
    assert text.advice == "Check the units: convert one of the maps if they differ, and register again."


def test_a_lowered_and_a_raised_requirement_are_named() -> None:
    text = verdict(outcome("success", 0.7, settings=required(0.5)))
    assert text.sentence == "The pose was accepted with confidence 0.70: at least 0.5 was required."
    assert "0.80, and 0.99 is required" in verdict(outcome("failed", 0.8, settings=required(0.99))).sentence
    assert "0.9950, and 0.999 is required" in verdict(outcome("failed", 0.995, settings=required(0.999))).sentence


def every_outcome() -> Iterator[SimpleNamespace]:
    """All statuses, confidences, requirements, numbers of alternatives, unobservable motions and warnings."""
    sure = [0.0, 0.004, 0.01, 0.3, 0.4999, 0.5, 0.51, 0.7, 0.8999, 0.9, 0.95, 0.97, 0.99, 0.9951, 0.99999, 1.0]
    limits = [0.0, 0.005, 0.3, 0.5, 0.9, 0.97, 0.99, 0.999, 1.0]
    for status, value, limit, others, motions, warned, calibrated in itertools.product(
        Status, sure, limits, (0, 1, 5), (0, 1, 2), (False, True), (False, True)
    ):
        yield outcome(
            status, value, calibrated, settings=required(limit), alternatives=range(others),
            inliers=range(9 if others or status is not Status.FAILED else 0),
            unobservable=unobservable(motions), warnings=(WARNING,) if warned else (),
        )  # fmt: skip


def contradictions(result: SimpleNamespace, place: Medium) -> Iterator[str]:
    """What two texts of a result say against each other, or a text against a value."""
    text, status, sure = verdict(result, place), result.status, result.confidence
    limit = result.settings["judgement"]["min_confidence"]
    claims = re.search(r"almost certainly|very likely", text.sentence) is not None
    number = re.search(r"confidence (?:that it is the correct one )?(?:is )?((?:above |below )?\d\.\d+)", text.sentence)
    opening = {"success": "Registered", "ambiguous": "Ambiguous", "failed": "Not registered"}[status]
    checks = {
        "headline of another status": text.label == opening,
        "accepted and not accepted": ("No pose was accepted" in text.sentence) == (status is Status.FAILED),
        "one of several, but decided": ("The pose shown is one of" in text.sentence) == (status is Status.AMBIGUOUS),
        "a claim without a calibrated confidence": claims <= (status is Status.SUCCESS and sure >= 0.9),
        "a claim of an uncalibrated confidence": claims <= result.calibrated,
        "wrong, but more likely right": ("probably wrong" in text.sentence) <= (status is Status.FAILED and sure < 0.5),
        "a bar without a number": text.shows_confidence == (number is not None),
        "ambiguous, but one pose is favoured": not (
            status is Status.AMBIGUOUS and number and sure * (1 + len(result.alternatives)) > 1.0001
        ),
        "a note on a number that is not given": (text.note != "") == (text.shows_confidence and not result.calibrated),
        "unobservable, but not named": (MOTION in text.headline)
        == (status is Status.AMBIGUOUS and bool(result.unobservable)),
        "several poses, but no other": (text.headline == SEVERAL) <= bool(result.alternatives),
        "unfinished text": not re.search(r"[{}]|  ", text.headline + text.summary + text.advice),
    }
    if number and "is required" in text.sentence:
        shown = float(number[1].split()[-1])
        checks["failed at or above the requirement"] = sure < limit and (number[1].startswith("below") or shown < limit)
    if number and "was required" in text.sentence:
        checks["accepted below the requirement"] = limit <= sure < 0.9
    yield from (name for name, holds in checks.items() if not holds)


def unfit_advice(result: SimpleNamespace, place: Medium) -> Iterator[str]:
    """Advice that does not fit the result."""
    text, status = verdict(result, place), result.status
    limit, others = result.settings["judgement"]["min_confidence"], len(result.alternatives)
    clear = status is Status.SUCCESS and result.calibrated and result.confidence >= 0.9
    lower = status is Status.FAILED and result.calibrated and result.confidence < limit
    checks = {
        "nothing to do": (text.advice == "") == (clear and not result.warnings),
        "units": (text.advice == UNITS_ADVICE) == bool(result.warnings),
        "alternatives": ("alternative" in text.advice) <= (status is Status.AMBIGUOUS and others > 0),
        "candidates": ("candidate" in text.advice) <= (status is Status.FAILED and others > 0),
        "a lower requirement": ("lower --min-confidence" in text.advice) <= lower,
        "the report has no option": (place is IN_TERMINAL) or "(--report)" not in text.advice,
        "number": all(int(number) in (1, others) for number in re.findall(r"\d+", text.advice)),
        "length": text.advice.count(". ") <= 1,
    }
    yield from (f"advice: {name}" for name, holds in checks.items() if not holds)


def test_no_text_contradicts_another() -> None:
    for result, place in itertools.product(every_outcome(), (IN_TERMINAL, IN_REPORT, IN_VIEWER)):
        problems = [*contradictions(result, place), *unfit_advice(result, place)]
        assert not problems, (problems, vars(result), verdict(result))


def test_every_case_occurs_and_has_a_text() -> None:
    assert {verdict_case(result) for result in every_outcome()} == set(Case)
    assert set(Case) == set(SENTENCES) == set(HEADLINES) == set(ADVICE)
    assert set(PICTURE_TITLES) == set(Status)


def test_the_likely_confidence_is_the_one_that_judges() -> None:
    """Results on both sides of the limit, between which only the explained fraction changes."""
    for explained in torch.linspace(0.01, 1, 200).tolist():
        known = {"inliers": 40, "score": 30.0, "stand_out": 8.0, "lateral_support": 12.0}
        evidence = replace(Evidence.nothing(), **known, smaller_explained=explained, explained_fraction=explained)
        judged = judge(evidence, weigh([evidence], [0], DESCRIPTOR_CALIBRATION))
        assert (judged.status is Status.SUCCESS) == (judged.confidence >= LIKELY_CONFIDENCE)


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
