"""Noise from nothing to the paper's most, and to twice that, without training anew."""

from __future__ import annotations

from plueckernet.data.protocols import Noise, PaperProtocol
from plueckernet.evaluation.experiments.base import Document, Experiment
from plueckernet.evaluation.experiments.sweep import Sweep
from plueckernet.evaluation.plots import Figure

_METRES = 0.02  # of a footpoint for each degree of a direction: (5°, 0.1 m) is the paper's most


def _noise(degrees: float) -> Noise:
    """Clipped where the paper's protocol clips, in sigmas."""
    metres = _METRES * degrees
    return Noise(metres, 5 * metres, degrees, 2.5 * degrees)


_VALUES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0)
_SWEEP = Sweep(
    axis="noise of directions (°), 0.02 m of feet for each",
    values=_VALUES,
    protocols=[PaperProtocol(noise=_noise(value)) for value in _VALUES],
    roles=("icl", "pluecker", "ours"),
    names=[f"{value:g}°, {_METRES * value:g} m" for value in _VALUES],
    published_to=5.0,
)


def figures(document: Document) -> dict[str, Figure]:
    """The paper's figure, and success."""
    return {"errors": _SWEEP.error_figure(document), "success": _SWEEP.success_figure(document)}


def findings(document: Document) -> list[str]:
    """At the paper's most, and at twice that."""
    return _SWEEP.success_findings(document, (2.0, 5.0, 10.0))


NOISE = Experiment(
    name="noise",
    title="Noise",
    about="One sigma of direction and footpoint from (0°, 0 m) to (5°, 0.1 m) as in the paper's appendix, and on to "
    "(10°, 0.2 m). The paper prints curves without numbers. Without noise our error is rounding, below the figure.",
    plan=_SWEEP.plan,
    run=_SWEEP.run,
    tables=_SWEEP.tables,
    figures=figures,
    findings=findings,
)
