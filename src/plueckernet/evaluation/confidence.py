"""Calibrate the confidence of a matcher: of the registrations that say 0.9, nine in ten should be right.

Pairs from easy to impossible and unrelated pairs are registered, and the logistic model of
:mod:`plueckernet.estimation.judgement` is fitted to their evidence. How well it predicts is measured by fitting to one
half of the pairs and asking for the other. The result can be written into the card of the matcher's weights.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from plueckernet.data.protocols import AnyProtocol, PaperProtocol, ScanProtocol
from plueckernet.errors import InputError
from plueckernet.estimation.evidence import Evidence
from plueckernet.estimation.judgement import FEATURES, Calibration
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.documents import ResultDocument, read_json
from plueckernet.evaluation.methods import register_method
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.protocols import EvaluationProtocol, Unrelated
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.runner import Runner
from plueckernet.io.atomic import atomic_write
from plueckernet.matchers import MatchFrame, load_matcher
from plueckernet.models.weights import pretrained_path

FIRST_SEED = 4_000_000
PAIRS = 30  # per kind of scene and protocol
KINDS = ("indoor", "outdoor", "varied")
PROTOCOLS: dict[MatchFrame, list[EvaluationProtocol]] = {
    MatchFrame.NORMALIZED: [
        AnyProtocol(keep=0.7), AnyProtocol(keep=0.4), AnyProtocol(keep=0.25), AnyProtocol(keep=0.15),
        ScanProtocol(overlap=0.5), ScanProtocol(overlap=0.3), ScanProtocol(overlap=0.15), ScanProtocol(overlap=0.07),
        Unrelated(), Unrelated(), Unrelated(), Unrelated(),
    ],
    MatchFrame.ORIGINAL: [  # networks that see coordinates know the motions of the paper only
        *(PaperProtocol(keep=keep) for keep in (0.7, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1)),
        Unrelated(), Unrelated(), Unrelated(), Unrelated(),
    ],
}  # fmt: skip
FITTED_ON = {
    MatchFrame.NORMALIZED: "synthetic scenes: random parts, surveys and unrelated maps, any motion",
    MatchFrame.ORIGINAL: "synthetic scenes: the paper's protocol, directed, from keep 0.7 to 0.1, and unrelated maps",
}
_SHRINKAGE = 0.01
_BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0)


@dataclass(frozen=True)
class ReliabilityBin:
    """Held-out pairs whose confidence lies between two values."""

    low: float
    high: float
    confidence: float  # mean
    right: Rate


@dataclass(frozen=True)
class ConfidenceValues:
    """A calibration and how well it predicts."""

    matcher: str
    calibration: Calibration
    right: Rate  # of the pairs that it was fitted to
    reliability: tuple[ReliabilityBin, ...]  # of a fit to one half of the pairs, on the other half
    brier: float  # mean squared error of the confidence on that half

    def at_least(self, confidence: float) -> tuple[float, Rate] | None:
        """Mean confidence and how many are right, of the held-out pairs from some confidence on."""
        bins = [entry for entry in self.reliability if entry.low >= confidence]
        right = sum((entry.right for entry in bins), Rate(0, 0))
        if not right.total:
            return None
        return sum(entry.confidence * entry.right.total for entry in bins) / right.total, right


def evaluate_confidence(matcher: str, runner: Runner, pairs: int = PAIRS) -> ResultDocument[ConfidenceValues]:
    """Register all pairs with a matcher and fit its calibration."""
    loaded = load_matcher(matcher)
    method = register_method(matcher, directed=loaded.frame is MatchFrame.ORIGINAL)
    cells = []
    for index, protocol in enumerate(PROTOCOLS[loaded.frame]):
        seed = FIRST_SEED + 1000 * index
        cells += [Cell(StandIn(kind, seed, seed), protocol, method) for kind in KINDS]
    columns = runner.run(cells, pairs)
    rows = [column[i] for i in range(len(columns[0])) for column in columns]  # both halves have all cells
    name = Path(matcher).stem
    features = tuple(FEATURES if loaded.calibration is None else loaded.calibration.weights)
    values = calibrated(name, rows, features, FITTED_ON[loaded.frame])
    weights = [] if method.weights is None else [method.weights]
    sources = provenance("plueckernet.evaluation.confidence", weights, device=runner.settings.device)
    return ResultDocument(f"confidence_{name}", sources.to_dict(), values)


def calibrated(
    matcher: str, predictions: Sequence[Prediction], features: Sequence[str], fitted_on: str
) -> ConfidenceValues:
    """Fit to the evidence of all registrations that found a pose."""
    known = [(_evidence(entry), entry.outcome().right) for entry in predictions if entry.evidence is not None]
    rows = [(evidence, right) for evidence, right in known if evidence.inliers]
    x, right = _matrix([row[0] for row in rows], features), np.array([row[1] for row in rows], dtype=bool)
    if not 0 < right.sum() < len(right):
        raise InputError("a calibration needs registrations that are right and registrations that are wrong")
    even = np.arange(len(rows)) % 2 == 0
    weights = [round(float(weight), 3) for weight in fit(x, right)]
    confidence = 1 / (1 + np.exp(-(x @ fit(x[even], right[even]))))
    return ConfidenceValues(
        matcher=matcher,
        calibration=Calibration(dict(zip(features, weights, strict=True)), f"{fitted_on}; {len(rows)} pairs"),
        right=Rate(int(right.sum()), len(right)),
        reliability=reliability(confidence[~even], right[~even]),
        brier=round(float(((confidence - right)[~even] ** 2).mean()), 4),
    )


def fit(x: Float[np.ndarray, "n f"], right: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " f"]:
    """Weights of a logistic regression of ``right`` on features, with a little shrinkage."""

    def loss(weights: np.ndarray) -> float:
        logit = x @ weights
        return float(np.logaddexp(0, -np.where(right, logit, -logit)).sum() + _SHRINKAGE * weights @ weights)

    return np.asarray(minimize(loss, np.zeros(x.shape[1])).x)


def reliability(confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> tuple[ReliabilityBin, ...]:
    """How many are right, by confidence."""
    bins = []
    for low, high in itertools.pairwise(_BINS):
        inside = (confidence >= low) & ((confidence < high) | (high == 1.0))
        if inside.any():
            mean, count = round(float(confidence[inside].mean()), 4), int(right[inside].sum())
            bins.append(ReliabilityBin(low, high, mean, Rate(count, int(inside.sum()))))
    return tuple(bins)


def write_calibration(matcher: str, calibration: Calibration) -> Path:
    """Put a calibration on the card of some weights; returns the card."""
    if matcher == "descriptors":
        raise InputError("descriptors have no card; their calibration is part of the package")
    path = pretrained_path(matcher).with_suffix(".json")
    card = read_json(path)
    card["calibration"] = {"weights": dict(calibration.weights), "fitted_on": calibration.fitted_on}
    with atomic_write(path) as stream:
        stream.write(json.dumps(card, indent=2, ensure_ascii=False) + "\n")
    return path


def _matrix(evidence: Sequence[Evidence], features: Sequence[str]) -> Float[np.ndarray, "n f"]:
    return np.array([[FEATURES[name](entry) for name in features] for entry in evidence])


def _evidence(prediction: Prediction) -> Evidence:
    content = dict(prediction.evidence or {})
    return Evidence(inliers=int(content.pop("inliers") or 0), **content)  # type: ignore[arg-type]
