"""Recall of rotation and translation against the threshold, all methods, both datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plueckernet.evaluation.experiments.base import ROLES, Document, Experiment, main_plan
from plueckernet.evaluation.paper import recall_points
from plueckernet.evaluation.plots import Figure, draw, draw_paper, finish, panels
from plueckernet.evaluation.predictions import Prediction
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import recall_curves, summarise
from plueckernet.evaluation.tables import Table, percent

_PLAN = main_plan("icl", "regression", "pluecker", "ours-without-weights", "ours")
_STEPS = 50
_LARGEST = {"rotation": 5.0, "translation": 0.5}  # degrees, metres
_UNITS = {"rotation": "rotation threshold (°)", "translation": "translation threshold (m)"}
_SHOWN = {"rotation": (0.5, 1.0, 2.0, 5.0), "translation": (0.05, 0.1, 0.2, 0.5)}


def run(runner: Runner) -> Document:
    """Curves by dataset and role."""
    return {**_PLAN.frame(runner), **curves(_PLAN.only(runner))}


def curves(found: Mapping[str, Mapping[str, Sequence[Prediction]]]) -> Document:
    """Thresholds, and by dataset and role the recall at each and what the curves come to."""
    thresholds = {name: [largest * i / _STEPS for i in range(_STEPS + 1)] for name, largest in _LARGEST.items()}
    cells = {
        name: {role: {"recall": recall_curves(one, thresholds), **summarise(one)} for role, one in methods.items()}
        for name, methods in found.items()
    }
    return {"thresholds": thresholds, "cells": cells}


def tables(document: Document) -> list[Table]:
    """Recall at some thresholds, and the area under the curves."""
    heads = ["method"]
    heads += [f"rotation < {value:g}°" for value in _SHOWN["rotation"]] + ["area to 5°"]
    heads += [f"translation < {value:g} m" for value in _SHOWN["translation"]] + ["area to 0.5 m"]
    found = []
    for name, label in document["datasets"].items():
        rows = []
        for role, cell in document["cells"][name].items():
            row = [ROLES[role]]
            for quantity, values in _SHOWN.items():
                places = [document["thresholds"][quantity].index(value) for value in values]
                row += [percent(cell["recall"][quantity][place]) for place in places]
                row.append(percent(cell[f"{quantity}_auc"]))
            rows.append(row)
        found.append(Table(f"Recall, {label}: {document['pairs'][name]} pairs", heads, rows))
    return found


def figures(document: Document) -> dict[str, Figure]:
    """Two panels a dataset; stars are what the paper gives numbers for."""
    figure, axes = panels(len(document["datasets"]), 2)
    for row, (name, label) in zip(axes, document["datasets"].items(), strict=True):
        for one, (quantity, unit) in zip(row, _UNITS.items(), strict=True):
            x = document["thresholds"][quantity]
            for role, cell in document["cells"][name].items():
                draw(one, x, cell["recall"][quantity], role, ROLES[role], markers=False)
                inside = [point for point in recall_points(name, ROLES[role], quantity) if point[0] <= x[-1]]
                if inside:
                    draw_paper(one, [v for v, _ in inside], [q for _, q in inside], role, f"{ROLES[role]}, paper")
            one.set(xlabel=unit, ylabel="recall", ylim=(0, 1.02), xlim=(0, x[-1]), title=label)
    return {"recall": finish(figure, axes)}


def findings(document: Document) -> list[str]:
    """Whether one curve lies above all others."""
    found = []
    for name, methods in document["cells"].items():
        best = {quantity: max(methods, key=lambda role: methods[role][f"{quantity}_auc"]) for quantity in _UNITS}
        words = " and ".join(f"{quantity} {ROLES[role]}" for quantity, role in best.items())
        found.append(f"{name}: the largest area under the recall curve has for {words}.")
    return found


RECALL = Experiment(
    name="recall",
    title="Recall against the threshold",
    about="Share of pairs whose error is below a threshold, on the pairs of Table 1. The paper prints curves without "
    "numbers; the quartiles of its Table 1 are points of them.",
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
