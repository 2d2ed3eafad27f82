"""Do networks know which lines have a match? First 100 scenes, as in the paper's appendix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import ROLES, Setting, main_plan
from plueckernet.evaluation.plots import Figure, finish, panels, plot_style
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number

_PLAN = main_plan("pluecker", "ours-network", pairs=100)
_SceneMeans = tuple[float, float]  # of lines with a match and of lines without


@dataclass(frozen=True)
class MatchabilityValues:
    """By dataset and role: mean matchability of both sorts of lines in each scene, relative to all lines."""

    setting: Setting
    scenes: Mapping[str, Mapping[str, tuple[_SceneMeans, ...]]]


def run(runner: Runner) -> MatchabilityValues:
    """Mean matchability of lines with and without a match, scene by scene."""
    scenes = {
        name: {
            role: tuple(
                (prediction.matchable, prediction.unmatchable)
                for prediction in predictions
                if prediction.matchable is not None and prediction.unmatchable is not None
            )
            for role, predictions in methods.items()
        }
        for name, methods in _PLAN.only(runner).items()
    }
    return MatchabilityValues(_PLAN.setting(runner), scenes)


def tables(values: MatchabilityValues) -> list[Table]:
    """Means, and in how many scenes lines with a match have more."""
    heads = ["dataset", "network", "lines with a match", "lines without", "scenes where the former have more"]
    rows = []
    for name in values.setting.datasets:
        for role, scenes in values.scenes[name].items():
            means = [number(float(value), 2) for value in np.mean(scenes, axis=0)] if scenes else ["–", "–"]
            rows.append([name, ROLES[role], *means, str(_higher(scenes))])
    return [Table("Mean matchability, where the mean of all lines of a map is 1", heads, rows)]


def figures(values: MatchabilityValues) -> dict[str, Figure]:
    """Both sorts in every scene."""
    roles = list(next(iter(values.scenes.values())))
    figure, axes = panels(len(roles), len(values.setting.datasets), height=2.0)
    for row, role in zip(axes, roles, strict=True):
        for panel, (name, label) in zip(row, values.setting.datasets.items(), strict=True):
            scenes = values.scenes[name][role]
            x = range(1, len(scenes) + 1)
            sorts = (("lines with a match", plot_style(role).colour, "o"), ("lines without", "#888888", "x"))
            for column, (text, colour, marker) in enumerate(sorts):
                y, words = [scene[column] for scene in scenes], f"{ROLES[role]}: {text}"
                panel.plot(x, y, color=colour, marker=marker, markersize=3, linestyle="", label=words)
            panel.set(xlabel="scene", ylabel="matchability", title=label, ylim=(0, None))
    return {"scenes": finish(figure, axes)}


def findings(values: MatchabilityValues) -> list[str]:
    """The paper: in almost all scenes."""
    sentences = []
    for name, methods in values.scenes.items():
        words = [f"{ROLES[role]} in {_higher(scenes)}" for role, scenes in methods.items() if scenes]
        sentences.append(
            f"{name}: scenes in which lines with a match get a higher matchability than lines without: "
            f"{'; '.join(words) or 'none'}. The paper says almost all."
        )
    return sentences


def _higher(scenes: Sequence[_SceneMeans]) -> Rate:
    return Rate.of([having > lacking for having, lacking in scenes])


MATCHABILITY = Experiment(
    name="matchability",
    title="Matchability",
    about="The matchability that a network gives to lines that have a match on the other side and to lines that have "
    "none, on the first 100 pairs of Table 1. Maps of which only some lines were matched are left out.",
    values=MatchabilityValues,
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
