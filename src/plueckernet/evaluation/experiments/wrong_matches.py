"""Pose estimation alone: matches are given, and a growing fraction of them is wrong."""

from __future__ import annotations

from plueckernet.evaluation.experiments.plan import SWEPT
from plueckernet.evaluation.experiments.sweep import Sweep
from plueckernet.evaluation.protocols import Putative

_VALUES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98)
_SWEEP = Sweep(
    axis="fraction of wrong matches",
    values=_VALUES,
    protocols=[Putative(wrong=value) for value in _VALUES],
    roles=("ransac-published", "ransac-ours"),
    pairs=2 * SWEPT,
)


WRONG_MATCHES = _SWEEP.experiment(
    name="wrong-matches",
    title="Wrong matches",
    about="At most 200 putative matches under the paper's protocol with no line dropped. RANSAC as published trusts "
    "directions and draws 1,000 pairs; ours does not know the directions.",
    findings=lambda values: _SWEEP.success_findings(values, (0.8, 0.9, 0.95, 0.98)),
)
