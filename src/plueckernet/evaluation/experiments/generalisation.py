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
    """The paper's two statements, on our data."""
    sentences = []
    for name, cells in values.cells.items():
        own, cross, icl = (cells[role].summary.rotation_auc for role in ("pluecker", "pluecker-cross", "icl"))
        claim, holds = {
            "indoor": (
                "the network trained on the other dataset is about as good, and better than ICL",
                cross > icl and own - cross < 0.05,
            ),
            "outdoor": (
                "the network trained on the other dataset is worse, and about as good as ICL",
                icl - 0.1 < cross < own,
            ),
        }[name]
        sentences.append(
            f"{name}: the area under the rotation recall is {own:.2f} for PlückerNet trained on this dataset, "
            f"{cross:.2f} for PlückerNet trained on the other, {icl:.2f} for ICL and "
            f"{cells['ours'].summary.rotation_auc:.2f} for ours. The paper finds that {claim}. "
            f"{'Our data agree' if holds else 'Our data do not agree'}."
        )
    return sentences


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
