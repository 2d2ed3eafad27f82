"""What PlückerNet owes to its components, read from what ``plueckernet evaluate ablations`` has trained and judged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plueckernet.errors import FormatError, InputError, MissingDependencyError
from plueckernet.evaluation.documents import ResultDocument, read_result
from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import DATASETS
from plueckernet.evaluation.plots import Figure, finish, panels
from plueckernet.evaluation.rates import Rate, percent
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number

_FULL = "as published"
_CLAIMS = {
    "no matchability prior": "regressing which lines have a match helps",
    "no subspace coding": "coding directions and moments apart, with their neighbours, helps",
    "BatchNorm + ReLU": "GroupNorm and GELU are better than BatchNorm and ReLU",
    "no cross-attention": "attention between the maps makes features tell lines apart",
    "Gram–Schmidt": "features of directions and moments that are made orthogonal are of no benefit",
    "fast attention": "faster attention makes it worse",
}
_NO_BENEFIT = "Gram–Schmidt"  # held if it does not help; the other designs, if they harm
_CERTAINTY = 0.95
SMALLEST_EFFECT = 0.01  # of the recall, that counts as help or harm
_COLOURS = {"indoor": "#0072b2", "outdoor": "#e69f00"}


@dataclass(frozen=True)
class AblationSettings:
    """How long and on what every design is trained and judged."""

    steps: int = 3000
    batch: int = 16
    lines: int = 256  # at most, of a map to train on
    rate: float = 5e-4  # learning rate at its highest
    scenes: int = 4096
    pairs: int = 100  # per dataset to judge by


@dataclass(frozen=True)
class TrainingResult:
    """What one training has come to on one dataset."""

    precision: float  # of the most probable matches
    recall: float
    success: Rate  # poses below 5° and 0.5 m
    strict: Rate | None  # below 1° and 0.1 m
    rotation_median: float | None
    translation_median: float | None
    recalls: tuple[float, ...]  # pair by pair: designs are compared on the same pairs


@dataclass(frozen=True)
class TrainingRun:
    """One design trained with one seed."""

    design: str
    seed: int
    result: Mapping[str, TrainingResult]  # by dataset
    milliseconds_per_step: float | None = None
    loss: tuple[tuple[float, float], ...] = ()  # step and loss


@dataclass(frozen=True)
class AblationValues:
    """All trainings."""

    settings: AblationSettings
    trainings: tuple[TrainingRun, ...]

    def of(self, design: str) -> list[TrainingRun]:
        """The trainings of one design."""
        return [run for run in self.trainings if run.design == design]


def run(runner: Runner) -> AblationValues:
    """The trainings, from the file given by ``--data ablations=FILE``."""
    return read_ablations(_file(runner)).values


def trained_by(runner: Runner) -> Mapping[str, Any]:
    """The provenance of the trainings."""
    return read_ablations(_file(runner)).provenance


def read_ablations(path: Path) -> ResultDocument[AblationValues]:
    """The document of the trainings; without two of the network as published there is nothing to compare with."""
    document = read_result(path, "ablations", AblationValues)
    complete = document.values.of(_FULL)
    if len(complete) < 2:
        raise FormatError(path, f"two trainings of the network {_FULL!r} are needed, {len(complete)} are there")
    return document


def _file(runner: Runner) -> Path:
    path = runner.settings.data.get("ablations")
    if path is None:
        raise InputError("ablations are trained first: plueckernet evaluate ablations; then --data ablations=FILE")
    return path


def tables(values: AblationValues) -> list[Table]:
    """Matches and poses of each training."""
    heads = ["design", "seed"]
    for name in DATASETS:
        heads += [f"{name}: match precision", "recall", "success", "median °", "median m"]
    rows = []
    for training in sorted(values.trainings, key=lambda training: _order(training.design)):
        cells = [training.design, str(training.seed)]
        for name in DATASETS:
            result = training.result[name]
            cells += [percent(result.precision), percent(result.recall), str(result.success)]
            cells += [number(result.rotation_median), number(result.translation_median)]
        rows.append(cells)
    settings = values.settings
    title = f"{settings.steps} steps of {settings.batch} pairs each; judged on {settings.pairs} pairs per dataset"
    return [Table(title, heads, rows)]


def figures(values: AblationValues) -> dict[str, Figure]:
    """Precision and recall of the matches: means, and a dot for each seed."""
    figure, axes = panels(1, 2, height=2.6, share_labels=True)
    designs = sorted({training.design for training in values.trainings}, key=_order)
    for panel, quantity in zip(axes[0], ("precision", "recall"), strict=True):
        for shift, name in ((-0.2, "indoor"), (0.2, "outdoor")):
            for place, design in enumerate(designs):
                heights = [100 * getattr(training.result[name], quantity) for training in values.of(design)]
                label = name if place == 0 else None
                panel.barh(place + shift, np.mean(heights), height=0.38, color=_COLOURS[name], label=label)
                dots = "each seed" if place == 0 and name == "outdoor" else None
                panel.plot(heights, [place + shift] * len(heights), "o", color="black", markersize=3, label=dots)
        panel.set_yticks(range(len(designs)), designs)
        panel.set_ylim(len(designs) - 0.5, -0.5)
        panel.set(xlabel=f"{quantity} of the 200 best matches (%)")
    return {"matches": finish(figure, axes)}


@dataclass(frozen=True)
class ComponentClaim:
    """One of the paper's claims about its network, and what the trainings say about it."""

    claim: str
    outcome: str  # held, refuted, not decided or not measured
    evidence: str


def component_claims(values: AblationValues) -> list[ComponentClaim]:
    """Whether each claim held: how many fewer matches are recalled without the component, and how certain that is."""
    known, spread, freedom = _known(values)
    claims = []
    for design, claim in _CLAIMS.items():
        if design not in known:
            claims.append(ComponentClaim(claim, "not measured", f"{design} was not trained"))
            continue
        lost, margin = _compared(known[_FULL], known[design], spread, freedom)
        difference = f"{100 * abs(lost):.1f} ± {100 * margin:.1f} points {'more' if lost < 0 else 'fewer'}"
        evidence = f"{design} recalls {_words(known[design])}, {difference} ({percent(_CERTAINTY, 0)} confidence)"
        claims.append(ComponentClaim(claim, _outcome(design, lost, margin), evidence))
    return claims


def findings(values: AblationValues) -> list[str]:
    """How much seeds vary, then each claim."""
    known, spread, freedom = _known(values)
    full = known[_FULL]
    sentences = [
        f"{len(full)} seeds of the network as published recall {_words(full)} of the matches. Trainings that differ "
        f"only in their seed differ by {100 * spread:.1f} points (one sigma, {freedom} degrees of freedom).",
        f"The smallest effect that counts is {100 * SMALLEST_EFFECT:g} point of recall. That a component helps is held "
        "if matches are lost without it, refuted if the loss is certainly smaller than that, otherwise not decided.",
    ]
    return sentences + [f"“{entry.claim}”: {entry.evidence}; {entry.outcome}." for entry in component_claims(values)]


def _known(values: AblationValues) -> tuple[dict[str, np.ndarray], float, int]:
    """Recalls by design, one sigma between seeds, and its degrees of freedom."""
    recalls = {design: _recalls(values, design) for design in (_FULL, *_CLAIMS)}
    known = {design: rows for design, rows in recalls.items() if len(rows)}
    freedom = sum(len(rows) - 1 for rows in known.values())
    spread = math.sqrt(
        sum(float(rows.mean(1).var(ddof=1)) * (len(rows) - 1) for rows in known.values() if len(rows) > 1) / freedom
    )
    return known, spread, freedom


def _outcome(design: str, lost: float, margin: float) -> str:
    """Whether there is an effect, or none that counts, with the certainty of the margin.

    That a component helps, or that its replacement is worse, is held if recall is lost without it and refuted if the
    loss is certainly smaller than what counts. That something is of no benefit is refuted and held the other way round.
    """
    effect, there, none = (-lost, "refuted", "held") if design == _NO_BENEFIT else (lost, "held", "refuted")
    return there if effect > margin else none if effect + margin < SMALLEST_EFFECT else "not decided"


def _compared(full: np.ndarray, other: np.ndarray, spread: float, freedom: int) -> tuple[float, float]:
    """The recall lost, and its margin: seeds vary, and so do pairs, which are the same for both designs."""
    try:
        from scipy.stats import t as student
    except ModuleNotFoundError as error:
        raise MissingDependencyError("scipy", "evaluate") from error

    by_pair = full.mean(0) - other.mean(0)
    of_seeds = spread * math.sqrt(1 / len(full) + 1 / len(other))
    of_pairs = float(by_pair.std(ddof=1)) / math.sqrt(len(by_pair)) if len(by_pair) > 1 else math.inf
    return float(by_pair.mean()), float(student.ppf((1 + _CERTAINTY) / 2, freedom)) * math.hypot(of_seeds, of_pairs)


def _recalls(values: AblationValues, design: str) -> np.ndarray:
    """Recall of the matches: a row per seed, a column per pair of either dataset."""
    results = [training.result for training in values.of(design)]
    return np.array([[value for name in DATASETS for value in result[name].recalls] for result in results])


def _words(recalls: np.ndarray) -> str:
    return " and ".join(percent(float(recall)) for recall in recalls.mean(1))


def _order(design: str) -> int:
    return [_FULL, *_CLAIMS].index(design)


ABLATIONS = Experiment(
    name="ablations",
    title="Ablations",
    about="The paper's network trained briefly without one of its components, or with what the paper has tried and "
    "dropped, with several seeds, on the same pairs for all designs. Each is judged on held-out pairs of the "
    "paper's protocol by the 200 most probable matches and, through the paper's RANSAC, by the poses. Short "
    "trainings may favour a design that learns fast over one that is better in the end.",
    values=AblationValues,
    plan=None,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
    source="plueckernet.training.ablations",
    trained_by=trained_by,
)
