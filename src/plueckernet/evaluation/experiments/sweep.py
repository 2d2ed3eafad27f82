"""Experiments that vary one number: median errors and success along it, both datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plueckernet.evaluation.experiments.base import DATASETS, ROLES, SWEPT, Document, Experiment, Plan
from plueckernet.evaluation.paper import TABLE_1
from plueckernet.evaluation.plots import Axes, Figure, draw, draw_paper, finish, panels, plain_logarithm
from plueckernet.evaluation.protocols import Protocol
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import summarise
from plueckernet.evaluation.tables import Table, number, percent

_UNITS = {"rotation": "median rotation error (°)", "translation": "median translation error (m)"}
_LOWEST = {"rotation": 0.01, "translation": 0.001}  # that figures show: less is rounding


@dataclass(frozen=True)
class Sweep:
    """One number, its values, and the protocol that each gives."""

    axis: str
    values: Sequence[float]
    protocols: Sequence[Protocol]
    roles: Sequence[str]
    published_at: float | None = None  # where the paper's Table 1 stands
    published_to: float | None = None  # how far the paper goes
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
        findings: Callable[[Document], list[str]],
        figures: Callable[[Document], dict[str, Figure]] | None = None,
    ) -> Experiment:
        """The sweep as an experiment; figures are of median errors and success unless others are given."""
        return Experiment(name, title, about, self.plan, self.run, self.tables, figures or self.figures, findings)

    def run(self, runner: Runner) -> Document:
        """Summaries by dataset, role and value."""
        cells = {
            name: {role: [summarise(one) for one in cells] for role, cells in methods.items()}
            for name, methods in self.plan.predictions(runner).items()
        }
        shown = {"axis": self.axis, "values": list(self.values), "names": self._names()}
        return {**self.plan.frame(runner), **shown, "cells": cells}

    def tables(self, document: Document) -> list[Table]:
        """Median errors and success of each role, one table a dataset."""
        found = []
        for name, label in document["datasets"].items():
            methods = document["cells"][name]
            heads = [self.axis, "lines in common", *(f"{ROLES[role]}: °, m, success" for role in methods)]
            rows = []
            for i, value in enumerate(document["names"]):
                common = next(iter(methods.values()))[i]["common_lines"]
                cells = (methods[role][i] for role in methods)
                rows.append([value, number(common, 0), *map(_in_one, cells)])
            found.append(Table(f"{label}: {document['pairs'][name]} pairs a row", heads, rows))
        return found

    def figures(self, document: Document) -> dict[str, Figure]:
        """Median errors and success."""
        return {"errors": self.error_figure(document), "success": self.success_figure(document)}

    def error_figure(self, document: Document) -> Figure:
        """Median errors; where more than half of the pairs fail there is no point."""
        figure, axes = panels(len(document["datasets"]), 2)
        for row, (name, label) in zip(axes, document["datasets"].items(), strict=True):
            for one, (quantity, unit) in zip(row, _UNITS.items(), strict=True):
                for role, cells in document["cells"][name].items():
                    draw(one, document["values"], [cell[quantity][1] for cell in cells], role, ROLES[role])
                    published = TABLE_1[name].get(ROLES[role])
                    if published is not None and self.published_at is not None:
                        y = published[quantity][1]
                        draw_paper(one, [self.published_at], [y], role, f"{ROLES[role]}, paper")
                one.set(xlabel=self.axis, ylabel=unit, yscale="log", title=label)
                one.set_ylim(bottom=max(_LOWEST[quantity], one.get_ylim()[0]))
                plain_logarithm(one.yaxis)
                self._draw_limit(one)
        return finish(figure, axes)

    def success_figure(self, document: Document) -> Figure:
        """Share of poses within 5° and 0.5 m."""
        figure, axes = panels(1, len(document["datasets"]), height=2.5)
        for one, (name, label) in zip(axes[0], document["datasets"].items(), strict=True):
            for role, cells in document["cells"][name].items():
                draw(one, document["values"], [100 * cell["success"] for cell in cells], role, ROLES[role])
            one.set(xlabel=self.axis, ylabel="success (%)", ylim=(-2, 103), title=label)
            self._draw_limit(one)
            if self.logarithmic:
                one.set_xscale("symlog", linthresh=min(value for value in document["values"] if value > 0))
                one.set_xlim(0, 1.3 * max(document["values"]))
                one.set_xticks(document["values"], document["names"])
                one.minorticks_off()
        return finish(figure, axes)

    def success(self, document: Document, dataset: str, role: str) -> dict[float, float]:
        """Success by value."""
        cells = document["cells"][dataset][role]
        return {value: cell["success"] for value, cell in zip(document["values"], cells, strict=True)}

    def success_findings(self, document: Document, at: Sequence[float]) -> list[str]:
        """Success of every role at some values."""
        found = []
        for name in DATASETS:
            words = []
            for role in document["cells"][name]:
                rates = self.success(document, name, role)
                words.append(f"{ROLES[role]} {' / '.join(f'{100 * rates[value]:.0f}' for value in at)} %")
            places = " / ".join(f"{value:g}" for value in at)
            found.append(f"{name}: success at {self.axis} {places}: {', '.join(words)}.")
        return found

    def _draw_limit(self, axes: Axes) -> None:
        if self.published_to is not None:
            axes.axvline(self.published_to, color="black", linestyle=":", linewidth=1, label="as far as the paper goes")

    def _names(self) -> list[str]:
        return list(self.names) or [f"{value:g}" for value in self.values]


def _in_one(cell: Document) -> str:
    return f"{number(cell['rotation'][1])}, {number(cell['translation'][1])}, {percent(cell['success'])}"
