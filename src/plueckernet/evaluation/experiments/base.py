"""What experiments share: their form, the roles that methods play in them, and predictions for many cells at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plueckernet.evaluation.plots import Figure
from plueckernet.evaluation.predictions import Prediction
from plueckernet.evaluation.protocols import Protocol, Recorded, describe
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table

Document = dict[str, Any]
DATASETS = ("indoor", "outdoor")
PAIRS = 200  # of the cells that most experiments rest on
SWEPT = 50  # of each step of a sweep
ROLES = {
    "icl": "ICL",
    "icl-undirected": "ICL, undirected",
    "regression": "regression",
    "pluecker": "PlückerNet",
    "pluecker-cross": "PlückerNet, trained on the other",
    "pluecker-refined": "PlückerNet, our estimation",
    "ours-without-weights": "ours, no weights",
    "ours": "ours",
    "bound": "bound (matches known)",
    "ransac-published": "RANSAC as published",
    "ransac-ours": "our RANSAC and refinement",
}


@dataclass(frozen=True)
class Experiment:
    """One table or figure: how to make it, and how to show what was made.

    Only `run` computes; the rest reads the document, so that a page can be made anew from what is committed.
    """

    name: str
    title: str
    about: str  # what is compared, and what the paper says about it
    run: Callable[[Runner], Document]
    tables: Callable[[Document], list[Table]]
    figures: Callable[[Document], dict[str, Figure]]
    findings: Callable[[Document], list[str]]  # in words, from the numbers


def method_name(role: str, dataset: str) -> str:
    """The method that plays a role on a dataset: networks of the paper are trained for one of the two."""
    domain = "indoor" if dataset == "indoor" else "outdoor"
    other = "outdoor" if dataset == "indoor" else "indoor"
    special = {
        "pluecker": f"pluecker-{domain}",
        "pluecker-cross": f"pluecker-{other}",
        "pluecker-refined": f"pluecker-{domain}-refined",
        "regression": f"regression-{domain}",
    }
    return special.get(role, role)


def native(runner: Runner, dataset: str, otherwise: Protocol) -> Protocol:
    """The pairs that a dataset has recorded, or a protocol to draw some."""
    return Recorded() if runner.datasets[dataset].recorded else otherwise


def predictions_of(
    runner: Runner,
    protocols: Sequence[Protocol],
    roles: Sequence[str],
    pairs: int,
    datasets: Sequence[str] = DATASETS,
) -> dict[str, dict[str, list[list[Prediction]]]]:
    """By dataset and role, the predictions under each protocol in turn."""
    places = [(dataset, role, protocol) for dataset in datasets for role in roles for protocol in protocols]
    cells = [runner.cell(dataset, protocol, method_name(role, dataset)) for dataset, role, protocol in places]
    found = iter(runner.run(cells, pairs))
    return {dataset: {role: [next(found) for _ in protocols] for role in roles} for dataset in datasets}


def frame(runner: Runner, protocols: Sequence[Protocol], pairs: int, datasets: Sequence[str] = DATASETS) -> Document:
    """What every document says about where its numbers come from."""
    sizes = [runner.datasets[name].size(protocol) for name in datasets for protocol in protocols]
    return {
        "pairs": min(one for one in (pairs, runner.settings.limit, *sizes) if one is not None),
        "datasets": {name: runner.datasets[name].label for name in datasets},
        "protocols": [describe(protocol) for protocol in protocols],
    }
