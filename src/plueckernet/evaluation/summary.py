"""A cell of predictions as the numbers that tables and figures show, ready for JSON: what is infinite is None."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plueckernet.evaluation.metrics import STRICT, SUCCESS, area_under_recall, quartiles, recall, success_rate
from plueckernet.evaluation.predictions import Prediction

STAGES = ("features", "matching", "pose")


def summarise(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Errors, success, matches and time of one cell; pairs without a pose count as failures everywhere."""
    rotation, translation = errors(predictions)
    claimed, right = (sum(getattr(one, name) for one in predictions) for name in ("matches", "right"))
    common = sum(one.common for one in predictions)
    return {
        "pairs": len(predictions),
        "failed": sum(one.status == "failed" for one in predictions),
        "skipped": sum(one.status == "skipped" for one in predictions),
        "rotation": [_finite(value) for value in quartiles(rotation)],
        "translation": [_finite(value) for value in quartiles(translation)],
        "success": success_rate(rotation, translation),
        "strict": success_rate(rotation, translation, STRICT),
        "rotation_auc": area_under_recall(rotation, SUCCESS[0]),
        "translation_auc": area_under_recall(translation, SUCCESS[1]),
        "match_precision": right / claimed if claimed else None,
        "match_recall": right / common if claimed and common else None,
        "common_lines": float(np.median([one.common for one in predictions])) if predictions else None,
        "seconds": mean_seconds(predictions),
    }


def errors(predictions: Sequence[Prediction]) -> tuple[list[float], list[float]]:
    """Rotation in degrees and translation in metres of every pair."""
    found = [one.error for one in predictions]
    return [turn for turn, _ in found], [shift for _, shift in found]


def recall_curves(predictions: Sequence[Prediction], thresholds: dict[str, list[float]]) -> dict[str, list[float]]:
    """Recall of rotation and of translation at thresholds."""
    both = dict(zip(("rotation", "translation"), errors(predictions), strict=True))
    return {name: [round(float(value), 4) for value in recall(both[name], thresholds[name])] for name in both}


def mean_seconds(predictions: Sequence[Prediction]) -> dict[str, float]:
    """Mean time of each stage over the pairs that came to it."""
    found = {}
    for stage in STAGES:
        times = [one.seconds[stage] for one in predictions if stage in one.seconds]
        if times:
            found[stage] = float(np.mean(times))
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
