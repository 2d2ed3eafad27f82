"""Recall of rotation and translation against the threshold, all methods, both datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import ROLES, Plan, Setting, main_plan
from plueckernet.evaluation.paper import recall_points
from plueckernet.evaluation.plots import Figure, draw, draw_paper, finish, panels
from plueckernet.evaluation.rates import percent
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import CellSummary, recall_curves, summarise
from plueckernet.evaluation.tables import Table

_PLAN = main_plan("icl", "regression", "pluecker", "ours-without-weights", "ours")
_STEPS = 50
_LARGEST = {"rotation": 5.0, "translation": 0.5}  # degrees, metres
_UNITS = {"rotation": "rotation threshold (°)", "translation": "translation threshold (m)"}
_SHOWN = {"rotation": (0.5, 1.0, 2.0, 5.0), "translation": (0.05, 0.1, 0.2, 0.5)}


@dataclass(frozen=True)
class RecallCell:
    """Fractions of the pairs whose error is below each threshold, and the summary of the cell."""

    recall: Mapping[str, tuple[float, ...]]  # of rotation and of translation
    summary: CellSummary


@dataclass(frozen=True)
class RecallValues:
    """Curves by dataset and role."""

    setting: Setting
    thresholds: Mapping[str, tuple[float, ...]]
    cells: Mapping[str, Mapping[str, RecallCell]]

    def best(self, dataset: str) -> dict[str, str]:
        """By quantity, the role with the largest area under its curve."""
        cells = self.cells[dataset]
        return {quantity: max(cells, key=lambda role: cells[role].summary.auc(quantity)) for quantity in _UNITS}


def measured(plan: Plan, runner: Runner) -> RecallValues:
    """Thresholds, and by dataset and role the recall at each."""
    thresholds = {name: tuple(largest * i / _STEPS for i in range(_STEPS + 1)) for name, largest in _LARGEST.items()}
    cells = {
        name: {
            role: RecallCell(recall_curves(predictions, thresholds), summarise(predictions))
            for role, predictions in methods.items()
        }
        for name, methods in plan.only(runner).items()
    }
    return RecallValues(plan.setting(runner), thresholds, cells)


def run(runner: Runner) -> RecallValues:
    """Curves of all methods."""
    return measured(_PLAN, runner)


def tables(values: RecallValues) -> list[Table]:
    """Recall at some thresholds, and the area under the curves."""
    heads = ["method"]
    heads += [f"rotation < {value:g}°" for value in _SHOWN["rotation"]] + ["area to 5°"]
    heads += [f"translation < {value:g} m" for value in _SHOWN["translation"]] + ["area to 0.5 m"]
    made = []
    for name, label in values.setting.datasets.items():
        rows = []
        for role, cell in values.cells[name].items():
            row = [ROLES[role]]
            for quantity, shown in _SHOWN.items():
                places = [values.thresholds[quantity].index(value) for value in shown]
                row += [percent(cell.recall[quantity][place]) for place in places]
                row.append(percent(cell.summary.auc(quantity)))
            rows.append(row)
        made.append(Table(f"Recall, {label}: {values.setting.pairs[name]} pairs", heads, rows))
    return made


def figures(values: RecallValues) -> dict[str, Figure]:
    """Two panels per dataset; stars are numbers that the paper gives."""
    figure, axes = panels(len(values.setting.datasets), 2)
    for row, (name, label) in zip(axes, values.setting.datasets.items(), strict=True):
        for panel, (quantity, unit) in zip(row, _UNITS.items(), strict=True):
            x = values.thresholds[quantity]
            for role, cell in values.cells[name].items():
                draw(panel, x, cell.recall[quantity], role, ROLES[role], markers=False)
                inside = [point for point in recall_points(name, ROLES[role], quantity) if point[0] <= x[-1]]
                if inside:
                    draw_paper(panel, [v for v, _ in inside], [q for _, q in inside], role, f"{ROLES[role]}, paper")
            panel.set(xlabel=unit, ylabel="recall", ylim=(0, 1.02), xlim=(0, x[-1]), title=label)
    return {"recall": finish(figure, axes)}


def findings(values: RecallValues) -> list[str]:
    """Which curve has the largest area."""
    sentences = []
    for name in values.cells:
        best = values.best(name)
        words = " and ".join(f"{ROLES[role]} for {quantity}" for quantity, role in best.items())
        sentences.append(f"{name}: the largest area under the recall curve has {words}.")
    return sentences


RECALL = Experiment(
    name="recall",
    title="Recall against the threshold",
    about="The fraction of pairs whose error is below a threshold, on the pairs of Table 1. The paper prints curves "
    "without numbers; the quartiles of its Table 1 are points on them.",
    values=RecallValues,
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
