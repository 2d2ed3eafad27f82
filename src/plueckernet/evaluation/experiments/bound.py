"""Error as a multiple of the maximum-likelihood bound: what is lost by not knowing the matches."""

from __future__ import annotations

from plueckernet.evaluation.experiments.base import ROLES, Document, Experiment, main_plan
from plueckernet.evaluation.paper import TABLE_1
from plueckernet.evaluation.plots import Figure, draw_bars, finish, panels
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import summarise
from plueckernet.evaluation.tables import Table, number

_PLAN = main_plan("bound", "icl", "pluecker", "pluecker-refined", "ours-without-weights", "ours", "ours-told")
_QUANTITIES = ("rotation", "translation")


def run(runner: Runner) -> Document:
    """Medians, and each as a multiple of the bound's."""
    cells = {}
    for name, methods in _PLAN.only(runner).items():
        medians = {role: {q: summarise(one)[q][1] for q in _QUANTITIES} for role, one in methods.items()}
        cells[name] = {
            role: {q: {"median": median[q], "multiple": _ratio(median[q], medians["bound"][q])} for q in _QUANTITIES}
            for role, median in medians.items()
        }
    return {**_PLAN.frame(runner), "cells": cells}


def tables(document: Document) -> list[Table]:
    """Medians and multiples; the paper's own medians over the bound of our data."""
    heads = ["method", "rotation (°)", "over the bound", "translation (m)", "over the bound"]
    found = []
    for name, label in document["datasets"].items():
        cells = document["cells"][name]
        rows = [
            [
                ROLES[role],
                *(text for q in _QUANTITIES for text in (number(cell[q]["median"]), _times(cell[q]["multiple"]))),
            ]
            for role, cell in cells.items()
        ]
        published = [TABLE_1[name]["PlückerNet"][q][1] for q in _QUANTITIES]
        multiples = [
            _ratio(value, cells["bound"][q]["median"]) for value, q in zip(published, _QUANTITIES, strict=True)
        ]
        texts = [
            text for value, times in zip(published, multiples, strict=True) for text in (number(value), _times(times))
        ]
        rows.append(["PlückerNet, in the paper", *texts])
        found.append(Table(f"{label}: {document['pairs'][name]} pairs", heads, rows))
    return found


def figures(document: Document) -> dict[str, Figure]:
    """Multiples as bars."""
    figure, axes = panels(1, len(document["datasets"]), height=2.4)
    for one, (name, label) in zip(axes[0], document["datasets"].items(), strict=True):
        shown = {role: cell for role, cell in document["cells"][name].items() if role != "bound"}
        values = {role: [cell[q]["multiple"] for q in _QUANTITIES] for role, cell in shown.items()}
        draw_bars(one, _QUANTITIES, values, ROLES)
        one.axhline(1.0, color="black", linestyle=":", linewidth=1)
        one.set(ylabel="median error / bound", ylim=(0, None), title=label)
    return {"multiples": finish(figure, axes)}


def findings(document: Document) -> list[str]:
    """Within ten percent or not."""
    found = []
    for name, cells in document["cells"].items():
        for role in ("ours", "ours-told"):
            multiples = [cells[role][q]["multiple"] for q in _QUANTITIES]
            words = " and ".join(_times(value) for value in multiples)
            close = all(value is not None and value <= 1.1 for value in multiples)
            found.append(
                f"{name}, {ROLES[role]}: median rotation and translation errors are {words} the bound's, "
                f"{'within' if close else 'not within'} ten percent of it."
            )
    return found


def _ratio(value: float | None, by: float | None) -> float | None:
    return None if value is None or by is None else value / by


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} ×"


BOUND = Experiment(
    name="bound",
    title="Error over the maximum-likelihood bound",
    about="The bound knows the right matches and the noise. The paper's medians are divided by the bound of our data, "
    "which is not that of its own.",
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
