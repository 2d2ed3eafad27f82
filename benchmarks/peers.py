"""The table of the README: this package and what else a user could pick, on the same pairs of real maps in one run.

Open3D and KISS-Matcher register points, so they get points sampled along the lines. Open3D's settings are those that
:mod:`benchmarks.crops_open3d` chose on synthetic pairs, and of two voxel sizes of KISS-Matcher the better one counts.
PlückerNet is the published design with weights that were trained here. TEASER++ is not run: it has no wheel::

    python3 -m venv peers && peers/bin/pip install -c constraints.txt . "open3d==0.20.*" "kiss-matcher==1.0.*"
    PYTHONPATH=src:. OMP_NUM_THREADS=1 peers/bin/python -m benchmarks.peers --pairs-from pairs.npz

The pairs are crops of real maps, spread evenly over the places in every band of lines in common. Right means less than
5° and, at the centre of the source, less than 0.5 m. Time is CPU time relative to that of the default of this package.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.crops_open3d import UNIT, Pair, Settings, estimated, points_along
from benchmarks.harness import RESULTS, save
from benchmarks.sensors_points import by_kiss_matcher
from plueckernet.data.protocols import LinePair
from plueckernet.evaluation.methods import published_method
from plueckernet.geometry import LineSet, Pose
from plueckernet.models.weights import pretrained_path
from plueckernet.registration import register

MAX_ANGLE, MAX_DISTANCE = 5.0, 0.5  # degrees, metres
KISS_VOXELS = (0.15, 0.3)  # metres
PARALLEL = "3dlines"  # a map whose lines are nearly all parallel; it has rows of its own elsewhere
Estimator = Callable[[Pair], tuple[np.ndarray | None, bool]]
"""Gives the best pose, and whether the method itself calls it a success."""


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    name: str
    estimate: Estimator


def main() -> None:
    """Write ``results/peers.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs-from", type=Path, required=True, help="crops of real maps")
    parser.add_argument("--each", type=int, default=12, help="pairs in every band [default: 12]")
    options = parser.parse_args()
    pairs = chosen_pairs(options.pairs_from, options.each)
    torch.set_num_threads(1)
    for method in methods():
        method.estimate(pairs[0][1])  # loads weights and warms up
    rows = [_row(method, pairs) for method in methods()]
    ours = rows[0]["cpu_seconds_median"]
    for row in rows:
        row["time_over_ours"] = round(row.pop("cpu_seconds_median") / ours, 2)
    save("peers", {"pairs": len(pairs), "rows": rows}, weights=["invariant", "pluecker-indoor", "pluecker-outdoor"])


def chosen_pairs(path: Path, each: int) -> list[tuple[str, Pair]]:
    """Evenly spread pairs of every band of lines in common, with the name of the band."""
    with np.load(path) as file:
        arrays = dict(file)
    sides = {name: np.split(arrays[name], arrays[f"{name}_count"].cumsum()[:-1]) for name in ("source", "target")}
    bands = sorted(
        {(float(low), float(high)) for low, high in zip(arrays["share_low"], arrays["share_high"], strict=True)}
    )
    chosen = []
    for low, high in reversed(bands):
        rows = np.flatnonzero((arrays["share_low"] == low) & (arrays["place"] != PARALLEL))
        for row in rows[np.linspace(0, len(rows) - 1, each).round().astype(int)]:
            ends = (sides["source"][row] * UNIT, sides["target"][row] * UNIT)
            pose, count = arrays["target_T_source"][row], int(arrays["in_common"][row])
            chosen.append((f"{low:g}–{high:g}", Pair(str(arrays["place"][row]), 0, *ends, pose, count)))
    return chosen


def methods() -> Iterator[Method]:
    """This package, the published network, and methods for points."""
    yield Method("plueckernet", _ours("invariant"))
    yield Method("plueckernet, no weights", _ours("descriptors"))
    for name in ("pluecker-indoor", "pluecker-outdoor"):
        yield Method(f"PlückerNet as published, {name.partition('-')[2]} weights", _published(name))
    settings = json.loads((RESULTS / "crops_open3d.json").read_text(encoding="utf-8"))["values"]["settings"]["chosen"]
    yield Method("Open3D, FPFH + RANSAC + ICP", lambda pair: (estimated(pair, Settings(**settings)), True))
    for voxel in KISS_VOXELS:
        yield Method(f"KISS-Matcher + ICP, voxel {voxel:g} m", _kiss(voxel))


def _ours(matcher: str) -> Estimator:
    def estimate(pair: Pair) -> tuple[np.ndarray | None, bool]:
        result = register(pair.source, pair.target, matcher=matcher)
        poses = [result.target_T_source, *(other.target_T_source for other in result.alternatives)]
        best = next((pose for pose in poses if pose is not None), None)
        return None if best is None else best.matrix().numpy(), result.ok

    return estimate


def _published(name: str) -> Estimator:
    """The paper's method; its network expects maps about their origin, so both are centred."""
    method = published_method(name, pretrained_path(name))
    run = method.build(method, "cpu")

    def estimate(pair: Pair) -> tuple[np.ndarray | None, bool]:
        centres = [ends.reshape(-1, 3).mean(0) for ends in (pair.source, pair.target)]
        maps = [
            LineSet.from_segments(ends - centre)
            for ends, centre in zip((pair.source, pair.target), centres, strict=True)
        ]
        unknown = Pose.identity(), torch.zeros(0, 2, dtype=torch.long)
        pose = run(LinePair(maps[0], maps[1], *unknown)).target_T_source
        if pose is None:
            return None, False
        to_source, to_target = np.eye(4), np.eye(4)
        to_source[:3, 3], to_target[:3, 3] = -centres[0], centres[1]
        return to_target @ pose.matrix().numpy() @ to_source, True

    return estimate


def _kiss(voxel: float) -> Estimator:
    def estimate(pair: Pair) -> tuple[np.ndarray | None, bool]:
        clouds = [points_along(ends, voxel / 2) for ends in (pair.source, pair.target)]
        return by_kiss_matcher(clouds[0], clouds[1], voxel), True

    return estimate


def _row(method: Method, pairs: Sequence[tuple[str, Pair]]) -> dict[str, Any]:
    """What a method reaches in every band, and its median CPU time."""
    bands: dict[str, dict[str, int]] = {}
    seconds = []
    for band, pair in pairs:
        start = time.process_time()
        pose, called = method.estimate(pair)
        seconds.append(time.process_time() - start)
        right = pose is not None and is_right(pose, pair)
        counts = bands.setdefault(band, {"pairs": 0, "right": 0, "wrong_and_called": 0})
        counts["pairs"] += 1
        counts["right"] += right
        counts["wrong_and_called"] += called and not right
    print(method.name, bands, f"{statistics.median(seconds):.2f} s", flush=True)
    return {"method": method.name, "bands": bands, "cpu_seconds_median": statistics.median(seconds)}


def is_right(pose: np.ndarray, pair: Pair) -> bool:
    """Whether a pose is within the limits, the shift at the centre of the source."""
    cosine = (np.trace(pose[:3, :3].T @ pair.target_T_source[:3, :3]) - 1) / 2
    centre = np.append(pair.source.reshape(-1, 3).mean(0), 1.0)
    shift = np.linalg.norm(((pose - pair.target_T_source) @ centre)[:3])
    return bool(np.degrees(np.arccos(np.clip(cosine, -1, 1))) < MAX_ANGLE and shift < MAX_DISTANCE)


if __name__ == "__main__":
    main()
