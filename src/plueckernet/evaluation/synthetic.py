"""register() on synthetic scenes that nothing was trained on: random parts, surveys, and maps of different places.

The default matcher and descriptors are measured under any rotation with undirected lines; the paper's networks on their
own protocol, with directed lines. Where the noise is known, errors are compared with the maximum-likelihood bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from plueckernet.data.protocols import AnyProtocol, PaperProtocol, ScanProtocol
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.documents import ResultDocument
from plueckernet.evaluation.methods import Method, all_methods, register_method
from plueckernet.evaluation.outcomes import MIN_COMMON, OutcomeSummary, summarise_outcomes
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.protocols import EvaluationProtocol, Unrelated
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.runner import Runner

KINDS = ("indoor", "outdoor")
PAIRS = 540  # per cell; in most cells more than 500 of them have enough lines in common
UNRELATED_PAIRS = 100  # per kind of scene
FIRST_SEED = 5_000_000  # far from the seeds of training and calibration
UNRELATED_SEED = 6_100_000
PAPER = "the paper's"
PROTOCOLS: dict[str, EvaluationProtocol] = {
    "keep 70 %": AnyProtocol(keep=0.7),
    "keep 50 %": AnyProtocol(keep=0.5),
    "keep 30 %": AnyProtocol(keep=0.3),
    "keep 20 %": AnyProtocol(keep=0.2),
    "keep 15 %": AnyProtocol(keep=0.15),
    "scan, 60 % in common": ScanProtocol(overlap=0.6),
    "scan, 30 % in common": ScanProtocol(overlap=0.3),
}
BOUNDED = ("keep 70 %", PAPER)  # protocols whose errors are compared with the bound


@dataclass(frozen=True)
class SyntheticCell:
    """One kind of scene under one protocol."""

    scenes: str
    protocol: str
    summary: OutcomeSummary
    over_bound: tuple[float, float] | None  # median rotation and translation error over the bound's
    squared_error: float | None  # mean, normalised by the covariance; six if that is honest


@dataclass(frozen=True)
class SyntheticValues:
    """All cells of one matcher."""

    matcher: str
    min_common: int  # lines in common from which a pair counts
    cells: tuple[SyntheticCell, ...]
    unrelated: Rate | None  # maps of different places that were called a success


def evaluate_synthetic(matcher: str, runner: Runner, pairs: int = PAIRS) -> ResultDocument[SyntheticValues]:
    """Measure one matcher: "invariant", "descriptors", "pluecker-indoor", or a file of weights."""
    method, kinds, protocols = _suite(matcher)
    cells = {
        (kind, name): Cell(StandIn(kind, FIRST_SEED, FIRST_SEED), protocol, method)
        for name, protocol in protocols.items()
        for kind in kinds
    }
    bounds = {key: _bound(cell) for key, cell in cells.items() if key[1] in BOUNDED}
    unrelated = [] if PAPER in protocols else [_unrelated(kind, method) for kind in kinds]
    runner.compute([(cell, pairs) for cell in (*cells.values(), *bounds.values())])
    answers = [prediction for cell in runner.run(unrelated, UNRELATED_PAIRS) for prediction in cell]
    summaries = [_summarised(*key, *runner.run([cell, *_known(bounds, key)], pairs)) for key, cell in cells.items()]
    called = Rate.of([prediction.accepted for prediction in answers]) if answers else None
    values = SyntheticValues(matcher, MIN_COMMON, tuple(summaries), called)
    weights = [] if method.weights is None else [method.weights]
    sources = provenance("plueckernet.evaluation.synthetic", weights, device=runner.settings.device)
    return ResultDocument(f"synthetic_{Path(matcher).stem}", sources.to_dict(), values)


def _suite(matcher: str) -> tuple[Method, Sequence[str], Mapping[str, EvaluationProtocol]]:
    """Method, kinds of scenes and protocols: the paper's networks know one kind and the paper's protocol."""
    kind = matcher.removeprefix("pluecker-")
    if kind in KINDS:
        return all_methods()[f"{matcher}-refined"], [kind], {PAPER: PaperProtocol()}
    return register_method(matcher), KINDS, PROTOCOLS


def _bound(cell: Cell) -> Cell:
    return Cell(cell.dataset, cell.protocol, all_methods()["bound"])


def _known(bounds: Mapping[tuple[str, str], Cell], key: tuple[str, str]) -> list[Cell]:
    return [bounds[key]] if key in bounds else []


def _unrelated(kind: str, method: Method) -> Cell:
    return Cell(StandIn(kind, UNRELATED_SEED, UNRELATED_SEED), Unrelated(), method)


def _summarised(
    kind: str, protocol: str, predictions: list[Prediction], bounds: list[Prediction] | None = None
) -> SyntheticCell:
    summary = summarise_outcomes([prediction.outcome() for prediction in predictions], MIN_COMMON)
    squared = [entry.squared_error for entry in predictions if entry.accepted and entry.squared_error is not None]
    over = None if bounds is None else _over_bound(predictions, bounds)
    return SyntheticCell(kind, protocol, summary, over, fmean(squared) if squared else None)


def _over_bound(predictions: list[Prediction], bounds: list[Prediction]) -> tuple[float, float] | None:
    """Ratios of the medians over the right poses of pairs that have a bound."""
    pairs = [
        (prediction.best_error, bound.error)
        for prediction, bound in zip(predictions, bounds, strict=True)
        if prediction.outcome().right and prediction.common >= MIN_COMMON and bound.pose is not None
    ]
    if not pairs:
        return None
    rotation, translation = (
        median(mine[i] for mine, _ in pairs) / median(bound[i] for _, bound in pairs) for i in (0, 1)
    )
    return rotation, translation
