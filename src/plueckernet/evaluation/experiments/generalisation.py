"""Networks trained on one dataset and tested on the other."""

from __future__ import annotations

from plueckernet.evaluation.experiments import recall
from plueckernet.evaluation.experiments.base import Document, Experiment, main_plan
from plueckernet.evaluation.runner import Runner

_PLAN = main_plan("icl", "pluecker", "pluecker-cross", "ours")


def run(runner: Runner) -> Document:
    """Recall curves; ours is one network for both."""
    return {**_PLAN.frame(runner), **recall.curves(_PLAN.only(runner))}


def findings(document: Document) -> list[str]:
    """The paper's two statements, on our data."""
    found = []
    for name, cells in document["cells"].items():
        own, cross, icl = (cells[role]["rotation_auc"] for role in ("pluecker", "pluecker-cross", "icl"))
        claim = {
            "indoor": (
                "the network trained on the other dataset is about as good, and better than ICL",
                cross > icl and own - cross < 0.05,
            ),
            "outdoor": (
                "the network trained on the other dataset is worse, and about as good as ICL",
                icl - 0.1 < cross < own,
            ),
        }[name]
        found.append(
            f"{name}: area under the rotation recall {own:.2f} trained here, {cross:.2f} trained on the other, ICL "
            f"{icl:.2f}, ours {cells['ours']['rotation_auc']:.2f}. The paper finds that {claim[0]}: "
            f"{'so it is here' if claim[1] else 'not so here'}."
        )
    return found


GENERALISATION = Experiment(
    name="generalisation",
    title="Cross-dataset generalisation",
    about="PlückerNet trained on the other dataset, as in the paper. Ours has one set of weights for everything.",
    plan=_PLAN,
    run=run,
    tables=recall.tables,
    figures=recall.figures,
    findings=findings,
)
