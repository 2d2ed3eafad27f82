"""Error as a multiple of the maximum-likelihood bound: the cost of not knowing the matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import ROLES, Setting, main_plan
from plueckernet.evaluation.paper import TABLE_1
from plueckernet.evaluation.plots import Figure, draw_bars, finish, panels
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number

_PLAN = main_plan("bound", "icl", "pluecker", "pluecker-refined", "ours-without-weights", "ours", "ours-told")
_QUANTITIES = ("rotation", "translation")


@dataclass(frozen=True)
class BoundedError:
    """A median error, and what it is of the bound's."""

    median: float | None
    multiple: float | None


@dataclass(frozen=True)
class BoundValues:
    """By dataset, role and quantity."""

    setting: Setting
    cells: Mapping[str, Mapping[str, Mapping[str, BoundedError]]]


def run(runner: Runner) -> BoundValues:
    """Medians, and each as a multiple of the bound's."""
    summaries = _PLAN.summaries(runner)
    cells = {
        name: {
            role: {
                quantity: BoundedError(
                    cell.median(quantity), _ratio(cell.median(quantity), methods["bound"].median(quantity))
                )
                for quantity in _QUANTITIES
            }
            for role, cell in methods.items()
        }
        for name, methods in summaries.cells.items()
    }
    return BoundValues(summaries.setting, cells)


def tables(values: BoundValues) -> list[Table]:
    """Medians and multiples; the paper's own medians over the bound of our data."""
    heads = ["method", "rotation (°)", "over the bound", "translation (m)", "over the bound"]
    made = []
    for name, label in values.setting.datasets.items():
        cells = values.cells[name]
        rows = [
            [ROLES[role], *(text for q in _QUANTITIES for text in (number(cell[q].median), _times(cell[q].multiple)))]
            for role, cell in cells.items()
        ]
        published = [TABLE_1[name]["PlückerNet"][q][1] for q in _QUANTITIES]
        multiples = [_ratio(value, cells["bound"][q].median) for value, q in zip(published, _QUANTITIES, strict=True)]
        texts = [
            text for value, times in zip(published, multiples, strict=True) for text in (number(value), _times(times))
        ]
        rows.append(["PlückerNet, in the paper", *texts])
        made.append(Table(f"{label}: {values.setting.pairs[name]} pairs", heads, rows))
    return made


def figures(values: BoundValues) -> dict[str, Figure]:
    """Multiples as bars."""
    figure, axes = panels(1, len(values.setting.datasets), height=2.4)
    for panel, (name, label) in zip(axes[0], values.setting.datasets.items(), strict=True):
        shown = {role: cell for role, cell in values.cells[name].items() if role != "bound"}
        heights = {role: [cell[q].multiple for q in _QUANTITIES] for role, cell in shown.items()}
        draw_bars(panel, _QUANTITIES, heights, ROLES)
        panel.axhline(1.0, color="black", linestyle=":", linewidth=1)
        panel.set(ylabel="median error / bound", ylim=(0, None), title=label)
    return {"multiples": finish(figure, axes)}


def findings(values: BoundValues) -> list[str]:
    """Whether ours is within ten percent of the bound."""
    sentences = []
    for name, cells in values.cells.items():
        for role in ("ours", "ours-told"):
            multiples = [cells[role][q].multiple for q in _QUANTITIES]
            words = " and ".join(_times(multiple) for multiple in multiples)
            close = all(multiple is not None and multiple <= 1.1 for multiple in multiples)
            sentences.append(
                f"{name}, {ROLES[role]}: the median rotation and translation errors are {words} the bound's, "
                f"{'within' if close else 'not within'} ten percent of it."
            )
    return sentences


def _ratio(value: float | None, by: float | None) -> float | None:
    return None if value is None or by is None else value / by


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} ×"


BOUND = Experiment(
    name="bound",
    title="Error over the maximum-likelihood bound",
    about="The bound knows the right matches and the noise. The paper's medians are divided by the bound of our data, "
    "because the bound of its own data is not known.",
    values=BoundValues,
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
