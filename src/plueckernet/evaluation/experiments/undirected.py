"""Directed against undirected lines: the paper's figures need directions that no reconstruction has."""

from __future__ import annotations

from plueckernet.data.protocols import AnyProtocol, PaperProtocol
from plueckernet.evaluation.experiments.base import DATASETS, ROLES, SWEPT, Document
from plueckernet.evaluation.experiments.sweep import Sweep
from plueckernet.evaluation.plots import Figure, draw_bars, finish, panels

_NAMES = ("directed, paper's motion", "undirected, paper's motion", "undirected, any rotation, ±10 m")
_SWEEP = Sweep(
    axis="lines and motion",
    values=(0.0, 1.0, 2.0),
    protocols=[PaperProtocol(), PaperProtocol(directed=False), AnyProtocol()],
    roles=("icl", "icl-undirected", "pluecker", "ours-without-weights", "ours"),
    names=_NAMES,
    pairs=2 * SWEPT,
)


def figures(document: Document) -> dict[str, Figure]:
    """Success as bars."""
    figure, axes = panels(1, len(document["datasets"]), height=2.6)
    for one, (name, label) in zip(axes[0], document["datasets"].items(), strict=True):
        methods = document["cells"][name]
        rates = {role: [100 * cell["success"] for cell in cells] for role, cells in methods.items()}
        draw_bars(one, [text.replace(", ", ",\n") for text in _NAMES], rates, ROLES)
        one.set(ylabel="success (%)", ylim=(0, 105), title=label)
    return {"success": finish(figure, axes)}


def findings(document: Document) -> list[str]:
    """What is left of each method when directions are not given."""
    found = []
    for name in DATASETS:
        words = []
        for role, cells in document["cells"][name].items():
            rates = " / ".join(f"{100 * cell['success']:.0f}" for cell in cells)
            words.append(f"{ROLES[role]} {rates} %")
        found.append(f"{name}: success directed / undirected / undirected under any rotation: {', '.join(words)}.")
    return found


UNDIRECTED = _SWEEP.experiment(
    name="undirected",
    title="Directed and undirected lines",
    about="A line has no direction, and the rule that gives it one (first component positive) is not stable under "
    "rotation. Three protocols: directions carried over, the rule applied in either frame, and any rotation.",
    findings=findings,
    figures=figures,
)
