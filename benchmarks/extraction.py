"""Lines from clouds whose edges are known: recall, precision, speed and memory.

``python -m benchmarks.extraction`` runs it all; with names (``quality``, ``lidar``, ``large``) it runs these only and
keeps the results of the others. Times are CPU times, so that a busy machine does not change them much.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from benchmarks.harness import RESULTS, progress, save
from benchmarks.synthetic_clouds import Scene, agreement, boxes, dense, facade, lidar
from plueckernet.evaluation.rates import percent
from plueckernet.extraction import PointCloudSettings, extract_lines

LARGE = 10_000_000  # points
SPACING, NOISE, MUCH_NOISE = 0.01, 0.005, 0.03  # m
SENSORS = {"boxes": (3.5, 3.2, 1.6), "facade": (3.8, -2.8, 1.7)}
SEEN = 0.15  # m from an edge to points of the scan; an edge counts as scanned if half of it is this near


def scenes() -> dict[str, Scene]:
    """The scanned scenes."""
    return {"boxes": boxes(np.random.default_rng(0)), "facade": facade(2, 1)}


def quality() -> dict[str, Any]:
    """Recall and precision on dense clouds with little and with much noise."""
    rows = []
    for name, scene in scenes().items():
        for noise in (NOISE, MUCH_NOISE):
            points = dense(scene, SPACING, noise, np.random.default_rng(1))
            lines = extract_lines(points, PointCloudSettings(workers=1)).endpoints
            rows.append({"scene": name, "noise": noise, "points": len(points), **agreements(lines, scene.edges)})
    return {"dense": rows}


def sparse() -> dict[str, Any]:
    """Recall of scanned edges and precision for spinning LiDARs of three kinds, with and without the viewpoint."""
    rows = []
    for name, scene in scenes().items():
        for rings in progress((64, 32, 16), f"{name}, LiDAR"):
            sensor = np.array(SENSORS[name])
            points = lidar(scene, sensor, rings, 0.02, np.random.default_rng(2))
            edges = scene.edges[seen(points, scene.edges)]
            for viewpoint in (None, SENSORS[name]):
                settings = PointCloudSettings(workers=1, viewpoint=viewpoint)
                lines = extract_lines(points, settings).endpoints
                row = {"scene": name, "rings": rings, "viewpoint": viewpoint is not None, "points": len(points)}
                rows.append({**row, **agreements(lines, edges)})
    return {"lidar": rows}


def agreements(lines: np.ndarray, edges: np.ndarray) -> dict[str, Any]:
    """Agreement within the required distance and angle, and within wider ones."""
    return {"3cm_2deg": agreement(lines, edges), "10cm_5deg": agreement(lines, edges, distance=0.1, angle=5.0)}


def seen(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Edges near which the scan has points along half of their length."""
    tree = cKDTree(points)
    places = [edge[0] + np.outer(np.linspace(0, 1, 40), edge[1] - edge[0]) for edge in edges]
    return np.array([(tree.query(place)[0] < SEEN).mean() > 0.5 for place in places])


def large() -> dict[str, Any]:
    """A file of ten million points through tiles, in a separate process that reports time and memory."""
    scene = facade(12, 5)
    area = sum(float(np.linalg.norm(np.cross(patch.u, patch.v))) for patch in scene.patches)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cloud.npy"
        points = dense(scene, float(np.sqrt(area / LARGE / 1.25)), NOISE, np.random.default_rng(3))[:LARGE]
        np.save(path, np.random.default_rng(4).permutation(points))
        count = len(points)
        del points
        command = [sys.executable, "-m", "benchmarks.extraction", "--file", str(path)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result = json.loads(answer)
    lines = np.array(result.pop("lines"))
    result |= {"points": count, "points_per_cpu_second": count / result["cpu_seconds"]}
    return {"large": {**result, **agreements(lines, scene.edges)}}


def measure_file(path: str) -> None:
    """Extract lines from a file and print time and memory, and the time of plain normals of its points."""
    began = time.process_time()
    lines = extract_lines(path, PointCloudSettings(workers=1)).endpoints
    taken = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    points = np.load(path, mmap_mode="r")
    middle = points[:100_000].mean(axis=0)
    near = np.asarray(points[np.argsort(np.abs(points[:, 0] - middle[0]))[:300_000]])  # a slice as dense as the cloud
    began = time.process_time()
    plain_normals(near)
    normals = (time.process_time() - began) / len(near) * len(points)
    result = {"cpu_seconds": taken, "peak_gib": peak, "plain_normals_cpu_seconds": normals, "lines": lines.tolist()}
    print(json.dumps(result))


def plain_normals(points: np.ndarray, neighbours: int = 30) -> np.ndarray:
    """The first step of every method: a normal for each point from its nearest points."""
    _, index = cKDTree(points).query(points, neighbours)
    near = points[index]
    near = near - near.mean(axis=1, keepdims=True)
    return np.linalg.eigh(near.transpose(0, 2, 1) @ near)[1][:, :, 0]


def table(result: dict[str, Any]) -> list[dict[str, str]]:
    """Rows for the README."""
    rows = []
    for row in result.get("dense", []):
        asked = "≥ 90 % each" if row["noise"] == NOISE else ""
        close = row["3cm_2deg"]
        what = f"edges of {row['scene']} in a dense cloud, {1000 * row['noise']:.0f} mm noise, 3 cm and 2°"
        measured = f"recall {percent(close['recall'])}, precision {percent(close['precision'])}"
        rows.append({"what": what, "asked": asked, "measured": measured})
    for rings in (64, 32, 16):
        scans = [scan["10cm_5deg"] for scan in result.get("lidar", []) if scan["rings"] == rings and scan["viewpoint"]]
        if scans:
            recall, precision = (float(np.mean([scan[key] for scan in scans])) for key in ("recall", "precision"))
            what = f"the same scenes, edges seen by a LiDAR of {rings} rings with 20 mm noise, 10 cm and 5°"
            rows.append({"what": what, "measured": f"recall {recall:.0%}, precision {precision:.0%}"})
    if "large" in result:
        big = result["large"]
        ratio = big["cpu_seconds"] / big["plain_normals_cpu_seconds"]
        measured = (
            f"{big['points_per_cpu_second']:,.0f} a second on one core, {ratio:.2f} times the time of plain normals; "
            f"{big['peak_gib']:.1f} GiB"
        )
        rows.append({"what": f"lines from {big['points']:,} points, by tiles", "asked": "8 GB", "measured": measured})
    return rows


PARTS: dict[str, Callable[[], dict[str, Any]]] = {"quality": quality, "lidar": sparse, "large": large}


def main(names: list[str] | None = None) -> None:
    """Run the parts and write ``results/extraction.json``."""
    path = RESULTS / "extraction.json"
    for name in names or list(PARTS):
        measured = PARTS[name]()
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        result = {
            key: value for key, value in known.items() if key not in ("provenance", "metadata", "table")
        } | measured
        save("extraction", {**result, "table": table(result)})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--file"]:
        measure_file(sys.argv[2])
    else:
        main(sys.argv[1:])
