"""Which of many places have been seen before?

The verdict decides, so that a wrong loop never closes. Each map of a house is held against all earlier ones; a pair
becomes a constraint of a pose graph only if the registration is believed. The information matrix is the inverse of the
covariance.
"""

import torch

import plueckernet as pn
from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.report import save_plot

# Two scans of one place, which have about 60 % of their lines in common, and one of another place between them.

first = sample_pair(make_scene("indoor", 7), ScanProtocol(overlap=0.6), 7)
other = sample_pair(make_scene("indoor", 3), ScanProtocol(overlap=0.6), 3)
maps = {"kitchen, morning": first.target, "office": other.target, "kitchen, evening": first.source}

names = list(maps)
for later, name in enumerate(names):
    for earlier in names[:later]:
        result = pn.register(maps[name], maps[earlier])
        if not (result.ok and result.confidence > 0.9):
            print(f"{name} is not {earlier}: {result.status}, confidence {result.confidence:.2f}")
            continue
        print(f"{name} closes a loop with {earlier}: confidence {result.confidence:.2f}")
        print("  earlier_T_later moves by", result.target_T_source.translation.tolist())
        print("  information", torch.linalg.inv(result.covariance).diagonal().tolist())
        save_plot("loop.png", maps[name], maps[earlier], result.target_T_source)
