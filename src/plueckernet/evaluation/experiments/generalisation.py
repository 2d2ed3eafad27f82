"""Networks trained on one dataset and tested on the other."""

from __future__ import annotations

from plueckernet.evaluation.experiments import recall
from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.plan import main_plan
from plueckernet.evaluation.experiments.recall import RecallValues
from plueckernet.evaluation.runner import Runner

_PLAN = main_plan("icl", "pluecker", "pluecker-cross", "ours")


def run(runner: Runner) -> RecallValues:
    """Recall curves; ours is one network for both."""
    return recall.measured(_PLAN, runner)


def findings(values: RecallValues) -> list[str]:
    """Areas under the recall curves; the section on claims judges what the paper says about them."""
    return [
        f"{name}: the area under the rotation recall is {cells['pluecker'].summary.rotation_auc:.2f} for PlückerNet "
        f"trained on this dataset, {cells['pluecker-cross'].summary.rotation_auc:.2f} for PlückerNet trained on the "
        f"other, {cells['icl'].summary.rotation_auc:.2f} for ICL and {cells['ours'].summary.rotation_auc:.2f} for ours."
        for name, cells in values.cells.items()
    ]


GENERALISATION = Experiment(
    name="generalisation",
    title="Cross-dataset generalisation",
    about="PlückerNet trained on the other dataset, as in the paper. Ours has one set of weights for everything.",
    values=RecallValues,
    plan=_PLAN,
    run=run,
    tables=recall.tables,
    figures=recall.figures,
    findings=findings,
)
