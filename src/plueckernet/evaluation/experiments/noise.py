"""Noise from nothing to the paper's maximum, and to twice that, without new training."""

from __future__ import annotations

from plueckernet.data.protocols import Noise, PaperProtocol
from plueckernet.evaluation.experiments.sweep import Sweep

_METRES = 0.02  # of a footpoint for each degree of a direction: (5°, 0.1 m) is the paper's maximum


def _noise(degrees: float) -> Noise:
    """Gaussian and not clipped, as in the paper's appendix."""
    return Noise(_METRES * degrees, None, degrees, None)


_VALUES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0)
_SWEEP = Sweep(
    axis="noise of directions (°), 0.02 m of feet for each",
    values=_VALUES,
    protocols=[PaperProtocol(noise=_noise(value)) for value in _VALUES],
    roles=("icl", "pluecker", "ours"),
    names=[f"{value:g}°, {_METRES * value:g} m" for value in _VALUES],
    published_to=5.0,
)


NOISE = _SWEEP.experiment(
    name="noise",
    title="Noise",
    about="One sigma of direction and footpoint from (0°, 0 m) to (5°, 0.1 m) as in the paper's appendix, which does "
    "not clip it, and on to (10°, 0.2 m). Directions turn about a random axis. The paper prints curves without "
    "numbers. Without noise our error is rounding, below the range of the figure. A curve ends where most pairs "
    "have no pose.",
    findings=lambda values: _SWEEP.success_findings(values, (2.0, 5.0, 10.0)),
)
