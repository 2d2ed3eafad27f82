"""A cell of predictions as the numbers that tables and figures show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plueckernet.evaluation.metrics import area_under_recall, quartiles, recall, success_rate
from plueckernet.evaluation.outcomes import RIGHT, STRICT, is_right
from plueckernet.evaluation.predictions import Prediction
from plueckernet.evaluation.rates import Rate

TIMED_STAGES = ("features", "matching", "pose")  # of every method; register() has stages of its own
Quartiles = tuple[float | None, float | None, float | None]  # None: a pair without a pose
PAIR_LETTERS = "gb-"  # the pose given is right; only the best pose is, which was not given; neither is


@dataclass(frozen=True)
class CellSummary:
    """Errors, success, matches and time of one cell; pairs without a pose count as failures everywhere."""

    pairs: int
    failed: int
    skipped: int  # input that the method cannot use
    rotation: Quartiles  # degrees
    translation: Quartiles  # m
    success: Rate  # the pose given is below 5° and 0.5 m
    strict: Rate  # below 1° and 0.1 m
    false_successes: Rate | None  # wrong, of the poses called a success; None where it was not recorded
    rotation_auc: float  # mean recall over thresholds up to 5°
    translation_auc: float  # up to 0.5 m
    match_precision: float | None
    match_recall: float | None
    common_lines: float | None  # median number of true matches
    seconds: Mapping[str, float]  # mean of each stage
    best: Rate | None = None  # the best pose is right, given or not; None where it was not recorded
    by_pair: str | None = None  # a letter of `PAIR_LETTERS` for each pair, in their order; None where not recorded

    def right_pairs(self, poses: str) -> list[bool] | None:
        """Of each pair, whether the best pose ("best") or the pose given ("success") is right; None if not recorded."""
        letters = PAIR_LETTERS[: 2 if poses == "best" else 1]
        return None if self.by_pair is None else [letter in letters for letter in self.by_pair]

    @property
    def false_success_text(self) -> str:
        """Wrong of those called a success; where it was not recorded a bound: the wrong ones of all poses given."""
        if self.false_successes is not None:
            return f"{self.false_successes.count} of {self.false_successes.total}"
        given = self.pairs - self.failed - self.skipped
        wrong = given - self.success.count
        return f"{'≤ ' if wrong else ''}{wrong} of {given} given"

    def median(self, quantity: str) -> float | None:
        """Of the rotation or of the translation errors."""
        return self.quartiles(quantity)[1]

    def quartiles(self, quantity: str) -> Quartiles:
        """Of the rotation or of the translation errors."""
        return self.rotation if quantity == "rotation" else self.translation

    def auc(self, quantity: str) -> float:
        """Of the rotation or of the translation errors."""
        return self.rotation_auc if quantity == "rotation" else self.translation_auc


def summarise(predictions: Sequence[Prediction]) -> CellSummary:
    """All numbers of one cell."""
    errors = [prediction.error for prediction in predictions]
    rotation, translation = [turn for turn, _ in errors], [shift for _, shift in errors]
    claimed, right, common = (
        sum(getattr(prediction, name) for prediction in predictions) for name in ("matches", "right", "common")
    )
    accepted = [prediction.error for prediction in predictions if prediction.accepted]
    return CellSummary(
        pairs=len(predictions),
        failed=sum(prediction.status == "failed" for prediction in predictions),
        skipped=sum(prediction.status == "skipped" for prediction in predictions),
        rotation=_finite(quartiles(rotation)),
        translation=_finite(quartiles(translation)),
        success=success_rate(errors),
        strict=success_rate(errors, STRICT),
        false_successes=Rate(len(accepted) - success_rate(accepted).count, len(accepted)),
        rotation_auc=area_under_recall(rotation, RIGHT[0]),
        translation_auc=area_under_recall(translation, RIGHT[1]),
        match_precision=right / claimed if claimed else None,
        match_recall=right / common if claimed and common else None,
        common_lines=float(np.median([entry.common for entry in predictions])) if predictions else None,
        seconds=mean_seconds(predictions),
        best=success_rate([prediction.best_error for prediction in predictions]),
        by_pair="".join(map(_letter, predictions)),
    )


def _letter(prediction: Prediction) -> str:
    place = 0 if is_right(prediction.error) else 1 if is_right(prediction.best_error) else 2
    return PAIR_LETTERS[place]


def recall_curves(
    predictions: Sequence[Prediction], thresholds: Mapping[str, Sequence[float]]
) -> dict[str, tuple[float, ...]]:
    """Recall of rotation and of translation at thresholds."""
    errors = [prediction.error for prediction in predictions]
    return {
        name: tuple(round(float(value), 4) for value in recall([error[column] for error in errors], thresholds[name]))
        for column, name in enumerate(("rotation", "translation"))
    }


def mean_seconds(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Mean time of each stage over the pairs that came to it."""
    means = {}
    for stage in TIMED_STAGES:
        times = [prediction.seconds[stage] for prediction in predictions if stage in prediction.seconds]
        if times:
            means[stage] = float(np.mean(times))
    return means


def _finite(values: tuple[float, float, float]) -> Quartiles:
    first, median, third = (value if math.isfinite(value) else None for value in values)
    return first, median, third
