"""The files of a new user: what the commands of the how-tos are tried on."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from benchmarks.new_user import PROJECT, put_own_maps
from benchmarks.synthetic_clouds import boxes, dense
from benchmarks.user_models import put_building, put_colmap_models
from plueckernet.data.campus import campus
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import read_lines, write_lines

_SPACING = 0.02  # m, of the points of a survey
_RADIUS = 15.0  # m, of the part of the street
_MESH = """ply
format ascii 1.0
element vertex 3
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
0 0 0
1 0 0
0 1 0
3 0 1 2
"""


def put_files(folder: Path) -> None:
    """All files that the commands read and do not write themselves."""
    for name in ("house_monday.obj", "house_friday.txt"):
        shutil.copy(str(files("plueckernet") / "demo" / name), folder)
    put_own_maps(folder)
    write_lines(folder / "friday.obj", read_lines(folder / "friday.txt"))
    put_surveys(folder)
    put_street(folder)
    put_scans(folder)
    put_control_points(folder)
    put_building(folder, boxes(np.random.default_rng(0)))
    put_colmap_models(folder)
    rows = ["source,target,name", "monday.obj,friday.txt,house", "june.obj,march.obj,room"]
    (folder / "pairs.csv").write_text("\n".join(rows) + "\n")
    (folder / "mesh.ply").write_text(_MESH)
    (folder / "poses.txt").write_text("0.0 0 0 0 0 0 0 1\n0.1 1 0 0 0 0 0 1\n")


def put_surveys(folder: Path) -> None:
    """Two clouds of a room, the second in another frame, and a pose between them as someone sets it by hand."""
    import laspy
    import pye57

    scene = boxes(np.random.default_rng(0))
    march, june = (dense(scene, _SPACING, 0.003, np.random.default_rng(seed)) for seed in (1, 2))
    june_T_march = Pose.random(generator=torch.Generator().manual_seed(6), translation=5.0)
    cloud = laspy.create(point_format=3, file_version="1.2")
    cloud.header.scales = [0.001] * 3
    cloud.x, cloud.y, cloud.z = march.T
    cloud.write(str(folder / "march.laz"))
    shutil.copy(folder / "march.laz", folder / "scan.laz")
    moved = june_T_march @ june
    file = pye57.E57(str(folder / "june.e57"), mode="w")
    file.write_scan_raw({f"cartesian{axis}": moved[:, i].copy() for i, axis in enumerate("XYZ")})
    file.close()
    by_hand = june_T_march.inverse().matrix().numpy().copy()
    by_hand[:3, 3] += 0.02
    np.savetxt(folder / "by_hand.txt", by_hand)


def put_street(folder: Path) -> None:
    """A large map, and a part of it in another frame."""
    street = campus(3, lines=6000)
    write_lines(folder / "street.npz", street)
    middles = street.midpoints()
    near = (middles - middles.median(dim=0).values)[:, :2].norm(dim=1) < _RADIUS
    pose = Pose.random(generator=torch.Generator().manual_seed(7), translation=30.0)
    write_lines(folder / "entrance.obj", pose @ noisy(street[near.nonzero()[:, 0]], 7))


def put_scans(folder: Path) -> None:
    """Three overlapping pieces of a house, each in its own frame."""
    (folder / "scans").mkdir()
    house = make_scene("indoor", 4711)
    write_lines(folder / "house.obj", house)
    order, count = house.midpoints()[:, 0].argsort(), len(house)
    for number in range(3):
        rows = order[number * count // 6 : number * count // 6 + 2 * count // 3]
        pose = Pose.random(generator=torch.Generator().manual_seed(number), translation=10.0)
        write_lines(folder / "scans" / f"{number}.obj", pose @ noisy(house[rows], number))


def noisy(lines: LineSet, seed: int) -> LineSet:
    """Segments whose ends are measured to a centimetre."""
    ends = lines.endpoints
    generator = torch.Generator().manual_seed(seed)
    return LineSet.from_segments(ends + 0.01 * torch.randn(ends.shape, generator=generator, dtype=ends.dtype))


def put_control_points(folder: Path) -> None:
    """Those of the page."""
    page = (PROJECT / "docs" / "howto" / "georeference.md").read_text(encoding="utf-8")
    match = re.search(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError("georeference.md has no control points")
    (folder / "points.csv").write_text(match[1])
