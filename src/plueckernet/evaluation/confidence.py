"""Calibrate the confidence of a matcher: of the registrations that say 0.9, nine in ten should be right.

Pairs from easy to impossible and unrelated pairs are registered, and the two logistic models of
:mod:`plueckernet.estimation.judgement` are fitted to the evidence of their candidates. How well they predict is
measured by fitting to one half of the pairs and asking for the other. The result can be written into the card of the
matcher's weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from plueckernet.data.protocols import AnyProtocol, Noise, PaperProtocol, ScanProtocol
from plueckernet.errors import InputError
from plueckernet.estimation.evidence import MATCH_EVIDENCE
from plueckernet.estimation.judgement import Calibration, JudgementSettings
from plueckernet.evaluation.confidence_samples import (
    SYNTHETIC,
    FeatureNames,
    JudgedSample,
    KindCount,
    Samples,
    count_kinds,
    judge_samples,
    sample,
)
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.documents import ResultDocument, read_json
from plueckernet.evaluation.methods import Method, uncalibrated_method
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.protocols import EvaluationProtocol, Recorded, Unrelated
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.real_pairs import PairKind, RealPairs
from plueckernet.evaluation.reliability import Reliability, ReliabilityBin, measured_reliability, reliability
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
REAL_PAIRS = 400  # per kind of real pairs
_MULTIPLES = {
    PairKind.NEIGHBOURS: 6,
    PairKind.UNRELATED: 2,
}  # crops are what is measured; few unrelated maps get a pose
_ANY_FEATURES = FeatureNames(  # whether or not ends coincide
    choice=(
        *("stand_out", "lead", "deficit", "chance_lines", "lateral_support", "rotation_deviation"),
        "matcher_agreement",
    ),
    presence=(
        *("inliers", "smaller_explained", "crowd_ratio", "lateral_support", "rotation_deviation"),
        "matcher_agreement",
    ),
)
# Which lines are missing in the volume that both maps fill tells most: their number which pose is right, and, in maps
# of any size, their fraction whether one is. The lines that a pose explains count by how many it had the chance to
# explain: in a place that repeats itself, many wrong poses have the maps overlap more than the right one, so more lines
# coincide. Lines that coincide from end to end tell more than others: edges of a row of houses rarely end alike.
FEATURES = FeatureNames(
    choice=(
        *("stand_out", "inliers", "many_whole_lines", "score", "deficit", "expected_lines"),
        *("volume_lines", "volume_missing", "rotation_deviation", "matcher_agreement"),
    ),
    presence=(*_ANY_FEATURES.presence, "whole_lines", "volume_fraction"),
)
REAL_FITTED_ON = "real maps: neighbouring crops, sparse and dense, pieces, tiny, repeated and unrelated maps; "
INFINITE_PROTOCOLS: list[EvaluationProtocol] = [
    *(AnyProtocol(keep=keep) for keep in (0.7, 0.5, 0.3, 0.2, 0.15, 0.1, 0.07)),
    *(AnyProtocol(noise=Noise(0.02 * degrees, None, degrees, None)) for degrees in (5.0, 7.5, 10.0)),
    AnyProtocol(keep=0.4, noise=Noise(0.1, None, 5.0, None)),
    Unrelated(infinite=True), Unrelated(infinite=True), Unrelated(infinite=True),
]  # fmt: skip
INFINITE_KINDS = (PairKind.SPARSE, PairKind.PIECE, PairKind.UNRELATED)
INFINITE_FEATURES = FeatureNames(
    _ANY_FEATURES.choice, (*_ANY_FEATURES.presence, "stand_out", "chance_lines", "matched_lines", "chance_matches")
)
INFINITE_FITTED_ON = (
    "lines without ends: random parts of synthetic scenes, from overlap 0.7 to 0.07 and up to 10° of noise, any motion;"
    " real sparse and dense maps and pieces; unrelated maps"
)
_INFINITE_SEED = 5_000_000
UPRIGHT_KINDS = (PairKind.NEIGHBOURS, PairKind.SPARSE, PairKind.PIECE, PairKind.TINY, PairKind.UNRELATED)
UPRIGHT_FITTED_ON = "real maps, vertical known: neighbouring crops, sparse and dense, pieces, tiny and unrelated maps"


@dataclass(frozen=True)
class RealReliability:
    """How a calibration predicts pairs whose places it was not fitted to."""

    crops: Reliability  # neighbouring crops of real maps
    all_kinds: Reliability  # of real maps, tiny and unrelated ones among them, but no symmetric ones
    synthetic: Reliability  # scenes, by halves
    kinds: tuple[KindCount, ...]
    without: Mapping[str, Calibration] = field(default_factory=dict)  # fitted without a place, by place


@dataclass(frozen=True)
class ConfidenceValues:
    """A calibration and how well it predicts."""

    matcher: str
    calibration: Calibration
    right: Rate  # best poses of the pairs that it was fitted to
    reliability: tuple[ReliabilityBin, ...]  # of a fit to one half of the pairs, on the other half
    brier: float  # mean squared error of the confidence on that half
    real: RealReliability | None = None  # where real maps were given
    upright: RealReliability | None = None  # likewise, of the calibration for a known vertical
    infinite: RealReliability | None = None  # likewise, of that for lines without ends

    def at_least(self, confidence: float) -> tuple[float, Rate] | None:
        """Mean confidence and how many are right, of the held-out pairs from some confidence on."""
        bins = [entry for entry in self.reliability if entry.low >= confidence]
        right = sum((entry.right for entry in bins), Rate(0, 0))
        if not right.total:
            return None
        return sum(entry.confidence * entry.right.total for entry in bins) / right.total, right


@dataclass(frozen=True)
class CalibrationData:
    """What a calibration is fitted to."""

    pairs: int = PAIRS  # per kind of scene and protocol
    maps: tuple[Path, ...] = ()  # folders of real maps; none: synthetic scenes only
    real_pairs: int = REAL_PAIRS  # per kind


def evaluate_confidence(
    matcher: str, runner: Runner, data: CalibrationData = CalibrationData()
) -> ResultDocument[ConfidenceValues]:
    """Register all pairs with a matcher and fit its calibration."""
    loaded = load_matcher(matcher)
    if data.maps and loaded.frame is MatchFrame.ORIGINAL:
        raise InputError(f"{matcher} knows the motions of the paper only: it is calibrated without real maps")
    method = uncalibrated_method(matcher, directed=loaded.frame is MatchFrame.ORIGINAL)
    rows = _synthetic(method, PROTOCOLS[loaded.frame], runner, data.pairs)
    rows += _real(method, RealPairs(PairKind.NEIGHBOURS, data.maps), tuple(PairKind), runner, data) if data.maps else []
    name = Path(matcher).stem
    without_ends = loaded.frame is MatchFrame.ORIGINAL  # as the paper's protocol has them
    values = calibrated(name, rows, _ANY_FEATURES if without_ends else features_of(matcher), FITTED_ON[loaded.frame])
    if data.maps:
        values = _with_upright(values, matcher, runner, data)
        values = _with_infinite(values, matcher, runner, data)
    weights = [] if method.weights is None else [method.weights]
    sources = provenance("plueckernet.evaluation.confidence", weights, device=runner.settings.device)
    return ResultDocument(f"confidence_{name}", sources.to_dict(), values)


def features_of(matcher: str, infinite: bool = False) -> FeatureNames:
    """What a calibration uses.

    The probabilities of descriptors do not tell which pose is right: like lines have like ones. The fraction that
    agrees with the best pose tells whether any is; for the rest the lines must say more. How many coincide from end to
    end tells which pose is right, but here not whether one is: scenes left out were predicted worse.
    """
    if matcher != "descriptors":
        return INFINITE_FEATURES if infinite else FEATURES
    own = (INFINITE_FEATURES if infinite else FEATURES).without(*MATCH_EVIDENCE)
    more = ("chance_lines", "explained_fraction", "matcher_agreement")
    presence = (name for name in (*own.presence, *more) if name != "whole_lines")
    return replace(own, presence=tuple(dict.fromkeys(presence)))


def _with_upright(values: ConfidenceValues, matcher: str, runner: Runner, data: CalibrationData) -> ConfidenceValues:
    """Pairs of real places only: scenes are turned any way."""
    pairs = RealPairs(PairKind.NEIGHBOURS, data.maps, upright=True)
    rows = _real(uncalibrated_method(matcher, upright=True), pairs, UPRIGHT_KINDS, runner, data)
    made = special_calibration(rows, features_of(matcher), UPRIGHT_FITTED_ON)
    if made is None:
        return values
    return replace(values, calibration=replace(values.calibration, upright=made[0]), upright=made[1])


def _with_infinite(values: ConfidenceValues, matcher: str, runner: Runner, data: CalibrationData) -> ConfidenceValues:
    """Pairs of scenes and of whole real places: nobody cuts lines that have no ends."""
    method, pairs = uncalibrated_method(matcher), RealPairs(PairKind.NEIGHBOURS, data.maps, infinite=True)
    rows = _synthetic(method, INFINITE_PROTOCOLS, runner, data.pairs, _INFINITE_SEED)
    rows += _real(method, pairs, INFINITE_KINDS, runner, data)
    features = features_of(matcher, infinite=True)
    made = special_calibration(rows, features, INFINITE_FITTED_ON, favoured=SYNTHETIC, infinite=True)
    if made is None:
        return values
    return replace(values, calibration=replace(values.calibration, infinite=made[0]), infinite=made[1])


def _synthetic(
    method: Method,
    protocols: Sequence[EvaluationProtocol],
    runner: Runner,
    pairs: int,
    first_seed: int = FIRST_SEED,
) -> list[tuple[str, Prediction]]:
    """Scenes of every kind under every protocol."""
    cells = []
    for index, protocol in enumerate(protocols):
        seed = first_seed + 1000 * index
        cells += [Cell(StandIn(kind, seed, seed), protocol, method) for kind in KINDS]
    columns = runner.run(cells, pairs)
    return [(SYNTHETIC, column[i]) for i in range(len(columns[0])) for column in columns]  # both halves have all cells


def _real(
    method: Method, pairs: RealPairs, kinds: Sequence[PairKind], runner: Runner, data: CalibrationData
) -> list[tuple[str, Prediction]]:
    """Pairs of some kinds, otherwise as given."""
    counts = {kind: _MULTIPLES.get(kind, 1) * data.real_pairs for kind in kinds}
    cells = {kind: Cell(replace(pairs, kind=kind), Recorded(), method) for kind in counts}
    runner.compute([(cells[kind], count) for kind, count in counts.items()])
    return [(str(kind), entry) for kind, count in counts.items() for entry in runner.run([cells[kind]], count)[0]]


def calibrated(
    matcher: str, predictions: Sequence[tuple[str, Prediction]], features: FeatureNames, fitted_on: str
) -> ConfidenceValues:
    """Fit to the candidates of all registrations that have any, given with their kinds."""
    samples = _samples(predictions, features)
    known, rows = samples.rows, samples.with_pose()
    real = any(row.kind != SYNTHETIC for row in known)
    text = f"{REAL_FITTED_ON if real else ''}{fitted_on}; {int(rows.sum())} pairs"
    calibration = samples.calibration(rows, text)
    synthetic = Samples(tuple(row for row in known if row.kind == SYNTHETIC and row.evidence), features)
    even = np.arange(len(synthetic.rows)) % 2 == 0
    confidence, right = _predicted(judge_samples(synthetic, [synthetic.calibration(even)] * len(even)), ~even)
    judged = judge_samples(samples, [calibration] * len(known))
    return ConfidenceValues(
        matcher=matcher,
        calibration=calibration,
        right=Rate.of([row.right for row in judged if row.sample.evidence]),
        reliability=reliability(confidence, right),
        brier=measured_reliability(confidence, right).brier,
        real=_real_reliability(samples) if real else None,
    )


def special_calibration(
    predictions: Sequence[tuple[str, Prediction]],
    features: FeatureNames,
    fitted_on: str,
    favoured: str = PairKind.NEIGHBOURS,
    infinite: bool = False,
) -> tuple[Calibration, RealReliability] | None:
    """A calibration of pairs that have something in common, and how well it predicts; None if they are too few."""
    samples = _samples(predictions, features, favoured)
    rows = samples.with_pose()
    try:
        calibration = samples.calibration(rows, f"{fitted_on}; {int(rows.sum())} pairs")
        return calibration, _real_reliability(samples, JudgementSettings().where(infinite))
    except InputError:  # no wrong pose among them, or of one place only
        return None


def _samples(
    predictions: Sequence[tuple[str, Prediction]], features: FeatureNames, favoured: str = PairKind.NEIGHBOURS
) -> Samples:
    """All registrations, given with their kinds, but those that could not be made."""
    known = (sample(kind, prediction) for kind, prediction in predictions)
    return Samples(tuple(entry for entry in known if entry is not None), features, str(favoured))


def _real_reliability(samples: Samples, settings: JudgementSettings = JudgementSettings()) -> RealReliability:
    """Of pairs with a pose, judged by calibrations that do not know their places."""
    scenes, symmetric = samples.of(SYNTHETIC), samples.of(PairKind.SYMMETRIC)
    rows = zip(samples.left_out(), samples.halves(), scenes, strict=True)
    own = [half if synthetic else left_out for left_out, half, synthetic in rows]
    judged, pose = judge_samples(samples, own, settings), samples.with_pose()
    return RealReliability(
        crops=_reliability(judged, samples.of(PairKind.NEIGHBOURS) & pose),
        all_kinds=_reliability(judged, ~scenes & ~symmetric & pose),
        synthetic=_reliability(judged, scenes & pose),
        kinds=count_kinds(judged),
        without={
            row.places[0]: calibration
            for row, calibration in zip(samples.rows, own, strict=True)
            if len(row.places) == 1
        },
    )


def _reliability(judged: Sequence[JudgedSample], chosen: Bool[np.ndarray, " n"]) -> Reliability:
    return measured_reliability(*_predicted(judged, chosen))


def _predicted(
    judged: Sequence[JudgedSample], chosen: Bool[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
    """Confidence of the chosen rows, and whether their best poses are right."""
    rows = [row for row, is_chosen in zip(judged, chosen, strict=True) if is_chosen]
    return np.array([row.confidence for row in rows]), np.array([row.right for row in rows], dtype=bool)


def write_calibration(matcher: str, calibration: Calibration) -> Path:
    """Put a calibration on the card of some weights; returns the card."""
    if matcher == "descriptors":
        raise InputError("descriptors have no card; their calibration is part of the package")
    path = pretrained_path(matcher).with_suffix(".json")
    card = read_json(path)
    card["calibration"] = calibration.to_dict()
    with atomic_write(path) as stream:
        stream.write(json.dumps(card, indent=2, ensure_ascii=False) + "\n")
    return path
