"""Table 1 of the paper: quartiles of the errors of all methods on both datasets."""

from __future__ import annotations

from plueckernet.evaluation.experiments.base import ROLES, Document, Experiment, main_plan
from plueckernet.evaluation.paper import TABLE_1
from plueckernet.evaluation.plots import Figure, draw_range, finish, panels, plain_logarithm
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import summarise
from plueckernet.evaluation.tables import Table, number, percent

_PLAN = main_plan(
    "icl", "regression", "pluecker", "pluecker-refined", "ours-without-weights", "ours", "ours-told", "bound"
)
_UNITS = {"rotation": "rotation error (°)", "translation": "translation error (m)"}


def run(runner: Runner) -> Document:
    """Summaries by dataset and role."""
    found = _PLAN.only(runner)
    cells = {name: {role: summarise(one) for role, one in methods.items()} for name, methods in found.items()}
    return {**_PLAN.frame(runner), "cells": cells}


def tables(document: Document) -> list[Table]:
    """One for each dataset, with the paper's rows."""
    heads = ["method", "rotation Q1 (°)", "median", "Q3", "translation Q1 (m)", "median", "Q3"]
    more = ["success", "< 1° and 0.1 m", "match precision", "match recall"]
    found = []
    for name, label in document["datasets"].items():
        rows = []
        for role, cell in document["cells"][name].items():
            errors = [number(value) for value in (*cell["rotation"], *cell["translation"])]
            shares = [percent(cell[key]) for key in ("success", "strict", "match_precision", "match_recall")]
            rows.append([ROLES[role], *errors, *shares])
        for method, published in TABLE_1[name].items():
            errors = [number(value) for value in (*published["rotation"], *published["translation"])]
            rows.append([f"{method}, in the paper", *errors, *["–"] * len(more)])
        found.append(Table(f"{label}: {document['pairs'][name]} pairs", [*heads, *more], rows))
    return found


def figures(document: Document) -> dict[str, Figure]:
    """Quartiles as ranges, the paper's beside ours."""
    figure, axes = panels(2, 2, height=2.1, share_labels=True)
    for row, (name, label) in zip(axes, document["datasets"].items(), strict=True):
        for one, (quantity, unit) in zip(row, _UNITS.items(), strict=True):
            names: list[str] = []
            for role, cell in document["cells"][name].items():
                draw_range(one, len(names), cell[quantity], role)
                names.append(ROLES[role])
                published = TABLE_1[name].get(ROLES[role])
                if published is not None:
                    draw_range(one, len(names), published[quantity], role, paper=True)
                    names.append(f"{ROLES[role]}, paper")
            one.set_yticks(range(len(names)), names)
            one.set_ylim(len(names) - 0.5, -0.5)
            one.set(xscale="log", xlabel=unit, title=label)
            plain_logarithm(one.xaxis)
    return {"quartiles": finish(figure, axes, legend=False)}


def findings(document: Document) -> list[str]:
    """Against the published numbers, and against ICL, which tells how hard the data are."""
    found = []
    for name in document["datasets"]:
        cells, paper = document["cells"][name], TABLE_1[name]
        ours, icl = cells["ours"], cells["icl"]
        for quantity, unit in (("rotation", "°"), ("translation", " m")):
            mine, published = ours[quantity][1], paper["PlückerNet"][quantity][1]
            if mine is None or icl[quantity][1] is None:
                found.append(f"{name}: more than half of our pairs have no pose; no median {quantity} error.")
                continue
            relation = "below" if mine < published else "above"
            scale = mine / icl[quantity][1], published / paper["ICL"][quantity][1]
            better = "better" if scale[0] < scale[1] else "worse"
            found.append(
                f"{name}, {quantity}: our median of {mine:.3f}{unit} is {relation} the {published:.3f}{unit} that the "
                f"paper publishes for PlückerNet. It is {scale[0]:.2f} times that of ICL on the same data, in the "
                f"paper {scale[1]:.2f} times: {better}."
            )
        found.append(f"{name}: {_against_paper(cells, paper)}.")
    return found


def _against_paper(cells: Document, paper: Document) -> str:
    """Medians of the paper's methods, here and there."""
    words = []
    for role in ("icl", "regression", "pluecker"):
        here = f"{number(cells[role]['rotation'][1])}° / {number(cells[role]['translation'][1])} m"
        there = f"{paper[ROLES[role]]['rotation'][1]:.3f}° / {paper[ROLES[role]]['translation'][1]:.3f} m"
        words.append(f"{ROLES[role]} {here} here, {there} in the paper")
    return f"medians of the paper's methods: {'; '.join(words)}"


TABLE1 = Experiment(
    name="table1",
    title="Table 1: errors of all methods",
    about="The paper's protocol (Sec. 4.1): rotation up to 45° about each axis, ±2 m, 5 cm and 2° of noise, 70 % of "
    "the lines kept on either side, directions carried over from source to target. Ours knows neither the directions "
    "nor that errors act at the feet from the origin, unless it is told; PlückerNet is given the directions.",
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
