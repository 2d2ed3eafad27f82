"""Run experiments and write what they found: JSON, tables and figures."""

from __future__ import annotations

import json
from pathlib import Path

from plueckernet.errors import FormatError
from plueckernet.evaluation.experiments import Document, Experiment
from plueckernet.evaluation.plots import save_figure, style
from plueckernet.evaluation.provenance import environment
from plueckernet.evaluation.runner import Runner
from plueckernet.io.atomic import atomic_write


def reproduce(experiment: Experiment, runner: Runner, out: Path) -> Document:
    """Run one experiment and write ``OUT/NAME.json``, ``.md``, ``.tex`` and its figures."""
    document = {"experiment": experiment.name, "metadata": environment(), **experiment.run(runner)}
    out.mkdir(parents=True, exist_ok=True)
    with atomic_write(out / f"{experiment.name}.json") as stream:
        stream.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
    tables = experiment.tables(document)
    (out / f"{experiment.name}.md").write_text("\n\n".join(one.markdown() for one in tables) + "\n", encoding="utf-8")
    (out / f"{experiment.name}.tex").write_text("\n\n".join(one.latex() for one in tables) + "\n", encoding="utf-8")
    write_figures(experiment, document, out)
    return document


def write_figures(experiment: Experiment, document: Document, out: Path) -> list[str]:
    """Write ``OUT/NAME-FIGURE.png`` and ``.svg``; returns the names without suffix."""
    with style():
        figures = experiment.figures(document)
        for name, figure in figures.items():
            save_figure(figure, out / f"{experiment.name}-{name}")
    return [f"{experiment.name}-{name}" for name in figures]


def read_document(experiment: Experiment, folder: Path) -> Document:
    """What an earlier run wrote."""
    path = folder / f"{experiment.name}.json"
    try:
        document: Document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(path, f"no result of an experiment: {error}") from error
    if document.get("experiment") != experiment.name:
        raise FormatError(path, f"expected the experiment {experiment.name!r}, found {document.get('experiment')!r}")
    return document
