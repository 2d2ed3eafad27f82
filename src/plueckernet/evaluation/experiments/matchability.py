"""Do networks know which lines have a match? First 100 scenes, as in the paper's appendix."""

from __future__ import annotations

import numpy as np

from plueckernet.evaluation.experiments.base import ROLES, Document, Experiment, main_plan
from plueckernet.evaluation.plots import Figure, finish, look, panels
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number, percent

_PLAN = main_plan("pluecker", "ours", pairs=100)


def run(runner: Runner) -> Document:
    """Mean matchability of both sorts of lines, scene by scene, relative to the mean of all lines."""
    found = _PLAN.only(runner)
    cells = {
        name: {
            role: [
                [one.matchable, one.unmatchable]
                for one in cells
                if one.matchable is not None and one.unmatchable is not None
            ]
            for role, cells in methods.items()
        }
        for name, methods in found.items()
    }
    return {**_PLAN.frame(runner), "cells": cells}


def tables(document: Document) -> list[Table]:
    """Means, and in how many scenes the right sort has more."""
    heads = [
        "dataset",
        "network",
        "scenes",
        "lines with a match",
        "lines without",
        "scenes where the former have more",
    ]
    rows = []
    for name in document["datasets"]:
        for role, scenes in document["cells"][name].items():
            if scenes:
                means = [number(float(value), 2) for value in np.mean(scenes, axis=0)]
                rows.append([name, ROLES[role], str(len(scenes)), *means, percent(_outweighed(scenes))])
            else:
                rows.append([name, ROLES[role], "0", "–", "–", "–"])
    return [Table("Mean matchability, where the mean of all lines of a map is 1", heads, rows)]


def figures(document: Document) -> dict[str, Figure]:
    """Both sorts in every scene."""
    figure, axes = panels(len(_PLAN.roles), len(document["datasets"]), height=2.0)
    for row, role in zip(axes, _PLAN.roles, strict=True):
        for one, (name, label) in zip(row, document["datasets"].items(), strict=True):
            scenes = document["cells"][name][role]
            x = range(1, len(scenes) + 1)
            sorts = (("lines with a match", look(role).colour, "o"), ("lines without", "#888888", "x"))
            for column, (text, colour, marker) in enumerate(sorts):
                y = [scene[column] for scene in scenes]
                one.plot(x, y, color=colour, marker=marker, markersize=3, linestyle="", label=f"{ROLES[role]}: {text}")
            one.set(xlabel="scene", ylabel="matchability", title=label, ylim=(0, None))
    return {"scenes": finish(figure, axes)}


def findings(document: Document) -> list[str]:
    """The paper: in almost all scenes."""
    found = []
    for name, methods in document["cells"].items():
        words = [f"{ROLES[role]} in {percent(_outweighed(scenes))}" for role, scenes in methods.items() if scenes]
        found.append(
            f"{name}: lines with a match are given more than lines without by {' and '.join(words) or 'none'} of the "
            "scenes; the paper says in almost all."
        )
    return found


def _outweighed(scenes: list[list[float]]) -> float:
    return float(np.mean([having > lacking for having, lacking in scenes]))


MATCHABILITY = Experiment(
    name="matchability",
    title="Matchability",
    about="The matchability that a network gives to lines that have a match on the other side and to those that have "
    "none, on the first 100 pairs of Table 1. Maps of which only a part was matched are left out.",
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
