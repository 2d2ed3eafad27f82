"""Run experiments and write what they found: JSON, tables and figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from plueckernet.evaluation.documents import ResultDocument, read_result, write_result
from plueckernet.evaluation.experiments import Experiment
from plueckernet.evaluation.plots import save_figure, style
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.runner import Runner

_V = TypeVar("_V")


def reproduce(experiment: Experiment[_V], runner: Runner, out: Path) -> ResultDocument[_V]:
    """Run one experiment and write ``OUT/NAME.json``, ``.md``, ``.tex`` and its figures."""
    document = measure(experiment, runner)
    write_result(out / f"{experiment.name}.json", document)
    tables = experiment.tables(document.values)
    (out / f"{experiment.name}.md").write_text(_joined(table.markdown() for table in tables), encoding="utf-8")
    (out / f"{experiment.name}.tex").write_text(_joined(table.latex() for table in tables), encoding="utf-8")
    write_figures(experiment, document.values, out)
    return document


def measure(experiment: Experiment[_V], runner: Runner) -> ResultDocument[_V]:
    """Run one experiment, with the provenance of its numbers."""
    values = experiment.run(runner)
    if experiment.trained_by is not None:
        return ResultDocument(experiment.name, experiment.trained_by(runner), values)
    weights = [] if experiment.plan is None else experiment.plan.weights(runner)
    sources = provenance(experiment.source, weights, device=runner.settings.device)
    return ResultDocument(experiment.name, sources.to_dict(), values)


def write_figures(experiment: Experiment[_V], values: _V, out: Path) -> list[str]:
    """Write ``OUT/NAME-FIGURE.png`` and ``.svg``; returns the names without suffix."""
    with style():
        figures = experiment.figures(values)
        for name, figure in figures.items():
            save_figure(figure, out / f"{experiment.name}-{name}")
    return [f"{experiment.name}-{name}" for name in figures]


def read_document(experiment: Experiment[_V], folder: Path) -> ResultDocument[_V]:
    """What an earlier run wrote."""
    return read_result(folder / f"{experiment.name}.json", experiment.name, experiment.values)


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(texts) + "\n"
