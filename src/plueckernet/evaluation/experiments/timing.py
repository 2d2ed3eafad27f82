"""Where the time goes: features, matching, pose."""

from __future__ import annotations

from plueckernet.evaluation.experiments.base import ROLES, Document, Experiment, main_plan
from plueckernet.evaluation.paper import SECONDS
from plueckernet.evaluation.plots import Figure, finish, panels
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import STAGES, mean_seconds
from plueckernet.evaluation.tables import Table, number

_PLAN = main_plan("icl", "pluecker", "ours-without-weights", "ours")
_COLOURS = {"features": "#56b4e9", "matching": "#e69f00", "pose": "#555555"}


def run(runner: Runner) -> Document:
    """Mean seconds of each stage by dataset and role."""
    found = _PLAN.only(runner)
    cells = {name: {role: mean_seconds(one) for role, one in methods.items()} for name, methods in found.items()}
    ran = {"device": runner.settings.device, "processes": runner.settings.workers}
    return {**_PLAN.frame(runner), **ran, "cells": cells}


def _all_rows(document: Document, name: str) -> dict[str, dict[str, float]]:
    rows = {ROLES[role]: cell for role, cell in document["cells"][name].items()}
    return rows | {f"{method}, in the paper": cell for method, cell in SECONDS[name].items()}


def tables(document: Document) -> list[Table]:
    """Seconds, and the whole as a multiple of ICL in the same place."""
    heads = ["method", *(f"{stage} (s)" for stage in STAGES), "together (s)", "times ICL"]
    found = []
    for name, label in document["datasets"].items():
        rows, all_rows = [], _all_rows(document, name)
        for method, cell in all_rows.items():
            base = all_rows["ICL, in the paper" if method.endswith("in the paper") else "ICL"]
            stages = [number(cell.get(stage)) for stage in STAGES]
            ratio = _total(cell) / _total(base) if _total(base) else None
            rows.append([method, *stages, number(_total(cell)), number(ratio, 1)])
        how = f"{document['pairs'][name]} pairs, {document['device']}, {document['processes']} processes of one thread"
        found.append(Table(f"{label}: mean of {how}", heads, rows))
    return found


def figures(document: Document) -> dict[str, Figure]:
    """Stages stacked."""
    figure, axes = panels(1, len(document["datasets"]), height=2.4, share_labels=True)
    for one, (name, label) in zip(axes[0], document["datasets"].items(), strict=True):
        rows = _all_rows(document, name)
        left = [0.0] * len(rows)
        for stage in STAGES:
            widths = [cell.get(stage, 0.0) for cell in rows.values()]
            one.barh(list(rows), widths, left=left, color=_COLOURS[stage], label=stage)
            left = [a + b for a, b in zip(left, widths, strict=True)]
        one.set_ylim(len(rows) - 0.5, -0.5)
        one.set(xlabel="seconds a pair", title=label)
    return {"stages": finish(figure, axes)}


def findings(document: Document) -> list[str]:
    """Relative to ICL, the one program that ran in both places."""
    found = []
    for name in document["datasets"]:
        rows = _all_rows(document, name)
        if not _total(rows["ICL"]):
            continue
        ours = _total(rows["ours"]) / _total(rows["ICL"])
        paper = _total(rows["PlückerNet, in the paper"]) / _total(rows["ICL, in the paper"])
        found.append(
            f"{name}: our whole registration takes {ours:.1f} times as long as ICL in the same run; the paper's takes "
            f"{paper:.1f} times as long as its ICL, with its network on a GPU. Seconds of two machines do not compare."
        )
    return found


def _total(cell: dict[str, float]) -> float:
    return sum(cell.values())


TIMING = Experiment(
    name="timing",
    title="Time",
    about="Mean time of a pair of Table 1 by stage, of one thread of the processor where the device is the CPU. The "
    "paper used a Titan XP and a RANSAC in Python.",
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
