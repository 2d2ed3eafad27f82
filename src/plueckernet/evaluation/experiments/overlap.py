"""Overlap from 1 down to 0.05, without training anew."""

from __future__ import annotations

from plueckernet.data.protocols import PaperProtocol
from plueckernet.evaluation.experiments.base import DATASETS, ROLES, Document
from plueckernet.evaluation.experiments.sweep import Sweep

_VALUES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
_SWEEP = Sweep(
    axis="overlap",
    values=_VALUES,
    protocols=[PaperProtocol(keep=value) for value in _VALUES],
    roles=("icl", "pluecker", "ours"),
    published_at=PaperProtocol().keep,
    published_to=0.2,
)


def findings(document: Document) -> list[str]:
    """Down to which overlap nine of ten are right; the paper gives up below 0.2."""
    found = []
    for name in DATASETS:
        words = []
        for role in document["cells"][name]:
            rates = _SWEEP.success(document, name, role)
            good: float | None = None
            for value in sorted(rates, reverse=True):
                if rates[value] < 0.9:
                    break
                good = value
            words.append(f"{ROLES[role]} {'nowhere' if good is None else f'down to {good:g}'}")
        found.append(f"{name}: nine of ten pairs are right for {', '.join(words)}. The paper gives up below 0.2.")
    return found


OVERLAP = _SWEEP.experiment(
    name="overlap",
    title="Overlap",
    about="Lines kept on either side from all down to 5 %, the rest as in Table 1; a kept line then has its match on "
    "the other side with that probability. Below 0.1 many pairs have fewer lines in common than a pose needs; a curve "
    "ends where most pairs have no pose.",
    findings=findings,
)
