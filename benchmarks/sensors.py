"""Real scans and images: registration from extracted lines alone, and odometry, against the given poses.

``python -m benchmarks.sensors registration --real FOLDER`` writes ``results/sensors.json``, ``odometry`` instead of
``registration`` writes ``results/sensors_odometry.json``. The data do not come with the package. ``export`` writes the
same pairs as points, for :mod:`benchmarks.sensors_points` to do with them what a user would pick today. Every source is
turned by a random rotation before lines are looked for, and no method gets a guess.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import RESULTS, progress
from benchmarks.sensor_results import Drift, OdometryValues, ScanOutcome, SequenceDrift, scan_values
from plueckernet import LineSet, Pose, register
from plueckernet.data.datasets import CameraFrame, seven_scenes_sequence, tum_sequence
from plueckernet.errors import DegenerateError
from plueckernet.estimation.icl import IclSettings, icl
from plueckernet.evaluation.documents import ResultDocument, write_result
from plueckernet.evaluation.metrics import pose_error
from plueckernet.evaluation.outcomes import Outcome, is_right
from plueckernet.evaluation.provenance import provenance
from plueckernet.evaluation.rates import Rate
from plueckernet.extraction import extract_lines, read_points
from plueckernet.geometry.pose import rotation_from_quaternion
from plueckernet.io.trajectories import Trajectory, stack_poses
from plueckernet.odometry import absolute_error, relative_error, relative_errors, track
from plueckernet.sensing import camera_images, frame_lines

ROTATIONS = 2  # of each pair of scans, and pairs of images per gap
GAPS = (5, 10, 15, 20, 25)  # frames between the images of a pair
TUM_DELAY = -0.02  # s; the images of fr1/rpy are this much later than their time says
# The apartment has no given pose. This one is where Open3D's point-to-plane ICP ends from the identity, in steps of
# 1 m to 5 cm; 72 % of the points are then within 5 cm. `python -m benchmarks.sensors_points` checks it.
APARTMENT = [
    [0.99339467, -0.11468581, 0.00376794, 0.61251294],
    [0.11467598, 0.9933992, 0.00273017, -0.01354686],
    [-0.00405618, -0.00228005, 0.99998917, 0.00525772],
    [0.0, 0.0, 0.0, 1.0],
]


@dataclass(frozen=True, eq=False)
class Cloud:
    """A scan, or the points of an image with depth, and what finds its lines."""

    points: np.ndarray
    find: Callable[[np.ndarray], LineSet]

    @cached_property
    def lines(self) -> LineSet:
        """Its lines."""
        return self.find(self.points)

    def turned(self, turn: Pose) -> Cloud:
        """The same in another frame. Lines of images are found in the image, so they are turned themselves."""
        moved = turn.act(torch.from_numpy(self.points)).numpy()
        return Cloud(moved, self.find if self.find is _scan_lines else lambda _: turn @ self.lines)


def _scan_lines(points: np.ndarray) -> LineSet:
    return extract_lines(points).lines


def _scan(points: np.ndarray) -> Cloud:
    return Cloud(points, _scan_lines)


def _image(frame: CameraFrame) -> Cloud:
    return Cloud(_back_projected(frame), lambda _: frame_lines(frame))


@dataclass(frozen=True, eq=False)
class Pair:
    """Two clouds of one place and the pose between them."""

    group: str
    source: Cloud
    target: Cloud
    target_T_source: Pose


def pairs(folder: Path, rotations: int) -> Iterator[Pair]:
    """All pairs, the sources turned at random."""
    for group, source, target, truth in _scans(folder):
        for seed in range(rotations):
            yield _turned(group, source, target, truth, seed)
    frames = seven_scenes_sequence(folder / "rgbd_7scenes_kitchen")
    clouds = {}
    for gap in GAPS:
        for number in range(rotations):
            first = number * (len(frames) - 1 - gap) // max(1, rotations - 1)
            for place in (first, first + gap):
                clouds.setdefault(place, _image(frames[place]))
            truth = _between(frames[first], frames[first + gap])
            yield _turned("7-Scenes kitchen", clouds[first + gap], clouds[first], truth, 100 * gap + number)


def _scans(folder: Path) -> Iterator[tuple[str, Cloud, Cloud, Pose]]:
    matcher = folder / "lidar_libpointmatcher"
    apartment = (_scan(read_points(matcher / f"cloud_{place}.vtk")) for place in (1, 0))
    yield "apartment", *apartment, _pose(APARTMENT)
    rows = (matcher / "carCloudList.csv").read_text().splitlines()
    car = (_scan(read_points(matcher / f"car_cloud{place}.csv")) for place in (401, 400))
    yield "car", *car, _pose(np.array(rows[2].split(",")[1:17], dtype=float).reshape(4, 4))
    gicp = folder / "lidar_small_gicp"
    sides = (_scan(read_points(gicp / f"{side}.ply")) for side in ("source", "target"))
    yield "small_gicp street", *sides, _pose(np.loadtxt(gicp / "T_target_source.txt"))
    kitti = folder / "lidar_kitti07"
    scans = [
        _scan(np.fromfile(path, np.float32).reshape(-1, 3).astype(float)) for path in sorted(kitti.glob("*/*.bin"))
    ]
    rows = [row.split() for row in (kitti / "graph.txt").read_text().splitlines() if row.startswith("v")]
    poses = [_pose_from_numbers([float(field) for field in row[1:8]]) for row in rows]
    for first, second in combinations(range(len(scans)), 2):
        group = "KITTI 07" if second == first + 1 else "KITTI 07, further apart"
        yield group, scans[second], scans[first], poses[first].inverse() @ poses[second]


def _turned(group: str, source: Cloud, target: Cloud, truth: Pose, seed: int) -> Pair:
    turn = Pose.random(generator=torch.Generator().manual_seed(seed), translation=0.0)
    return Pair(group, source.turned(turn), target, truth @ turn.inverse())


def _pose(matrix: Any) -> Pose:
    values = np.asarray(matrix, dtype=float)
    left, _, right = np.linalg.svd(values[:3, :3])
    return Pose(torch.from_numpy(left @ right), torch.from_numpy(values[:3, 3].copy()))


def _pose_from_numbers(numbers: list[float]) -> Pose:
    """From ``x y z qx qy qz qw``."""
    x, y, z, qx, qy, qz, qw = torch.tensor(numbers, dtype=torch.float64)
    return Pose(rotation_from_quaternion(torch.stack([qw, qx, qy, qz])), torch.stack([x, y, z]))


def _back_projected(frame: CameraFrame, step: int = 2) -> np.ndarray:
    """The points of an image with depth, every second pixel of every second row."""
    _, depth = camera_images(frame)
    fx, fy, cx, cy = frame.intrinsics
    row, column = np.nonzero(depth[::step, ::step])
    z = depth[::step, ::step][row, column]
    return np.stack([(step * column - cx) / fx * z, (step * row - cy) / fy * z, z], 1)


def _between(first: CameraFrame, second: CameraFrame) -> Pose:
    if first.world_T_sensor is None or second.world_T_sensor is None:
        raise ValueError("a frame without a pose")
    return first.world_T_sensor.inverse() @ second.world_T_sensor


def registered(pair: Pair) -> ScanOutcome:
    """Register the lines of one pair."""
    source, target = pair.source.lines, pair.target.lines
    counts = (len(source), len(target))
    if min(counts) < 3:
        return ScanOutcome(pair.group, Outcome(None, accepted=False, common=0), counts)
    result = register(source, target)
    poses = [] if result.target_T_source is None else [result.target_T_source]
    poses += [alternative.target_T_source for alternative in result.alternatives]
    errors = [pose_error(pose, pair.target_T_source) for pose in poses]
    return ScanOutcome(
        group=pair.group,
        outcome=Outcome(errors[0] if errors else None, result.ok, common=0),
        lines=counts,
        right_candidate=any(map(is_right, errors)),
        confidence=result.confidence,
        seconds=sum(result.timings.values()),
    )


def odometry(name: str, frames: list[CameraFrame]) -> SequenceDrift:
    """Relative error per frame of both kinds of odometry and of ICL from the identity."""
    lines = [frame_lines(frame) for frame in progress(frames, f"{name}: lines")]
    poses = [frame.world_T_sensor for frame in frames if frame.world_T_sensor is not None]
    truth = Trajectory(torch.tensor([frame.time for frame in frames], dtype=torch.float64), stack_poses(poses))
    named = zip((frame.name for frame in frames), truth.times.tolist(), lines, strict=True)
    result = track(progress(named, f"{name}: odometry", len(frames)))
    motions = [step.previous_T_sensor for step in result.steps[1:]]
    return SequenceDrift(
        frames=len(frames),
        methods={
            "frame to frame": _drift(_path(motions, truth), truth),
            "frame to local map": _drift(result.trajectory(), truth),
            "ICL": _drift(_path([_icl(after, before) for before, after in pairwise(lines)], truth), truth),
        },
        lines_median=float(statistics.median(map(len, lines))),
        tracking=dict(Counter(str(step.tracking) for step in result.steps[1:])),
    )


def _icl(after: LineSet, before: LineSet) -> Pose:
    """From the identity; where it has no answer, no motion."""
    try:
        return icl(after, before, settings=IclSettings(sign_aware=True)).target_T_source
    except DegenerateError:
        return Pose.identity()


def _path(motions: list[Pose], truth: Trajectory) -> Trajectory:
    """One motion after the other."""
    poses = [Pose.identity()]
    for motion in motions:
        poses.append(poses[-1] @ motion)
    return Trajectory(truth.times, stack_poses(poses))


def _drift(path: Trajectory, truth: Trajectory) -> Drift:
    error = relative_error(path, truth)
    shift, turn = relative_errors(path, truth)
    return Drift(
        rotation_median=error.rotation_median,
        rotation_rmse=error.rotation_rmse,
        translation_median=error.translation_median,
        translation_rmse=error.translation_rmse,
        close=Rate.of(((shift < 0.02) & (turn < 1)).tolist()),
        absolute_rmse=absolute_error(path, truth),
    )


def sequences(folder: Path) -> dict[str, list[CameraFrame]]:
    """What odometry is measured on."""
    return {
        "TUM fr1/rpy": tum_sequence(folder / "rgbd_tum_fr1_rpy", TUM_DELAY),
        "7-Scenes kitchen": seven_scenes_sequence(folder / "rgbd_7scenes_kitchen"),
    }


def export(folder: Path, rotations: int, path: Path) -> None:
    """Pairs and sequences as :mod:`benchmarks.sensors_points` reads them."""
    arrays: dict[str, np.ndarray] = {}
    for place, pair in enumerate(pairs(folder, rotations)):
        arrays[f"pair{place:04d}_group"] = np.array(pair.group)
        arrays[f"pair{place:04d}_source"] = pair.source.points.astype(np.float32)
        arrays[f"pair{place:04d}_target"] = pair.target.points.astype(np.float32)
        arrays[f"pair{place:04d}_truth"] = pair.target_T_source.matrix().numpy()
    for place, (name, frames) in enumerate(sequences(folder).items()):
        arrays[f"sequence{place}_name"] = np.array(name)
        arrays[f"sequence{place}_files"] = np.array([[str(frame.colour), str(frame.depth)] for frame in frames])
        arrays[f"sequence{place}_camera"] = np.array([*frames[0].intrinsics, frames[0].depth_unit, frames[0].furthest])
        poses = [frame.world_T_sensor for frame in frames if frame.world_T_sensor is not None]
        arrays[f"sequence{place}_truth"] = stack_poses(poses).matrix().numpy()
    np.savez(path, allow_pickle=False, **arrays)


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("registration", "odometry", "export"))
    parser.add_argument("--real", type=Path, required=True, help="folder with lidar_* and rgbd_*")
    parser.add_argument(
        "--limit", type=int, default=ROTATIONS, help="rotations of each pair of scans, pairs of images per gap"
    )
    parser.add_argument("--to", type=Path, default=Path("pairs.npz"), help="where points are exported to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.part == "export":
        export(options.real, options.limit, options.to)
        return
    if options.part == "odometry":
        paths: dict[str, SequenceDrift] = {}
        for name, frames in sequences(options.real).items():
            paths[name] = odometry(name, frames)
            _save("sensors_odometry", OdometryValues(paths))
        return
    outcomes: list[ScanOutcome] = []
    for pair in pairs(options.real, options.limit):
        outcomes.append(registered(pair))
        print(outcomes[-1], flush=True)
        _save("sensors", scan_values("lines", outcomes))  # after each, because it takes long


def _save(name: str, values: object) -> None:
    sources = provenance("benchmarks.sensors", ["invariant"]).to_dict()
    write_result(RESULTS / f"{name}.json", ResultDocument(name, sources, values))


if __name__ == "__main__":
    main()
