"""What experiments share: their form, the roles that methods play in them, and the predictions that they need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plueckernet.data.protocols import PaperProtocol
from plueckernet.evaluation.plots import Figure
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.protocols import Protocol, Recorded, describe
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table

Document = dict[str, Any]
DATASETS = ("indoor", "outdoor")
PAIRS = 525  # of the cells that most experiments rest on: the paper's larger test set
SWEPT = 100  # of each step of a sweep
ROLES = {
    "icl": "ICL",
    "icl-undirected": "ICL, undirected",
    "regression": "regression",
    "pluecker": "PlückerNet",
    "pluecker-cross": "PlückerNet, trained on the other",
    "pluecker-refined": "PlückerNet, our estimation",
    "ours-without-weights": "ours, no weights",
    "ours": "ours",
    "ours-told": "ours, told directions and noise",
    "bound": "bound (matches known)",
    "ransac-published": "RANSAC as published",
    "ransac-ours": "our RANSAC and refinement",
}


@dataclass(frozen=True)
class Experiment:
    """One table or figure: how to make it, and how to show what was made.

    Only `run` computes; the rest reads the document, so that a page can be made anew from what is committed.
    """

    name: str
    title: str
    about: str  # what is compared, and what the paper says about it
    plan: Plan | None  # whose predictions `run` needs
    run: Callable[[Runner], Document]
    tables: Callable[[Document], list[Table]]
    figures: Callable[[Document], dict[str, Figure]]
    findings: Callable[[Document], list[str]]  # in words, from the numbers


def method_name(role: str, dataset: str) -> str:
    """The method that plays a role on a dataset: networks of the paper are trained for one of the two."""
    domain = "indoor" if dataset == "indoor" else "outdoor"
    other = "outdoor" if dataset == "indoor" else "indoor"
    special = {
        "pluecker": f"pluecker-{domain}",
        "pluecker-cross": f"pluecker-{other}",
        "pluecker-refined": f"pluecker-{domain}-refined",
        "regression": f"regression-{domain}",
    }
    return special.get(role, role)


@dataclass(frozen=True)
class Plan:
    """Which methods an experiment compares, under which protocols and on how many pairs of which datasets."""

    roles: Sequence[str]
    protocols: Sequence[Protocol]
    pairs: int
    datasets: Sequence[str] = DATASETS
    recorded: bool = False  # where a dataset has recorded pairs, those are used instead of the one protocol

    def requests(self, runner: Runner) -> list[tuple[Cell, int]]:
        """All cells that the experiment needs."""
        return [
            (cell, self.pairs)
            for name in self.datasets
            for role in self.roles
            for cell in self._cells(runner, name, role)
        ]

    def predictions(self, runner: Runner) -> dict[str, dict[str, list[list[Prediction]]]]:
        """By dataset and role, under each protocol in turn."""
        found = iter(runner.run([cell for cell, _ in self.requests(runner)], self.pairs))
        return {name: {role: [next(found) for _ in self.protocols] for role in self.roles} for name in self.datasets}

    def only(self, runner: Runner) -> dict[str, dict[str, list[Prediction]]]:
        """The same where there is one protocol."""
        return {
            name: {role: cells[0] for role, cells in methods.items()}
            for name, methods in self.predictions(runner).items()
        }

    def frame(self, runner: Runner) -> Document:
        """What every document says about where its numbers come from."""
        cells = {name: self._cells(runner, name, self.roles[0]) for name in self.datasets}
        return {
            "pairs": {name: min(runner.count(cell, self.pairs) for cell in cells[name]) for name in self.datasets},
            "datasets": {name: runner.datasets[name].label for name in self.datasets},
            "protocols": {name: [describe(cell.protocol) for cell in cells[name]] for name in self.datasets},
        }

    def _cells(self, runner: Runner, dataset: str, role: str) -> list[Cell]:
        use_recorded = self.recorded and runner.datasets[dataset].recorded
        protocols = [Recorded()] if use_recorded else self.protocols
        return [runner.cell(dataset, protocol, method_name(role, dataset)) for protocol in protocols]


def main_plan(*roles: str, pairs: int = PAIRS) -> Plan:
    """The paper's protocol as it stands, on both datasets: what Table 1 and all that follows from it are made of."""
    return Plan(roles, [PaperProtocol()], pairs, recorded=True)
