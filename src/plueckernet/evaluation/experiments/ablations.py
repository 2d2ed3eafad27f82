"""What PlückerNet owes to its parts, read from what ``python -m benchmarks.ablations`` has trained and judged."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.experiments.base import DATASETS, Document, Experiment
from plueckernet.evaluation.plots import Figure, finish, panels
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number, percent

_FULL = "as published"
_CLAIMS = {
    "no matchability prior": "regressing which lines have a match helps",
    "no subspace coding": "coding directions and moments apart, with their neighbours, helps",
    "BatchNorm + ReLU": "GroupNorm and GELU are better than BatchNorm and ReLU",
    "no cross-attention": "attention between the maps makes features tell lines apart",
}
_CERTAIN = 0.95
_COLOURS = {"indoor": "#0072b2", "outdoor": "#e69f00"}


def run(runner: Runner) -> Document:
    """The trainings as they are, from the file given by ``--data ablations=FILE``."""
    path = runner.settings.data.get("ablations")
    if path is None:
        raise InputError("ablations are trained first: python -m benchmarks.ablations; then --data ablations=FILE")
    return read_ablations(path)


def read_ablations(path: Path) -> Document:
    """The document of the trainings; without two of the network as published there is nothing to compare with."""
    try:
        document: Document = json.loads(path.read_text(encoding="utf-8"))
        whole = [row for row in document["designs"] if row["design"] == _FULL]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(path, f"no ablations: {error}") from error
    if len(whole) < 2:
        raise FormatError(path, f"two trainings of the network {_FULL!r} are needed, {len(whole)} are there")
    return {"settings": document["settings"], "designs": document["designs"], "trained_on": document["metadata"]}


def tables(document: Document) -> list[Table]:
    """Matches and poses of each training."""
    heads = ["design", "seed"]
    for name in DATASETS:
        heads += [f"{name}: match precision", "recall", "success", "median °", "median m"]
    rows = []
    for row in sorted(document["designs"], key=lambda row: _order(row["design"])):
        cells = [row["design"], str(row["seed"])]
        for name in DATASETS:
            result = row["result"][name]
            cells += [percent(result[key]) for key in ("precision", "recall", "success")]
            cells += [number(result[key]) for key in ("rotation_median", "translation_median")]
        rows.append(cells)
    steps, batch, pairs = (document["settings"][name] for name in ("steps", "batch", "pairs"))
    return [Table(f"{steps} steps of {batch} pairs each; judged on {pairs} pairs a dataset", heads, rows)]


def figures(document: Document) -> dict[str, Figure]:
    """Precision and recall of the matches: means, and a dot for each seed."""
    figure, axes = panels(1, 2, height=2.6, share_labels=True)
    designs = sorted({row["design"] for row in document["designs"]}, key=_order)
    for one, quantity in zip(axes[0], ("precision", "recall"), strict=True):
        for shift, name in ((-0.2, "indoor"), (0.2, "outdoor")):
            for place, design in enumerate(designs):
                rows = [row for row in document["designs"] if row["design"] == design]
                values = [100 * row["result"][name][quantity] for row in rows]
                label = name if place == 0 else None
                one.barh(place + shift, np.mean(values), height=0.38, color=_COLOURS[name], label=label)
                dots = "each seed" if place == 0 and name == "outdoor" else None
                one.plot(values, [place + shift] * len(values), "o", color="black", markersize=3, label=dots)
        one.set_yticks(range(len(designs)), designs)
        one.set_ylim(len(designs) - 0.5, -0.5)
        one.set(xlabel=f"{quantity} of the 200 best matches (%)")
    return {"matches": finish(figure, axes)}


def findings(document: Document) -> list[str]:
    """Whether each claim held: how many matches fewer are found without the part, and how certain that is."""
    recalls = {design: _recalls(document, design) for design in (_FULL, *_CLAIMS)}
    known = {design: values for design, values in recalls.items() if len(values)}
    freedom = sum(len(values) - 1 for values in known.values())
    spread = math.sqrt(
        sum(float(values.mean(1).var(ddof=1)) * (len(values) - 1) for values in known.values() if len(values) > 1)
        / freedom
    )
    full = known[_FULL]
    found = [
        f"{len(full)} seeds of the network as published recall {_words(full)} of the matches; trainings that differ in "
        f"their seed alone differ by {100 * spread:.1f} points (one sigma, {freedom} degrees of freedom)."
    ]
    for design, claim in _CLAIMS.items():
        if design not in known:
            found.append(f"“{claim}”: {design} was not trained.")
            continue
        values = known[design]
        lost, margin = _compared(full, values, spread, freedom)
        verdict = "the claim held" if lost > margin else "the contrary was seen" if lost < -margin else "not decided"
        apart = f"{100 * abs(lost):.1f} ± {100 * margin:.1f} points {'more' if lost < 0 else 'fewer'}"
        found.append(f"“{claim}”: {design} recalls {_words(values)}, {apart} ({_CERTAIN:.0%} certain); {verdict}.")
    return found


def _compared(full: np.ndarray, other: np.ndarray, spread: float, freedom: int) -> tuple[float, float]:
    """What is lost, and its margin: seeds vary, and so do pairs, which are the same for both."""
    by_pair = full.mean(0) - other.mean(0)
    of_seeds = spread * math.sqrt(1 / len(full) + 1 / len(other))
    of_pairs = float(by_pair.std(ddof=1)) / math.sqrt(len(by_pair)) if len(by_pair) > 1 else math.inf
    return float(by_pair.mean()), float(student.ppf((1 + _CERTAIN) / 2, freedom)) * math.hypot(of_seeds, of_pairs)


def _recalls(document: Document, design: str) -> np.ndarray:
    """Share of the matches found: a row a seed, a column a pair of either dataset."""
    rows = [row["result"] for row in document["designs"] if row["design"] == design]
    return np.array([[value for name in DATASETS for value in row[name]["recalls"]] for row in rows])


def _words(values: np.ndarray) -> str:
    return " and ".join(f"{value:.1%}" for value in values.mean(1))


def _order(design: str) -> int:
    return [_FULL, *_CLAIMS].index(design)


ABLATIONS = Experiment(
    name="ablations",
    title="Ablations",
    about="The paper's network trained anew without one of its parts, briefly, with two seeds, on the same pairs for "
    "all; judged on held-out pairs of the paper's protocol by the 200 most probable matches and, through the paper's "
    "RANSAC, by the poses. Short trainings may favour what learns fast over what is better in the end.",
    plan=None,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
