"""How far apart the frames may be: rotation to 180° and translation to a kilometre."""

from __future__ import annotations

from plueckernet.evaluation.experiments.sweep import Sweep
from plueckernet.evaluation.protocols import Placed

_ROLES = ("icl", "pluecker", "ours")
_ANGLES = (0.0, 30.0, 60.0, 90.0, 135.0, 180.0)
_DISTANCES = (0.0, 2.0, 10.0, 100.0, 1000.0)
_TURNED = Sweep("rotation (°)", _ANGLES, [Placed(angle=value) for value in _ANGLES], _ROLES)
_SHIFTED = Sweep(
    "translation (m)", _DISTANCES, [Placed(distance=value) for value in _DISTANCES], _ROLES, logarithmic=True
)


ROTATION = _TURNED.experiment(
    name="rotation",
    title="Rotation from 0 to 180°",
    about="The paper's pairs without their motion; the target is then turned about a random axis. Directions are "
    "carried over, but our method does not use them. The paper turns by up to 45° about each axis.",
    figures=lambda values: {"success": _TURNED.success_figure(values)},
    findings=lambda values: _TURNED.success_findings(values, (30.0, 90.0, 180.0)),
)
TRANSLATION = _SHIFTED.experiment(
    name="translation",
    title="Translation from 0 to 1 km",
    about="The same with the target shifted and not turned. The paper shifts by up to 2 m along each axis.",
    figures=lambda values: {"success": _SHIFTED.success_figure(values)},
    findings=lambda values: _SHIFTED.success_findings(values, (2.0, 10.0, 1000.0)),
)
