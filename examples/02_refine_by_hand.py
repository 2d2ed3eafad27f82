"""Refine a pose that is known roughly, as from GPS, a marker or a hand on the mouse.

`refine` does not search; the pose has to be right to about the tolerance of the maps.
"""

from importlib.resources import files
from pathlib import Path

import torch

import plueckernet as pn

demo = Path(str(files("plueckernet"))) / "demo"
source, target = pn.read_lines(demo / "house_monday.obj"), pn.read_lines(demo / "house_friday.txt")

found = pn.register(source, target).target_T_source
assert found is not None
rough = pn.Pose.exp(torch.tensor([0.01, -0.01, 0.02, 0.04, -0.03, 0.02], dtype=torch.float64)) @ found

result = pn.refine(source, target, rough)
assert result.target_T_source is not None
print(f"{float(rough.angle_to(found).rad2deg()):.2f} degrees off before,", end=" ")
print(f"{float(result.target_T_source.angle_to(found).rad2deg()):.4f} after")
