"""Networks trained on one dataset and tested on the other."""

from __future__ import annotations

from plueckernet.evaluation.experiments import recall
from plueckernet.evaluation.experiments.base import Document, Experiment
from plueckernet.evaluation.experiments.main_cells import main_predictions
from plueckernet.evaluation.runner import Runner

_ROLES = ("icl", "pluecker", "pluecker-cross", "ours")


def run(runner: Runner) -> Document:
    """Recall curves; ours is one network for both."""
    document, found = main_predictions(runner, _ROLES)
    return {**document, **recall.curves(found)}


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
    run=run,
    tables=recall.tables,
    figures=recall.figures,
    findings=findings,
)
