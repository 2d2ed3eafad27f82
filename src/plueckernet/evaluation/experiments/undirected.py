"""Directed against undirected lines: the paper's figures need directions that no reconstruction has."""

from __future__ import annotations

from plueckernet.data.protocols import AnyProtocol, PaperProtocol
from plueckernet.evaluation.experiments.plan import ROLES, SWEPT
from plueckernet.evaluation.experiments.sweep import Sweep, SweepValues
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


def figures(values: SweepValues) -> dict[str, Figure]:
    """Success as bars."""
    figure, axes = panels(1, len(values.setting.datasets), height=2.6)
    for panel, (name, label) in zip(axes[0], values.setting.datasets.items(), strict=True):
        methods = values.cells[name]
        rates = {
            role: [0.0 if cell is None else 100 * cell.success.fraction for cell in cells]
            for role, cells in methods.items()
        }
        draw_bars(panel, [text.replace(", ", ",\n") for text in _NAMES], rates, ROLES)
        panel.set(ylabel="success (%)", ylim=(0, 105), title=label)
    return {"success": finish(figure, axes)}


def findings(values: SweepValues) -> list[str]:
    """Success of each method when directions are not given."""
    sentences = []
    for name, methods in values.cells.items():
        words = [
            f"{ROLES[role]} {' / '.join('–' if cell is None else str(cell.success.count) for cell in cells)}"
            for role, cells in methods.items()
        ]
        sentences.append(
            f"{name}: right of {values.setting.pairs[name]} pairs directed / undirected / undirected under any "
            f"rotation: {', '.join(words)}."
        )
    return sentences


UNDIRECTED = _SWEEP.experiment(
    name="undirected",
    title="Directed and undirected lines",
    about="A line has no direction, and the rule that gives it one (first component positive) is not stable under "
    "rotation. Three protocols: directions carried over, the rule applied in either frame, and any rotation.",
    findings=findings,
    figures=figures,
)
