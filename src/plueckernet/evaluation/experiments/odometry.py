"""Consecutive views from a vehicle, registered without an initial guess, against ICL that starts from the identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plueckernet.evaluation.experiments import recall
from plueckernet.evaluation.experiments.base import ROLES, SWEPT, Document, Experiment, Plan
from plueckernet.evaluation.paper import APOLLO
from plueckernet.evaluation.protocols import Driving
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number, percent

_DATASET = "block"
_QUANTITIES = ("rotation", "translation")
_PLAN = Plan(("icl", "pluecker", "ours"), [Driving()], SWEPT, [_DATASET], recorded=True)


def run(runner: Runner) -> Document:
    """Recall curves on consecutive frames: recorded ones, or the stand-in for the paper's drive."""
    return {**_PLAN.frame(runner), **recall.curves(_PLAN.only(runner))}


def tables(document: Document) -> list[Table]:
    """Medians, with the paper's."""
    heads = ["method", "median rotation (°)", "median translation (m)", "success"]
    rows = []
    for role, cell in document["cells"][_DATASET].items():
        medians = [number(cell[quantity][1]) for quantity in _QUANTITIES]
        rows.append([ROLES[role], *medians, percent(cell["success"])])
    rows += [[f"{name}, in the paper (Apollo)", *map(number, medians), "–"] for name, medians in APOLLO.items()]
    return [Table(f"Consecutive views: {document['pairs'][_DATASET]} pairs", heads, rows)]


def findings(document: Document) -> list[str]:
    """Who is nearer."""
    cells = document["cells"][_DATASET]
    best = {q: max(cells, key=lambda role: cells[role][f"{q}_auc"]) for q in _QUANTITIES}
    words = " and ".join(f"{quantity} {ROLES[role]}" for quantity, role in best.items())
    return [
        f"The largest area under the recall curve has for {words}. In the paper PlückerNet beats ICL: {_both(APOLLO)}; "
        f"here {_both({ROLES[role]: [cell[q][1] for q in _QUANTITIES] for role, cell in cells.items()})}."
    ]


def _both(medians: Mapping[str, Sequence[float | None]]) -> str:
    return ", ".join(f"{name} {number(turn, 2)}° / {number(shift, 2)} m" for name, (turn, shift) in medians.items())


ODOMETRY = Experiment(
    name="odometry",
    title="Odometry: consecutive views",
    about="Lines within 10 m of a vehicle in a synthetic town, seen again after up to 6 m and 12°: a quarter of them "
    "in either view, 5 cm and 1° of noise, so that ICL errs about as far as on the paper's Apollo drive, for which it "
    "stands in unless recorded frames are given. ICL starts from the identity, close to the truth; ours from nothing.",
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=recall.figures,
    findings=findings,
)
