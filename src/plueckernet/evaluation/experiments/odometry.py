"""Consecutive views from a vehicle, registered without an initial guess, against ICL that starts from the identity."""

from __future__ import annotations

from plueckernet.evaluation.experiments import recall
from plueckernet.evaluation.experiments.base import ROLES, SWEPT, Document, Experiment, frame, native, predictions_of
from plueckernet.evaluation.paper import APOLLO
from plueckernet.evaluation.plots import Figure
from plueckernet.evaluation.protocols import Driving
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number, percent

_DATASET = "block"
_ROLES = ("icl", "pluecker", "ours")
_PROTOCOL = Driving()


def run(runner: Runner) -> Document:
    """Recall curves on consecutive frames: recorded ones, or the stand-in for the paper's drive."""
    protocol = native(runner, _DATASET, _PROTOCOL)
    found = predictions_of(runner, [protocol], _ROLES, SWEPT, [_DATASET])
    single = {_DATASET: {role: cells[0] for role, cells in found[_DATASET].items()}}
    return {**frame(runner, [protocol], SWEPT, [_DATASET]), **recall.curves(single)}


def tables(document: Document) -> list[Table]:
    """Medians, with the paper's."""
    heads = ["method", "median rotation (°)", "median translation (m)", "success"]
    rows = []
    for role, cell in document["cells"][_DATASET].items():
        medians = [number(cell[quantity][1]) for quantity in ("rotation", "translation")]
        rows.append([ROLES[role], *medians, percent(cell["success"])])
    rows += [[f"{name}, in the paper (Apollo)", *map(number, medians), "–"] for name, medians in APOLLO.items()]
    return [Table(f"Consecutive views: {document['pairs']} pairs", heads, rows)]


def findings(document: Document) -> list[str]:
    """Who is nearer."""
    cells = document["cells"][_DATASET]
    best = {q: max(cells, key=lambda role: cells[role][f"{q}_auc"]) for q in ("rotation", "translation")}
    words = " and ".join(f"{quantity} {ROLES[role]}" for quantity, role in best.items())
    return [
        f"The largest area under the recall curve has for {words}. In the paper PlückerNet beats ICL on Apollo; the "
        "data here are synthetic streets, so that only the order of the methods can be compared."
    ]


def figures(document: Document) -> dict[str, Figure]:
    """Recall, as in the paper."""
    return recall.figures(document)


ODOMETRY = Experiment(
    name="odometry",
    title="Odometry: consecutive views",
    about="Lines within 10 m of a vehicle in a synthetic town, seen again after up to 1 m and 3°: 80 % of them in "
    "either view, 5 cm and 1° of noise. It stands in for the paper's Apollo drive, which cannot be had. ICL starts "
    "from the identity, close to the truth; the others start from nothing.",
    run=run,
    tables=tables,
    figures=figures,
    findings=findings,
)
