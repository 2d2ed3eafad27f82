"""Consecutive views from a vehicle, registered without an initial guess, against ICL that starts from the identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plueckernet.evaluation.experiments import recall
from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import ROLES, SWEPT, Plan
from plueckernet.evaluation.experiments.recall import RecallValues
from plueckernet.evaluation.paper import APOLLO
from plueckernet.evaluation.protocols import Driving
from plueckernet.evaluation.runner import Runner
from plueckernet.evaluation.tables import Table, number

_DATASET = "street"
_QUANTITIES = ("rotation", "translation")
_PLAN = Plan(("icl", "pluecker", "ours"), [Driving()], SWEPT, [_DATASET], recorded=True)


def run(runner: Runner) -> RecallValues:
    """Recall curves on consecutive frames: recorded ones, or the stand-in for the paper's drive."""
    return recall.measured(_PLAN, runner)


def tables(values: RecallValues) -> list[Table]:
    """Medians, with the paper's."""
    heads = ["method", "median rotation (°)", "median translation (m)", "success", "wrong and called a success"]
    rows = []
    for role, cell in values.cells[_DATASET].items():
        medians = [number(cell.summary.median(quantity)) for quantity in _QUANTITIES]
        rows.append([ROLES[role], *medians, str(cell.summary.success), cell.summary.false_success_text])
    rows += [[f"{name}, in the paper (Apollo)", *map(number, medians), "–", "–"] for name, medians in APOLLO.items()]
    return [Table(f"Consecutive views: {values.setting.pairs[_DATASET]} pairs", heads, rows)]


def findings(values: RecallValues) -> list[str]:
    """Which method errs least."""
    cells, best = values.cells[_DATASET], values.best(_DATASET)
    words = " and ".join(f"{ROLES[role]} for {quantity}" for quantity, role in best.items())
    here = {ROLES[role]: [cell.summary.median(q) for q in _QUANTITIES] for role, cell in cells.items()}
    return [
        f"The largest area under the recall curve has {words}. Medians in the paper: {_medians(APOLLO)}. "
        f"Medians here: {_medians(here)}."
    ]


def _medians(medians: Mapping[str, Sequence[float | None]]) -> str:
    return ", ".join(f"{name} {number(turn, 2)}° / {number(shift, 2)} m" for name, (turn, shift) in medians.items())


ODOMETRY = Experiment(
    name="odometry",
    title="Odometry: consecutive views",
    about="Lines within 25 m of a vehicle in a synthetic city, seen again after up to 8 m and 16°. Either view shows a "
    "tenth of the lines, about 2,000 as in the paper, with 15 cm and 2° of noise, so that ICL errs about as much as on "
    "the paper's Apollo drive. In either view the paper's hemisphere rule gives lines their direction, for all "
    "methods. Recorded frames, all of them, take the place of this stand-in where they are given. ICL starts from the "
    "identity, close to the truth; ours has no initial guess.",
    values=RecallValues,
    plan=_PLAN,
    run=run,
    tables=tables,
    figures=recall.figures,
    findings=findings,
)
