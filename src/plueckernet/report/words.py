"""The texts and number formats that the terminal, the report, the viewer and the pictures have in common.

`verdict` is the only place that puts a status and a confidence into words, so that no two outputs disagree.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plueckernet.estimation.judgement import JudgementSettings, Status
from plueckernet.estimation.strays import LEFT_OUT

if TYPE_CHECKING:
    from plueckernet.geometry.similarity import Transform
    from plueckernet.result import RegistrationResult

LIKELY_CONFIDENCE = JudgementSettings().min_confidence
CERTAIN_CONFIDENCE = 0.97
_EVEN = 0.5  # below it a pose is more likely wrong than right


class Case(enum.StrEnum):
    """What can be said of a result; each case has one sentence."""

    CERTAIN = "success, 0.97 or more"
    LIKELY = "success, 0.9 or more"
    ACCEPTED = "success below 0.9: a lower confidence was required"
    ACCEPTED_UNCALIBRATED = "success, the confidence is not a probability"
    ACCEPTED_OTHERWISE = "success although a higher confidence was required, as in a file that was edited"
    SEVERAL = "ambiguous, several poses"
    SEVERAL_UNNUMBERED = "ambiguous, several poses, and a confidence that would favour one of them"
    UNOBSERVABLE = "ambiguous, some motion is unobservable"
    UNDETERMINED = "ambiguous, without alternatives"
    UNCERTAIN = "failed, 0.5 or more, but less than required"
    PROBABLY_WRONG = "failed, below 0.5 and less than required"
    REJECTED = "failed for another reason than its confidence"
    REJECTED_UNCALIBRATED = "failed, the confidence is not a probability"
    NO_CANDIDATE = "failed, no pose to talk about"


@dataclass(frozen=True)
class Medium:
    """Where the reader of a verdict sees the poses."""

    pose: str
    others: str
    refining: str = "the viewer (plueckernet view) can refine a correct one"


_REPORT_OR_VIEWER = "in the report (--report) or the viewer (plueckernet view)"
IN_TERMINAL = Medium(_REPORT_OR_VIEWER, _REPORT_OR_VIEWER)
IN_REPORT = Medium("in the picture", "in the table below")
IN_VIEWER = Medium("in the picture", "in the table of poses", "Refine from here improves a correct one")


@dataclass(frozen=True)
class VerdictText:
    """A status and a confidence in words."""

    headline: str
    sentence: str
    advice: str  # what to do next; empty after a success that needs no check
    note: str  # about the calibration; empty where the confidence is calibrated
    warnings: tuple[str, ...] = ()  # about the maps
    shows_confidence: bool = True  # whether the sentence has the number; a bar is drawn only then

    @property
    def label(self) -> str:
        """The headline up to its colon."""
        return self.headline.split(":")[0]

    @property
    def summary(self) -> str:
        """The sentence and the note."""
        return f"{self.sentence} {self.note}".rstrip()


_SEVERAL_HEADLINE = "Ambiguous: two or more poses fit equally well"
_UNCERTAIN_HEADLINE = "Not registered: no pose is reliable enough"
HEADLINES = {
    Case.CERTAIN: "Registered",
    Case.LIKELY: "Registered",
    Case.ACCEPTED: "Registered",
    Case.ACCEPTED_UNCALIBRATED: "Registered",
    Case.ACCEPTED_OTHERWISE: "Registered",
    Case.SEVERAL: _SEVERAL_HEADLINE,
    Case.SEVERAL_UNNUMBERED: _SEVERAL_HEADLINE,
    Case.UNOBSERVABLE: "Ambiguous: {motions} cannot be determined",
    Case.UNDETERMINED: "Ambiguous: the lines do not determine the pose",
    Case.UNCERTAIN: _UNCERTAIN_HEADLINE,
    Case.PROBABLY_WRONG: _UNCERTAIN_HEADLINE,
    Case.REJECTED: _UNCERTAIN_HEADLINE,
    Case.REJECTED_UNCALIBRATED: _UNCERTAIN_HEADLINE,
    Case.NO_CANDIDATE: "Not registered: no pose fits both maps",
}
SENTENCES = {
    Case.CERTAIN: "The pose is almost certainly correct: its confidence is {confidence}.",
    Case.LIKELY: "The pose is very likely correct: its confidence is {confidence}.",
    Case.ACCEPTED: "The pose was accepted with confidence {confidence}: at least {required} was required.",
    Case.ACCEPTED_UNCALIBRATED: "The pose was accepted with confidence {confidence}.",
    Case.ACCEPTED_OTHERWISE: "The pose was accepted with confidence {confidence}.",
    Case.SEVERAL: "The pose shown is one of several. The confidence that it is the correct one is {confidence}.",
    Case.SEVERAL_UNNUMBERED: "The pose shown is one of several. The maps do not tell which of them is the correct one.",
    Case.UNOBSERVABLE: "The pose shown is one of many, which differ by {motions}.",
    Case.UNDETERMINED: "The pose shown is one of several that the lines allow.",
    Case.UNCERTAIN: "No pose was accepted: the best candidate has confidence {confidence}, and {required} is required.",
    Case.PROBABLY_WRONG: (
        "No pose was accepted. The best candidate is probably wrong: its confidence is {confidence},"
        " and {required} is required."
    ),
    Case.REJECTED: "No pose was accepted, for another reason than the confidence.",
    Case.REJECTED_UNCALIBRATED: "No pose was accepted. The best candidate has confidence {confidence}.",
    Case.NO_CANDIDATE: "No pose was accepted, and no candidate was found.",
}

UNCALIBRATED_NOTE = "The confidence is not calibrated for this matcher."
CHECK_ADVICE = "Look at the pose {pose} before you use it."
COMPARE_ADVICE = "Compare the pose with {alternatives} {others}."
LOOK_ADVICE = "Look at {candidates} {others}; {refining}."
UNITS_ADVICE = "Check the units: convert one of the maps if they differ, and register again."
MORE_LINES_ADVICE = (
    "More or longer lines, a larger part of the place in common, or a larger --inlier-threshold may help."
)
LOWER_ADVICE = "A lower --min-confidence accepts such poses, but also more wrong ones."
DECIDE_ADVICE = "What you know of the place decides, or lines that make it less regular."
DIRECTIONS_ADVICE = "Use the pose only for the other motions, or add lines of other directions."
ADVICE = {
    Case.CERTAIN: (),
    Case.LIKELY: (),
    Case.ACCEPTED: (CHECK_ADVICE,),
    Case.ACCEPTED_UNCALIBRATED: (CHECK_ADVICE,),
    Case.ACCEPTED_OTHERWISE: (CHECK_ADVICE,),
    Case.SEVERAL: (COMPARE_ADVICE, DECIDE_ADVICE),
    Case.SEVERAL_UNNUMBERED: (COMPARE_ADVICE, DECIDE_ADVICE),
    Case.UNOBSERVABLE: (DIRECTIONS_ADVICE,),
    Case.UNDETERMINED: (DIRECTIONS_ADVICE,),
    Case.UNCERTAIN: (LOOK_ADVICE, LOWER_ADVICE),
    Case.PROBABLY_WRONG: (LOOK_ADVICE, MORE_LINES_ADVICE),
    Case.REJECTED: (LOOK_ADVICE, MORE_LINES_ADVICE),
    Case.REJECTED_UNCALIBRATED: (LOOK_ADVICE, MORE_LINES_ADVICE),
    Case.NO_CANDIDATE: (MORE_LINES_ADVICE,),
}
PICTURE_TITLES = {
    Status.SUCCESS: "registered",
    Status.AMBIGUOUS: "ambiguous: one of several poses that fit",
    Status.FAILED: "not registered: no pose was accepted",
}
BEFORE_TITLE = "before registration, each map in its own frame"


def verdict(result: RegistrationResult, place: Medium = IN_TERMINAL) -> VerdictText:
    """The status and the confidence of a result in words."""
    case = verdict_case(result)
    values = {
        "confidence": _digits_below_required(result)
        if case is Case.UNCERTAIN
        else confidence_digits(result.confidence),
        "required": f"{required_confidence(result):g}",
        "motions": " and ".join(motion.describe() for motion in getattr(result, "unobservable", ())),
    }
    shows_confidence = "{confidence}" in SENTENCES[case]
    return VerdictText(
        headline=HEADLINES[case].format(**values),
        sentence=SENTENCES[case].format(**values),
        advice=_advice(result, case, place),
        note=UNCALIBRATED_NOTE if shows_confidence and not result.calibrated else "",
        warnings=result.warnings,
        shows_confidence=shows_confidence,
    )


def verdict_case(result: RegistrationResult) -> Case:
    """Which of the sentences applies."""
    if result.status is Status.SUCCESS:
        return _success_case(result)
    if result.status is Status.AMBIGUOUS:
        return _ambiguous_case(result)
    if len(result.inliers) == 0:
        return Case.NO_CANDIDATE
    if not result.calibrated:
        return Case.REJECTED_UNCALIBRATED
    if result.confidence >= required_confidence(result):
        return Case.REJECTED
    return Case.UNCERTAIN if result.confidence >= _EVEN else Case.PROBABLY_WRONG


def _success_case(result: RegistrationResult) -> Case:
    if not result.calibrated:
        return Case.ACCEPTED_UNCALIBRATED
    if result.confidence >= CERTAIN_CONFIDENCE:
        return Case.CERTAIN
    if result.confidence >= LIKELY_CONFIDENCE:
        return Case.LIKELY
    return Case.ACCEPTED if result.confidence >= required_confidence(result) else Case.ACCEPTED_OTHERWISE


def _ambiguous_case(result: RegistrationResult) -> Case:
    if getattr(result, "unobservable", ()):
        return Case.UNOBSERVABLE
    if not result.alternatives:
        return Case.UNDETERMINED
    even = 1 / (1 + len(result.alternatives))  # no pose of several that fit equally well can have more
    return Case.SEVERAL if result.confidence <= even + 1e-9 else Case.SEVERAL_UNNUMBERED


def _advice(result: RegistrationResult, case: Case, place: Medium) -> str:
    """What to do next, in one or two sentences; a doubt about the units comes before everything else."""
    if any(not warning.endswith(LEFT_OUT) for warning in result.warnings):
        return UNITS_ADVICE
    count = len(result.alternatives)
    values = {
        "pose": place.pose,
        "others": place.others,
        "refining": place.refining,
        "alternatives": _numbered("alternative", count),
        "candidates": _numbered("candidate", count),
    }
    sentences = [sentence for sentence in ADVICE[case] if count or sentence is not LOOK_ADVICE]
    return " ".join(sentences).format(**values)


def _numbered(noun: str, count: int) -> str:
    """The names that report and viewer give to the other poses."""
    return f"{noun} 1" if count == 1 else f"{noun}s 1 to {count}"


def pose_names(result: RegistrationResult) -> list[str]:
    """The name of each pose that can be shown: the pose of the result, if it has one, then the alternatives."""
    failed = result.target_T_source is None
    noun = "candidate" if failed else "alternative"
    others = [f"{noun} {number}" for number in range(1, len(result.alternatives) + 1)]
    return others if failed else ["registered" if result.ok else "best pose", *others]


def required_confidence(result: RegistrationResult) -> float:
    """The confidence that the settings of the result required."""
    judgement = result.settings.get("judgement", {})
    return float(judgement.get("min_confidence", LIKELY_CONFIDENCE))


def confidence_digits(confidence: float) -> str:
    """Two decimals, rounded down: 0.899 must not read as the 0.90 that would have been accepted."""
    if confidence > 0.99:
        return "above 0.99"
    if confidence < 0.01:
        return "below 0.01"
    return f"{math.floor(100 * confidence + 1e-9) / 100:.2f}"


def _digits_below_required(result: RegistrationResult) -> str:
    """A confidence above 0.99 with as many decimals as show that it is below the required one."""
    if result.confidence <= 0.99:
        return confidence_digits(result.confidence)
    return f"{math.floor(1e4 * result.confidence) / 1e4:.4f}"


def percent(fraction: float) -> str:
    """A whole percentage; only the whole is 100%."""
    return ">99%" if 0.995 <= fraction < 1 else f"{fraction:.0%}"


def as_sentence(text: str) -> str:
    """A reason as a sentence: with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


def two_digits(value: float) -> str:
    """Two significant digits."""
    return f"{value:.2g}"


def sigma_words(sigmas: tuple[float, float]) -> str:
    """The standard deviations of rotation and position."""
    return f"{two_digits(sigmas[0])}° and {two_digits(sigmas[1])} at the centre of the inliers"


def noise_words(noise: tuple[float, float]) -> str:
    """The estimated noise of the lines."""
    return (
        f"{two_digits(noise[0])} in position and {two_digits(noise[1])}° in direction (one sigma of a line, estimated)"
    )


def translation_digits(pose: Transform, sigma: float) -> list[str]:
    """The translation, with as many decimals as its uncertainty justifies."""
    decimals = min(max(1 - math.floor(math.log10(max(sigma, 1e-9))), 0), 9)
    return [f"{value:.{decimals}f}" for value in pose.translation.tolist()]


def matrix_rows(pose: Transform, sigma: float) -> list[str]:
    """The rows of the 4x4 matrix, with aligned columns."""
    shift = translation_digits(pose, sigma)
    width = max(map(len, shift))
    rotation_rows = [" ".join(f"{value:9.6f}" for value in row) for row in pose.matrix()[:3, :3].tolist()]
    rows = [f"{row} {value:>{width}}" for row, value in zip(rotation_rows, shift, strict=True)]
    return [*rows, " ".join(f"{0:9}" for _ in range(3)) + f" {1:>{width}}"]


def rotation_words(pose: Transform) -> str:
    """The rotation as an angle about an axis."""
    from plueckernet.geometry.pose import rotation_log

    rotation_vector = rotation_log(pose.rotation)
    angle = float(rotation_vector.norm())
    axis = ", ".join(f"{value:.4f}" for value in (rotation_vector / max(angle, 1e-300)).tolist())
    return f"{math.degrees(angle):.3f}° about ({axis})"
