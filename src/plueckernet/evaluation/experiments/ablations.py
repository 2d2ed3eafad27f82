"""What PlückerNet owes to its parts, read from what ``python -m benchmarks.ablations`` has trained and judged."""

from __future__ import annotations

import json
from pathlib import Path

from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.experiments.base import DATASETS, Document, Experiment
from plueckernet.evaluation.plots import Figure, finish, panels
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number, percent

_FULL = ("as published", "as published, seed 1")
_CLAIMS = {
    "no matchability prior": "regressing which lines have a match helps",
    "no subspace coding": "coding directions and moments apart, with their neighbours, helps",
    "BatchNorm + ReLU": "GroupNorm and GELU are better than BatchNorm and ReLU",
    "no cross-attention": "attention between the maps makes features tell lines apart",
}


def run(runner: Runner) -> Document:
    """The trainings as they are, from the file given by ``--data ablations=FILE``."""
    path = runner.settings.data.get("ablations")
    if path is None:
        raise InputError("ablations are trained first: python -m benchmarks.ablations; then --data ablations=FILE")
    return read_ablations(path)


def read_ablations(path: Path) -> Document:
    """The document of the trainings; without the network as published there is nothing to compare with."""
    try:
        document: Document = json.loads(path.read_text(encoding="utf-8"))
        designs = {row["design"] for row in document["designs"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(path, f"no ablations: {error}") from error
    missing = [name for name in _FULL if name not in designs]
    if missing:
        raise FormatError(path, f"the design {missing[0]!r} is missing")
    return {name: document[name] for name in ("settings", "protocol", "designs")} | {"trained_on": document["metadata"]}


def tables(document: Document) -> list[Table]:
    """Matches and poses of each design."""
    heads = ["design"]
    for name in DATASETS:
        heads += [f"{name}: match precision", "recall", "success", "median °", "median m"]
    rows = []
    for row in document["designs"]:
        cells = [row["design"]]
        for name in DATASETS:
            result = row["result"][name]
            cells += [percent(result[key]) for key in ("precision", "recall", "success")]
            cells += [number(result[key]) for key in ("rotation_median", "translation_median")]
        rows.append(cells)
    steps, batch = document["settings"]["steps"], document["settings"]["batch"]
    pairs = document["settings"]["pairs"]
    return [Table(f"{steps} steps of {batch} pairs each; judged on {pairs} pairs a dataset", heads, rows)]


def figures(document: Document) -> dict[str, Figure]:
    """Precision and recall of the matches."""
    figure, axes = panels(1, 2, height=2.4, share_labels=True)
    names = [row["design"] for row in document["designs"]]
    places = range(len(names))
    for one, quantity in zip(axes[0], ("precision", "recall"), strict=True):
        for shift, name, colour in ((-0.2, "indoor", "#0072b2"), (0.2, "outdoor", "#e69f00")):
            values = [100 * row["result"][name][quantity] for row in document["designs"]]
            one.barh([place + shift for place in places], values, height=0.38, color=colour, label=name)
        one.set_yticks(places, names)
        one.set_ylim(len(names) - 0.5, -0.5)
        one.set(xlabel=f"match {quantity} (%)")
    return {"matches": finish(figure, axes)}


def findings(document: Document) -> list[str]:
    """A claim holds if the design without the part finds fewer matches by more than two seeds differ."""
    recalls = {row["design"]: _recall(row) for row in document["designs"]}
    one, other = (recalls[name] for name in _FULL)
    found = [f"Two seeds of the network as published recall {one:.1%} and {other:.1%} of the matches."]
    for design, claim in _CLAIMS.items():
        if design not in recalls:
            found.append(f"“{claim}”: {design} was not trained.")
            continue
        lost = min(one, other) - recalls[design]
        if lost > abs(one - other):
            verdict = "the claim held"
        elif recalls[design] - max(one, other) > abs(one - other):
            verdict = "the contrary was seen"
        else:
            verdict = "no difference beyond that of two seeds"
        found.append(f"“{claim}”: {design} recalls {recalls[design]:.1%}; {verdict}.")
    return found


def _recall(row: Document) -> float:
    """Of matches, over both datasets."""
    return sum(float(row["result"][name]["recall"]) for name in DATASETS) / len(DATASETS)


ABLATIONS = Experiment(
    name="ablations",
    title="Ablations",
    about="The paper's network trained anew without one of its parts, briefly and on the same batches, under the "
    "paper's protocol; judged by the matches and, through the paper's RANSAC, by the poses of held-out pairs.",
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
