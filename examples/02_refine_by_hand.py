"""Refine a pose that is known roughly, as from GPS, a marker or a hand on the mouse.

`refine` does not search; the pose has to be right to about the tolerance of the maps.
"""

from importlib.resources import files
from pathlib import Path

import torch

import plueckernet as pn
from plueckernet.registration import coincident_lines

demo = Path(str(files("plueckernet"))) / "demo"
source, target = pn.read_lines(demo / "house_monday.obj"), pn.read_lines(demo / "house_friday.txt")

# For once the rough pose is made from the right one: a degree and a few centimetres off. A twist has rotation first.

found = pn.register(source, target).target_T_source
assert found is not None
rough = pn.Pose.exp(torch.tensor([0.01, -0.01, 0.02, 0.04, -0.03, 0.02], dtype=torch.float64)) @ found

# `coincident_lines` tells how many lines a pose brings together, whoever made it.

for name, pose in (("rough", rough), ("refined", pn.refine(source, target, rough).target_T_source)):
    assert pose is not None
    pairs, residuals = coincident_lines(source, target, pose)
    off = float(pose.angle_to(found).rad2deg())
    print(
        f"{name}: {off:.2f} degrees off, {len(pairs)} pairs, {float(residuals[:, 0].median()):.3f} apart in the median"
    )
