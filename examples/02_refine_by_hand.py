"""Refine an approximate pose, for example from GPS, from a marker or set by hand.

`refine` does not search: the error of the pose has to be within about the inlier threshold.
"""

from importlib.resources import files
from pathlib import Path

import torch

import plueckernet as pn
from plueckernet.coincidence import coincident_lines

demo = Path(str(files("plueckernet"))) / "demo"
source, target = pn.read_lines(demo / "house_monday.obj"), pn.read_lines(demo / "house_friday.txt")

# This example disturbs the registered pose by a degree and a few centimetres. A twist has the rotation first.

registered = pn.register(source, target).target_T_source
assert registered is not None
rough = pn.Pose.exp(torch.tensor([0.01, -0.01, 0.02, 0.04, -0.03, 0.02], dtype=torch.float64)) @ registered

# `coincident_lines` finds the pairs of lines that coincide under any pose.

for name, pose in (("rough", rough), ("refined", pn.refine(source, target, rough).target_T_source)):
    assert pose is not None
    pairs, residuals = coincident_lines(source, target, pose)
    error = float(pose.angle_to(registered).rad2deg())
    distance = float(residuals[:, 0].median())
    print(f"{name}: error {error:.2f} degrees, {len(pairs)} pairs, median distance {distance:.3f}")
