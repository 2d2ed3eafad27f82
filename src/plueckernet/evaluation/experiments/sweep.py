"""Experiments that vary one number: median errors and success along it, both datasets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import ROLES, SWEPT, Plan, Setting
from plueckernet.evaluation.paper import TABLE_1
from plueckernet.evaluation.plots import Axes, Figure, draw, draw_paper, finish, panels, plain_logarithm
from plueckernet.evaluation.protocols import EvaluationProtocol
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import CellSummary, summarise
from plueckernet.evaluation.tables import Table, number

_UNITS = {"rotation": "median rotation error (°)", "translation": "median translation error (m)"}
_LOWEST = {"rotation": 0.01, "translation": 0.001}  # shown in figures: less is rounding


@dataclass(frozen=True)
class SweepValues:
    """Summaries by dataset and role, one for each value of the axis."""

    setting: Setting
    axis: str
    values: tuple[float, ...]
    names: tuple[str, ...]  # of the values
    cells: Mapping[str, Mapping[str, tuple[CellSummary | None, ...]]]  # None: recorded pairs cannot show it

    def success(self, dataset: str, role: str) -> dict[float, Rate]:
        """Success by value."""
        cells = self.cells[dataset][role]
        return {value: cell.success for value, cell in zip(self.values, cells, strict=True) if cell is not None}


@dataclass(frozen=True)
class Sweep:
    """One number, its values, and the protocol that each gives."""

    axis: str
    values: Sequence[float]
    protocols: Sequence[EvaluationProtocol]
    roles: Sequence[str]
    published_at: float | None = None  # value to which the paper's Table 1 belongs
    published_to: float | None = None  # last value in the paper
    names: Sequence[str] = ()  # of the values, where they are more than a number
    logarithmic: bool = False
    pairs: int = SWEPT

    @property
    def plan(self) -> Plan:
        """The predictions that it needs."""
        return Plan(self.roles, self.protocols, self.pairs)

    def experiment(
        self,
        name: str,
        title: str,
        about: str,
        findings: Callable[[SweepValues], list[str]],
        figures: Callable[[SweepValues], dict[str, Figure]] | None = None,
    ) -> Experiment[SweepValues]:
        """The sweep as an experiment; figures are of median errors and success unless others are given."""
        shown = figures or self.figures
        return Experiment(name, title, about, SweepValues, self.plan, self.run, self.tables, shown, findings)

    def run(self, runner: Runner) -> SweepValues:
        """Summaries by dataset, role and value."""
        cells = {
            name: {
                role: tuple(None if step is None else summarise(step) for step in steps)
                for role, steps in methods.items()
            }
            for name, methods in self.plan.predictions(runner).items()
        }
        names = tuple(self.names) or tuple(f"{value:g}" for value in self.values)
        return SweepValues(self.plan.setting(runner), self.axis, tuple(self.values), names, cells)

    def tables(self, values: SweepValues) -> list[Table]:
        """Median errors, success and false successes of each role, one table per dataset."""
        tables = []
        for name, label in values.setting.datasets.items():
            methods = values.cells[name]
            heads = [self.axis, "lines in common", *(f"{ROLES[role]}: °, m, success, false" for role in methods)]
            rows = []
            for i, value in enumerate(values.names):
                first = next(iter(methods.values()))[i]
                common = None if first is None else first.common_lines
                rows.append([value, number(common, 0), *(_in_one(cells[i]) for cells in methods.values())])
            tables.append(Table(f"{label}: {values.setting.pairs[name]} pairs per row", heads, rows))
        return tables

    def figures(self, values: SweepValues) -> dict[str, Figure]:
        """Median errors and success."""
        return {"errors": self.error_figure(values), "success": self.success_figure(values)}

    def error_figure(self, values: SweepValues) -> Figure:
        """Median errors; where more than half of the pairs fail there is no point."""
        figure, axes = panels(len(values.setting.datasets), 2)
        for row, (name, label) in zip(axes, values.setting.datasets.items(), strict=True):
            for panel, (quantity, unit) in zip(row, _UNITS.items(), strict=True):
                for role, cells in values.cells[name].items():
                    medians = [None if cell is None else cell.median(quantity) for cell in cells]
                    draw(panel, values.values, medians, role, ROLES[role])
                    published = TABLE_1[name].get(ROLES[role])
                    if published is not None and self.published_at is not None:
                        y = published[quantity][1]
                        draw_paper(panel, [self.published_at], [y], role, f"{ROLES[role]}, paper")
                panel.set(xlabel=self.axis, ylabel=unit, yscale="log", title=label)
                panel.set_ylim(bottom=max(_LOWEST[quantity], panel.get_ylim()[0]))
                plain_logarithm(panel.yaxis)
                self._draw_limit(panel)
        return finish(figure, axes)

    def success_figure(self, values: SweepValues) -> Figure:
        """Percentage of poses within 5° and 0.5 m, and of best poses where a method does not give every one."""
        figure, axes = panels(1, len(values.setting.datasets), height=2.5)
        for panel, (name, label) in zip(axes[0], values.setting.datasets.items(), strict=True):
            for role, cells in values.cells[name].items():
                rates = [None if cell is None else 100 * cell.success.fraction for cell in cells]
                draw(panel, values.values, rates, role, ROLES[role])
                best = [None if cell is None or cell.best is None else 100 * cell.best.fraction for cell in cells]
                if best != rates:
                    draw(panel, values.values, best, role, f"{ROLES[role]}, best pose", dotted=True)
            panel.set(xlabel=self.axis, ylabel="success (%)", ylim=(-2, 103), title=label)
            self._draw_limit(panel)
            if self.logarithmic:
                panel.set_xscale("symlog", linthresh=min(value for value in values.values if value > 0))
                panel.set_xlim(0, 1.3 * max(values.values))
                panel.set_xticks(values.values, values.names)
                panel.minorticks_off()
        return finish(figure, axes)

    def success_findings(self, values: SweepValues, at: Sequence[float]) -> list[str]:
        """Success of every role at some values."""
        sentences = []
        for name, methods in values.cells.items():
            words = []
            for role in methods:
                rates = values.success(name, role)
                counts = [str(rates[value].count) if value in rates else "–" for value in at]
                words.append(f"{ROLES[role]} {' / '.join(counts)}")
            places, pairs = " / ".join(f"{value:g}" for value in at), values.setting.pairs[name]
            sentences.append(f"{name}: right of {pairs} pairs at {self.axis} {places}: {', '.join(words)}.")
        return sentences

    def _draw_limit(self, axes: Axes) -> None:
        if self.published_to is not None:
            axes.axvline(self.published_to, color="black", linestyle=":", linewidth=1, label="limit of the paper")


def _in_one(cell: CellSummary | None) -> str:
    if cell is None:
        return "–"
    errors = f"{number(cell.median('rotation'))}, {number(cell.median('translation'))}"
    return f"{errors}, {cell.success.percent}, {cell.false_success_text}"
