"""A registration in words and digits, for the terminal, the report and the viewer alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plueckernet.geometry import Pose
    from plueckernet.result import RegistrationResult

_WORDS = (  # from this confidence on
    (0.97, "almost certainly right"),
    (0.9, "very likely right"),
    (0.7, "likely right"),
    (0.4, "may be right"),
    (0.1, "likely wrong"),
    (0.0, "almost certainly wrong"),
)


def belief(result: RegistrationResult) -> tuple[str, str]:
    """The confidence as a number, and what it says about which pose."""
    number = "above 0.99" if result.confidence > 0.99 else f"{result.confidence:.2f}"
    pose = "the best pose found" if result.target_T_source is None else "the pose"
    return number, f"{pose} is {in_words(result.confidence)}"


def in_words(confidence: float) -> str:
    """What a confidence means."""
    return next(words for least, words in _WORDS if confidence >= least)


def digits(value: float) -> str:
    """Two that count."""
    return f"{value:.2g}"


def translation_digits(pose: Pose, sigma: float) -> list[str]:
    """The translation with the digits that its uncertainty leaves."""
    places = min(max(1 - math.floor(math.log10(max(sigma, 1e-9))), 0), 9)
    return [f"{value:.{places}f}" for value in pose.translation.tolist()]


def matrix_rows(pose: Pose, sigma: float) -> list[str]:
    """The 4x4 matrix in columns."""
    shift = translation_digits(pose, sigma)
    width = max(map(len, shift))
    turns = [" ".join(f"{value:9.6f}" for value in row) for row in pose.rotation.tolist()]
    rows = [f"{turn} {value:>{width}}" for turn, value in zip(turns, shift, strict=True)]
    return [*rows, " ".join(f"{0:9}" for _ in range(3)) + f" {1:>{width}}"]


def rotation_words(pose: Pose) -> str:
    """The rotation as an angle about an axis."""
    from plueckernet.geometry.pose import rotation_log

    turn = rotation_log(pose.rotation)
    angle = float(turn.norm())
    axis = ", ".join(f"{value:.4f}" for value in (turn / max(angle, 1e-300)).tolist())
    return f"{math.degrees(angle):.3f}° about ({axis})"
