"""The texts and number formats that the terminal, the report, the viewer and the pictures have in common.

`verdict` is the only place that puts a status and a confidence into words, so that no two outputs disagree.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plueckernet.estimation.judgement import JudgementSettings, Status

if TYPE_CHECKING:
    from plueckernet.geometry import Pose
    from plueckernet.result import RegistrationResult

REQUIRED_CONFIDENCE = JudgementSettings().min_confidence


class Band(enum.StrEnum):
    """What the confidence allows to say."""

    VERY_HIGH = "very high"  # 0.97 or more
    HIGH = "high"  # REQUIRED_CONFIDENCE or more
    MEDIUM = "medium"  # 0.4 or more
    LOW = "low"
    UNCALIBRATED = "not calibrated"  # a number that is not known to be a probability
    NO_CANDIDATE = "no candidate"  # the registration failed and has no pose to talk about


@dataclass(frozen=True)
class VerdictText:
    """A status and a confidence in words."""

    headline: str
    sentence: str
    advice: str  # what to do next; empty after a success
    note: str  # about the calibration; empty where the confidence is calibrated

    @property
    def label(self) -> str:
        """The headline up to its colon."""
        return self.headline.split(":")[0]

    @property
    def summary(self) -> str:
        """The sentence and the note."""
        return f"{self.sentence} {self.note}".rstrip()


_BANDS = ((0.97, Band.VERY_HIGH), (REQUIRED_CONFIDENCE, Band.HIGH), (0.4, Band.MEDIUM), (0.0, Band.LOW))

HEADLINES = {
    Status.SUCCESS: "Registered",
    Status.AMBIGUOUS: "Ambiguous: several poses fit equally well",
    Status.FAILED: "Not registered",
}

_ONE_OF_SEVERAL = "The pose shown is one of several. The confidence that it is the correct one is {confidence}."
SENTENCES = {
    (Status.SUCCESS, Band.VERY_HIGH): "The pose is almost certainly correct: its confidence is {confidence}.",
    (Status.SUCCESS, Band.HIGH): "The pose is very likely correct: its confidence is {confidence}.",
    (Status.SUCCESS, Band.MEDIUM): "The pose was accepted, but its confidence is only {confidence}.",
    (Status.SUCCESS, Band.LOW): "The pose was accepted, but its confidence is only {confidence}.",
    (Status.SUCCESS, Band.UNCALIBRATED): "The pose was accepted with confidence {confidence}.",
    (Status.AMBIGUOUS, Band.VERY_HIGH): _ONE_OF_SEVERAL,
    (Status.AMBIGUOUS, Band.HIGH): _ONE_OF_SEVERAL,
    (Status.AMBIGUOUS, Band.MEDIUM): _ONE_OF_SEVERAL,
    (Status.AMBIGUOUS, Band.LOW): _ONE_OF_SEVERAL,
    (Status.AMBIGUOUS, Band.UNCALIBRATED): _ONE_OF_SEVERAL,
    (Status.FAILED, Band.VERY_HIGH): "No pose was accepted, although the best candidate has confidence {confidence}.",
    (Status.FAILED, Band.HIGH): "No pose was accepted, although the best candidate has confidence {confidence}.",
    (Status.FAILED, Band.MEDIUM): (
        "No pose was accepted. The best candidate has confidence {confidence}, below the {required} required."
    ),
    (Status.FAILED, Band.LOW): (
        "No pose was accepted. The best candidate is probably wrong: its confidence is {confidence},"
        " and {required} is required."
    ),
    (Status.FAILED, Band.UNCALIBRATED): "No pose was accepted. The best candidate has confidence {confidence}.",
    (Status.FAILED, Band.NO_CANDIDATE): "No pose was accepted, and no candidate was found.",
}

UNCALIBRATED_NOTE = "The confidence is not calibrated for this matcher."
_CAUSES = "the maps may have too little in common, differ in unit, or need a larger inlier threshold."
CAUSES_ADVICE = f"{_CAUSES[0].upper()}{_CAUSES[1:]}"
COMPARE_ADVICE = "Compare the alternatives. The maps alone cannot tell which of them is correct."
CANDIDATES_ADVICE = (
    "Look at the candidates. If one of them is correct, refine it in the viewer (plueckernet view)."
    f" If none of them is correct, {_CAUSES}"
)
PICTURE_TITLES = {
    Status.SUCCESS: "registered",
    Status.AMBIGUOUS: "ambiguous: one of several poses that fit",
    Status.FAILED: "not registered: no pose was accepted",
}
BEFORE_TITLE = "before registration, each map in its own frame"


def verdict(result: RegistrationResult) -> VerdictText:
    """The status and the confidence of a result in words."""
    band = confidence_band(result)
    return VerdictText(
        HEADLINES[result.status],
        SENTENCES[result.status, band].format(
            confidence=confidence_digits(result.confidence), required=_required_confidence(result)
        ),
        _advice(result.status, band),
        "" if band is Band.NO_CANDIDATE or result.calibrated else UNCALIBRATED_NOTE,
    )


def confidence_band(result: RegistrationResult) -> Band:
    """Which of the sentences applies."""
    if result.status is Status.FAILED and len(result.inliers) == 0:
        return Band.NO_CANDIDATE
    if not result.calibrated:
        return Band.UNCALIBRATED
    return next(band for lower, band in _BANDS if result.confidence >= lower)


def confidence_digits(confidence: float) -> str:
    """Two decimals, rounded down: 0.899 must not read as the 0.90 that would have been accepted."""
    if confidence > 0.99:
        return "above 0.99"
    if confidence < 0.01:
        return "below 0.01"
    return f"{math.floor(100 * confidence + 1e-9) / 100:.2f}"


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


def translation_digits(pose: Pose, sigma: float) -> list[str]:
    """The translation, with as many decimals as its uncertainty justifies."""
    decimals = min(max(1 - math.floor(math.log10(max(sigma, 1e-9))), 0), 9)
    return [f"{value:.{decimals}f}" for value in pose.translation.tolist()]


def matrix_rows(pose: Pose, sigma: float) -> list[str]:
    """The rows of the 4x4 matrix, with aligned columns."""
    shift = translation_digits(pose, sigma)
    width = max(map(len, shift))
    rotation_rows = [" ".join(f"{value:9.6f}" for value in row) for row in pose.rotation.tolist()]
    rows = [f"{row} {value:>{width}}" for row, value in zip(rotation_rows, shift, strict=True)]
    return [*rows, " ".join(f"{0:9}" for _ in range(3)) + f" {1:>{width}}"]


def rotation_words(pose: Pose) -> str:
    """The rotation as an angle about an axis."""
    from plueckernet.geometry.pose import rotation_log

    rotation_vector = rotation_log(pose.rotation)
    angle = float(rotation_vector.norm())
    axis = ", ".join(f"{value:.4f}" for value in (rotation_vector / max(angle, 1e-300)).tolist())
    return f"{math.degrees(angle):.3f}° about ({axis})"


def _required_confidence(result: RegistrationResult) -> float:
    """The confidence that the settings of the result required."""
    judgement = result.settings.get("judgement", {})
    return float(judgement.get("min_confidence", REQUIRED_CONFIDENCE))


def _advice(status: Status, band: Band) -> str:
    if status is Status.FAILED:
        return CAUSES_ADVICE if band is Band.NO_CANDIDATE else CANDIDATES_ADVICE
    return COMPARE_ADVICE if status is Status.AMBIGUOUS else ""
