"""The form of an experiment: how its numbers are made and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from plueckernet.evaluation.documents import TableRow
from plueckernet.evaluation.experiments.plan import Plan
from plueckernet.evaluation.plots import Figure
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table

_V = TypeVar("_V")


@dataclass(frozen=True)
class Experiment(Generic[_V]):
    """One table or figure.

    Only `run` computes; the rest reads its values, so that a page can be made again from what is committed.
    """

    name: str
    title: str
    about: str  # what is compared, and what the paper says about it
    values: type[_V]
    plan: Plan | None  # whose predictions `run` needs
    run: Callable[[Runner], _V]
    tables: Callable[[_V], list[Table]]
    figures: Callable[[_V], dict[str, Figure]]
    findings: Callable[[_V], list[str]]  # sentences made from the numbers
    rows: Callable[[_V], list[TableRow]] = lambda _values: []  # for the table of all numbers
    source: str = "plueckernet.evaluation.experiments.plan"  # module whose code decides the numbers
    trained_by: Callable[[Runner], Mapping[str, Any]] | None = None  # provenance of a file that `run` reads
