"""Which predictions an experiment needs: methods by role, protocols, datasets, numbers of pairs.

Documents of experiments name this module as their source: it and what it imports decide the numbers, while the words
and figures around them live in the modules of the experiments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plueckernet.data.noise import DirectionNoise
from plueckernet.data.protocols import Noise, PaperProtocol
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.protocols import EvaluationProtocol, Recorded, protocol_config, recordable
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.summary import CellSummary, summarise

DATASETS = ("indoor", "outdoor")
PAIRS = {"indoor": 525, "outdoor": 298}  # of most experiments: the paper's test sets
SWEPT = 100  # per step of a sweep
ROLES = {
    "icl": "ICL",
    "icl-undirected": "ICL, undirected",
    "regression": "regression",
    "pluecker": "PlückerNet",
    "pluecker-paper": "PlückerNet, the paper's training",
    "pluecker-cross": "PlückerNet, trained on the other",
    "pluecker-refined": "PlückerNet, our estimation",
    "ours-without-weights": "ours, no weights",
    "ours": "ours",
    "ours-network": "our network",
    "ours-told": "ours, told directions and noise",
    "bound": "bound (matches known)",
    "ransac-published": "RANSAC as published",
    "ransac-ours": "our RANSAC and refinement",
}


@dataclass(frozen=True)
class Setting:
    """What the numbers of a document were measured on, by dataset."""

    pairs: Mapping[str, int]
    datasets: Mapping[str, str]  # labels
    protocols: Mapping[str, tuple[Mapping[str, object], ...]]


@dataclass(frozen=True)
class CellsValues:
    """One summary per dataset and role."""

    setting: Setting
    cells: Mapping[str, Mapping[str, CellSummary]]


def method_name(role: str, dataset: str) -> str:
    """The method that plays a role on a dataset: networks of the paper are trained for one of the two."""
    domain = "indoor" if dataset == "indoor" else "outdoor"
    other = "outdoor" if dataset == "indoor" else "indoor"
    special = {
        "pluecker": f"pluecker-{domain}",
        "pluecker-paper": f"pluecker-paper-{domain}",
        "pluecker-cross": f"pluecker-{other}",
        "pluecker-refined": f"pluecker-{domain}-refined",
        "regression": f"regression-{domain}",
    }
    return special.get(role, role)


@dataclass(frozen=True)
class Plan:
    """Which methods an experiment compares, under which protocols and on how many pairs of which datasets."""

    roles: Sequence[str]
    protocols: Sequence[EvaluationProtocol]
    pairs: int | Mapping[str, int]  # by dataset, where they differ
    datasets: Sequence[str] = DATASETS
    recorded: bool = False  # where a dataset has recorded pairs, all of them are used instead of any protocol

    def requests(self, runner: Runner) -> list[tuple[Cell, int | None]]:
        """All cells that the experiment needs."""
        return [
            (cell, self.count(runner, name))
            for name in self.datasets
            for role in self.roles
            for cell in self.cells(runner, name, role)
            if cell is not None
        ]

    def count(self, runner: Runner, dataset: str) -> int | None:
        """Pairs of a cell; None, all of them, where they are recorded."""
        if runner.datasets[dataset].recorded:
            return None
        return self.pairs if isinstance(self.pairs, int) else self.pairs[dataset]

    def predictions(self, runner: Runner) -> dict[str, dict[str, list[list[Prediction] | None]]]:
        """By dataset and role, under each protocol in turn; None where recorded pairs cannot show it."""
        answers = iter(runner.answer(self.requests(runner)))
        return {
            name: {
                role: [None if cell is None else next(answers) for cell in self.cells(runner, name, role)]
                for role in self.roles
            }
            for name in self.datasets
        }

    def only(self, runner: Runner) -> dict[str, dict[str, list[Prediction]]]:
        """The same where there is one protocol."""
        return {
            name: {role: cells[0] or [] for role, cells in methods.items()}
            for name, methods in self.predictions(runner).items()
        }

    def summaries(self, runner: Runner) -> CellsValues:
        """The summaries where there is one protocol."""
        cells = {
            name: {role: summarise(predictions) for role, predictions in methods.items()}
            for name, methods in self.only(runner).items()
        }
        return CellsValues(self.setting(runner), cells)

    def setting(self, runner: Runner) -> Setting:
        """What every document says about where its numbers come from."""
        cells = {
            name: [cell for cell in self.cells(runner, name, self.roles[0]) if cell is not None]
            for name in self.datasets
        }
        counts = {
            name: [runner.count(cell, self.count(runner, name)) for cell in cells[name]] for name in self.datasets
        }
        return Setting(
            pairs={name: min(counts[name], default=0) for name in self.datasets},
            datasets={name: runner.datasets[name].label for name in self.datasets},
            protocols={name: tuple(protocol_config(cell.protocol) for cell in cells[name]) for name in self.datasets},
        )

    def weights(self, runner: Runner) -> list[str]:
        """Weights that the methods use."""
        used = {runner.method(method_name(role, name)).weights for role in self.roles for name in self.datasets}
        return sorted(str(weights) for weights in used if weights is not None)

    def cells(self, runner: Runner, dataset: str, role: str) -> list[Cell | None]:
        """Of one method on one dataset, under each protocol; None where recorded pairs cannot show it."""
        is_recorded, method = runner.datasets[dataset].recorded, method_name(role, dataset)
        if is_recorded and self.recorded:
            return [runner.cell(dataset, Recorded(), method)]
        return [
            None if is_recorded and not recordable(protocol) else runner.cell(dataset, protocol, method)
            for protocol in self.protocols
        ]


def main_plan(*roles: str, pairs: int | Mapping[str, int] = PAIRS, noise: DirectionNoise = "random-axis") -> Plan:
    """The paper's protocol on both datasets: Table 1 and all that follows from it."""
    return Plan(roles, [PaperProtocol(noise=Noise(turn=noise))], pairs, recorded=True)
