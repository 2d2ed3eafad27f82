"""What a user would pick today, on the pairs and sequences of :mod:`benchmarks.sensors`: points, and Open3D's odometry.

FPFH, RANSAC and ICP of Open3D; KISS-Matcher and the same ICP; Open3D's RGB-D odometry. They live in their own
environment, which needs neither this package nor torch::

    python -m benchmarks.sensors export --real FOLDER --to pairs.npz
    python3 -m venv o3d && o3d/bin/pip install "open3d==0.20.*" "kiss-matcher==1.0.*"
    export PYTHONPATH=src:.
    o3d/bin/python -m benchmarks.sensors_points fpfh --pairs-from pairs.npz
    o3d/bin/python -m benchmarks.sensors_points kiss --pairs-from pairs.npz
    o3d/bin/python -m benchmarks.sensors_points rgbd --pairs-from pairs.npz

They write ``results/sensors_fpfh.json`` and so on. Each method of registration is run with two voxel sizes a group, and
of the two the better one is to be compared with: lines have nothing to be tuned.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kiss_matcher
import numpy as np
import open3d as o3d

from benchmarks.sensor_results import Drift, OdometryValues, ScanOutcome, SequenceDrift, scan_values
from plueckernet.evaluation.outcomes import Outcome
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.rates import Rate

VOXELS = {  # m
    "apartment": (0.05, 0.1),
    "car": (0.1, 0.3),
    "small_gicp street": (0.3, 0.5),
    "KITTI 07": (0.5, 1.0),
    "KITTI 07, further apart": (0.5, 1.0),
    "7-Scenes kitchen": (0.03, 0.05),
}
registration, odometry = o3d.pipelines.registration, o3d.pipelines.odometry


def cloud(points: np.ndarray, voxel: float) -> Any:
    """Points thinned, with normals."""
    made = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points.astype(np.float64))).voxel_down_sample(voxel)
    made.estimate_normals(o3d.geometry.KDTreeSearchParamHybrid(2 * voxel, 30))
    return made


def by_fpfh(source: np.ndarray, target: np.ndarray, voxel: float) -> np.ndarray:
    """FPFH, RANSAC with the usual checks, ICP."""
    o3d.utility.random.seed(0)
    sides = [cloud(points, voxel) for points in (source, target)]
    search = o3d.geometry.KDTreeSearchParamHybrid(5 * voxel, 100)
    features = [registration.compute_fpfh_feature(side, search) for side in sides]
    checks = [
        registration.CorrespondenceCheckerBasedOnEdgeLength(0.9),
        registration.CorrespondenceCheckerBasedOnDistance(1.5 * voxel),
    ]
    coarse = registration.registration_ransac_based_on_feature_matching(
        *sides, *features, True, 1.5 * voxel, registration.TransformationEstimationPointToPoint(), 3, checks,
        registration.RANSACConvergenceCriteria(100_000, 0.999),
    )  # fmt: skip
    return refined(*sides, voxel, coarse.transformation)


def by_kiss_matcher(source: np.ndarray, target: np.ndarray, voxel: float) -> np.ndarray:
    """KISS-Matcher with its defaults, then ICP."""
    matcher = kiss_matcher.KISSMatcher(kiss_matcher.KISSMatcherConfig(voxel))
    estimate = matcher.estimate(list(source.astype(np.float32)), list(target.astype(np.float32)))
    coarse = np.eye(4)
    coarse[:3, :3], coarse[:3, 3] = estimate.rotation, np.asarray(estimate.translation).ravel()
    return refined(cloud(source, voxel), cloud(target, voxel), voxel, coarse)


def refined(source: Any, target: Any, voxel: float, start: np.ndarray) -> np.ndarray:
    """Point-to-plane ICP."""
    plane = registration.TransformationEstimationPointToPlane()
    return np.asarray(registration.registration_icp(source, target, voxel, start, plane).transformation)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "kiss": by_kiss_matcher,
    "fpfh": by_fpfh,
}


def matrix_error(pose: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Degrees and metres between 4 x 4 matrices: `plueckernet.evaluation.metrics.pose_error` needs torch."""
    chord = np.linalg.norm(pose[:3, :3] - truth[:3, :3]) / np.sqrt(8)
    return float(np.degrees(2 * np.arcsin(min(1.0, chord)))), float(np.linalg.norm(pose[:3, 3] - truth[:3, 3]))


def registered(arrays: dict[str, np.ndarray], method: str) -> Iterator[ScanOutcome]:
    """Each pair with each voxel size; one pair of every group, then the next of each."""
    names = sorted(key.removesuffix("_group") for key in arrays if key.endswith("_group"))
    seen: Counter[str] = Counter()
    turns = []
    for name in names:
        group = str(arrays[f"{name}_group"])
        turns.append((seen[group], name, group))
        seen[group] += 1
    for _, name, group in sorted(turns):
        for voxel in VOXELS[group]:
            start = time.process_time()
            pose = METHODS[method](arrays[f"{name}_source"], arrays[f"{name}_target"], voxel)
            error = matrix_error(pose, arrays[f"{name}_truth"])
            outcome = Outcome(error, accepted=True, common=0)
            yield ScanOutcome(group, outcome, voxel=voxel, seconds=time.process_time() - start)


def rgbd_odometry(arrays: dict[str, np.ndarray], sequence: str) -> SequenceDrift:
    """Open3D's hybrid RGB-D odometry from the identity, frame to frame."""
    fx, fy, cx, cy, unit, furthest = arrays[f"{sequence}_camera"]
    images = [_rgbd(*files, unit, furthest) for files in arrays[f"{sequence}_files"]]
    height, width = np.asarray(images[0].depth).shape
    camera = o3d.camera.PinholeCameraIntrinsic(width, height, fx, fy, cx, cy)
    truth = arrays[f"{sequence}_truth"]
    errors, failed = [], 0
    for place in range(1, len(images)):
        known, step, _ = odometry.compute_rgbd_odometry(
            images[place], images[place - 1], camera, np.eye(4),
            odometry.RGBDOdometryJacobianFromHybridTerm(), odometry.OdometryOption(depth_max=furthest),
        )  # fmt: skip
        failed += not known
        errors.append(matrix_error(step if known else np.eye(4), np.linalg.inv(truth[place - 1]) @ truth[place]))
    turn, shift = np.array(errors).T
    drift = Drift(
        rotation_median=float(np.median(turn)),
        rotation_rmse=float(np.sqrt((turn**2).mean())),
        translation_median=float(np.median(shift)),
        translation_rmse=float(np.sqrt((shift**2).mean())),
        close=Rate.of(((turn < 1) & (shift < 0.02)).tolist()),
        failed=failed,
    )
    return SequenceDrift(len(images), {"Open3D": drift})


def _rgbd(colour: str, depth: str, unit: float, furthest: float) -> Any:
    steps = np.asarray(o3d.io.read_image(depth)).astype(np.float32)
    metres = steps * np.float32(unit)
    metres[metres > furthest] = 0
    return o3d.geometry.RGBDImage.create_from_color_and_depth(
        o3d.io.read_image(colour), o3d.geometry.Image(metres), 1.0, furthest, True
    )


def apartment_reference(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Whether ICP, turned back but with no shift, ends at the pose that the apartment is measured against."""
    name = min(key.removesuffix("_group") for key in arrays if str(arrays[key]) == "apartment")
    source, target = cloud(arrays[f"{name}_source"], 0.02), cloud(arrays[f"{name}_target"], 0.02)
    start = np.eye(4)
    start[:3, :3] = arrays[f"{name}_truth"][:3, :3]  # the sources were turned; how the scanner moved is left open
    for max_distance in (1.0, 0.5, 0.2, 0.1, 0.05):
        plane = registration.TransformationEstimationPointToPlane()
        end = registration.registration_icp(source, target, max_distance, start, plane)
        start = end.transformation
    return {"error": matrix_error(np.asarray(start), arrays[f"{name}_truth"]), "within_5_cm": end.fitness}


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs-from", type=Path, required=True, help="what benchmarks.sensors exported")
    parser.add_argument("part", choices=(*METHODS, "rgbd"))
    options = parser.parse_args()
    o3d.utility.set_verbosity_level(o3d.utility.VerbosityLevel.Error)
    with np.load(options.pairs_from) as file:
        arrays = dict(file)
    if options.part == "rgbd":
        names = {str(arrays[f"{sequence}_name"]): sequence for sequence in ("sequence0", "sequence1")}
        drift = {name: rgbd_odometry(arrays, sequence) for name, sequence in names.items()}
        save("sensors_rgbd", OdometryValues(drift))
        return
    print(apartment_reference(arrays), flush=True)
    outcomes: list[ScanOutcome] = []
    for outcome in registered(arrays, options.part):
        outcomes.append(outcome)
        print(outcome, flush=True)
        save(f"sensors_{options.part}", scan_values(options.part, outcomes))  # after each, because it takes long


def save(name: str, values: Any) -> None:
    """Write ``results/NAME.json``."""
    sources = provenance("benchmarks.sensors_points", packages=("open3d", "kiss-matcher")).to_dict()
    path = Path(__file__).parent / "results" / f"{name}.json"
    content = {"name": name, "provenance": sources, "values": asdict(values)}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
