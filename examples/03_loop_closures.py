"""Find loop closures.

Each map is registered to all earlier maps. A pair becomes an edge of a pose graph only if its pose is accepted with
high confidence. The information matrix is the inverse of the covariance.
"""

import torch

import plueckernet as pn
from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.report import save_plot

# Two scans of one place, with about 60 % of their lines in common, and one scan of another place.

first = sample_pair(make_scene("indoor", 7), ScanProtocol(overlap=0.6), 7)
other = sample_pair(make_scene("indoor", 3), ScanProtocol(overlap=0.6), 3)
maps = {"kitchen, morning": first.target, "office": other.target, "kitchen, evening": first.source}

names, edges = list(maps), []
for later, name in enumerate(names):
    for earlier in names[:later]:
        result = pn.register(maps[name], maps[earlier])
        if not result:
            print(f"{name} is not {earlier}: {result.status}, confidence {result.confidence:.2f}")
            continue
        print(f"{name} closes a loop with {earlier}: confidence {result.confidence:.2f}")
        edges.append((earlier, name, result.target_T_source, torch.linalg.inv(result.covariance)))
        save_plot("loop.png", maps[name], maps[earlier], result.target_T_source)

# An edge of the pose graph has the pose earlier_T_later and its information matrix, rotation first.

for earlier, name, earlier_T_later, information in edges:
    moved = ", ".join(f"{value:.2f}" for value in earlier_T_later.translation)
    sigmas = ", ".join(f"{value:.3f}" for value in information.inverse().diagonal()[3:].sqrt())
    print(f"{earlier} -> {name}: moved by ({moved}), one sigma ({sigmas})")
