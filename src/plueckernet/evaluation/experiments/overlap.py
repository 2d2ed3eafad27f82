"""Overlap from 1 down to 0.05, without new training."""

from __future__ import annotations

from plueckernet.data.protocols import PaperProtocol
from plueckernet.evaluation.experiments.plan import ROLES
from plueckernet.evaluation.experiments.sweep import Sweep, SweepValues

_VALUES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
_SWEEP = Sweep(
    axis="overlap",
    values=_VALUES,
    protocols=[PaperProtocol(keep=value) for value in _VALUES],
    roles=("icl", "pluecker", "ours"),
    published_at=PaperProtocol().keep,
    published_to=0.2,
)


def findings(values: SweepValues) -> list[str]:
    """Down to which overlap nine of ten are right; the paper ends at 0.2."""
    sentences = []
    for name, methods in values.cells.items():
        words = []
        for role in methods:
            rates = values.success(name, role)
            lowest: float | None = None
            for value in sorted(rates, reverse=True):
                if rates[value].fraction < 0.9:
                    break
                lowest = value
            words.append(f"{ROLES[role]} {'nowhere' if lowest is None else f'down to {lowest:g}'}")
        sentences.append(f"{name}: nine of ten pairs are right for {', '.join(words)}. The paper ends at 0.2.")
    return sentences


OVERLAP = _SWEEP.experiment(
    name="overlap",
    title="Overlap",
    about="The fraction of lines kept on either side goes from all down to 5 %; the rest is as in Table 1. A kept line "
    "has its match on the other side with the same probability. Below 0.1 many pairs have fewer lines in common than a "
    "pose needs. A curve ends where most pairs have no pose.",
    findings=findings,
)
