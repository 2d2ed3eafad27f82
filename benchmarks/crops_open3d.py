"""What a user would pick today, on the pairs of `plueckernet evaluate crops`: Open3D on points sampled along the lines.

FPFH features, RANSAC on nearest ones, ICP. Open3D is large, so it lives in its own environment, which needs
neither this package nor torch::

    plueckernet evaluate crops --maps FOLDER --pairs-file pairs.npz --out crops
    plueckernet evaluate crops --scenes 40 --pairs 160 --pairs-file synthetic.npz --out crops
    python3 -m venv o3d && o3d/bin/pip install "open3d==0.20.*"
    export PYTHONPATH=src:. OMP_NUM_THREADS=1
    o3d/bin/python -m benchmarks.crops_open3d --pairs-from pairs.npz --tune-on synthetic.npz

All settings are chosen on the synthetic pairs, by the mean success over the four overlaps;
``results/crops_open3d.json`` has what each reached. It takes half an hour of one core; results are kept beside the
file of pairs, pair by pair, and not computed again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import open3d as o3d

from plueckernet.evaluation.crop_results import OVERLAPS, CropOutcome, CropValues, crop_values
from plueckernet.evaluation.outcomes import Outcome
from plueckernet.evaluation.provenance import provenance

UNIT = 1e-4  # m, of the coordinates in the file
TUNED = 15  # pairs of every overlap that settings are chosen by
registration = o3d.pipelines.registration


@dataclass(frozen=True)
class Settings:
    """In metres."""

    voxel: float = 0.2
    feature: float = 5.0  # radius of FPFH in voxels; normals take two
    mutual: bool = True  # whether features must be each other's nearest
    close: float = 1.5  # distance of inliers in voxels
    iterations: int = 100_000


CHOICES = [Settings(*choice) for choice in product((0.1, 0.15, 0.25), (5.0, 10.0), (True, False))]


@dataclass(frozen=True, eq=False)
class Pair:
    """Segments of both sides and the answer."""

    place: str
    overlap: int
    source: np.ndarray  # (m, 2, 3)
    target: np.ndarray  # (n, 2, 3)
    target_T_source: np.ndarray  # (4, 4)
    in_common: int


def read_pairs(path: Path) -> list[Pair]:
    """What ``plueckernet evaluate crops`` cut."""
    with np.load(path) as file:
        arrays = dict(file)
    split = {
        name: np.split(arrays[name], arrays[f"{name}_count"].cumsum()[:-1]) for name in ("source", "target", "matches")
    }
    return [
        Pair(str(place), int(overlap), source * UNIT, target * UNIT, pose, min(map(len, map(np.unique, matches.T))))
        for place, overlap, source, target, pose, matches in zip(
            arrays["place"], arrays["overlap"], split["source"], split["target"], arrays["target_T_source"],
            split["matches"], strict=True,
        )
    ]  # fmt: skip


def fingerprint(path: Path) -> str:
    """As :func:`plueckernet.evaluation.crop_pairs.fingerprint`: tells whether two results are about the same pairs."""
    digest = hashlib.sha256()
    with np.load(path) as file:
        sides = [np.split(file[name], file[f"{name}_count"].cumsum()[:-1]) for name in ("source", "target")]
    for pair in zip(*sides, strict=True):
        for segments in pair:
            digest.update(segments.astype(np.int32).tobytes())
    return digest.hexdigest()[:16]


def points_along(segments: np.ndarray, spacing: float) -> np.ndarray:
    """Points at even distances along all segments."""
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    count = np.maximum(2, np.ceil(length / spacing).astype(int))
    row = np.repeat(np.arange(len(segments)), count)
    place = (np.arange(len(row)) - np.repeat(count.cumsum() - count, count)) / (count[row] - 1)
    return segments[row, 0] + place[:, None] * (segments[row, 1] - segments[row, 0])


def described(segments: np.ndarray, settings: Settings) -> tuple[Any, Any]:
    """A cloud of points and their features."""
    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(points_along(segments, settings.voxel / 2)))
    cloud = cloud.voxel_down_sample(settings.voxel)
    cloud.estimate_normals(o3d.geometry.KDTreeSearchParamHybrid(2 * settings.voxel, 30))
    search = o3d.geometry.KDTreeSearchParamHybrid(settings.feature * settings.voxel, 200)
    return cloud, registration.compute_fpfh_feature(cloud, search)


def estimated(pair: Pair, settings: Settings) -> np.ndarray:
    """``target_T_source`` by FPFH, RANSAC and ICP."""
    o3d.utility.random.seed(0)
    o3d.utility.set_verbosity_level(o3d.utility.VerbosityLevel.Error)
    (source, source_features), (target, target_features) = (
        described(segments, settings) for segments in (pair.source, pair.target)
    )
    close = settings.close * settings.voxel
    checks = [
        registration.CorrespondenceCheckerBasedOnEdgeLength(0.9),
        registration.CorrespondenceCheckerBasedOnDistance(close),
    ]
    method = registration.TransformationEstimationPointToPoint()
    patience = registration.RANSACConvergenceCriteria(settings.iterations, 0.999)
    coarse = registration.registration_ransac_based_on_feature_matching(
        source, target, source_features, target_features, settings.mutual, close, method, 3, checks, patience
    )
    fine = registration.registration_icp(source, target, close, coarse.transformation, method)
    return np.asarray(fine.transformation)


def registered(settings: Settings, pair: Pair) -> CropOutcome:
    """Register one pair; Open3D accepts every pose it gives."""
    pose = estimated(pair, settings)
    cosine = (np.trace(pose[:3, :3].T @ pair.target_T_source[:3, :3]) - 1) / 2
    turn = float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
    shift = float(np.linalg.norm(pose[:3, 3] - pair.target_T_source[:3, 3]))
    return CropOutcome(pair.place, pair.overlap, Outcome((turn, shift), accepted=True, common=pair.in_common))


def run(settings: Settings, path: Path, processes: int, most: int | None = None) -> list[CropOutcome]:
    """Outcomes with the settings on the pairs of a file, or on the first of every overlap; known ones are kept."""
    cache, wanted, pairs = path.with_suffix(".open3d.jsonl"), asdict(settings), read_pairs(path)
    rows = [[i for i, pair in enumerate(pairs) if pair.overlap == row][:most] for row in range(len(OVERLAPS))]
    chosen = [index for row in zip_longest(*rows) for index in row if index is not None]
    kept = {line["pair"]: line["error"] for line in _lines(cache) if line["settings"] == wanted}
    missing = [index for index in chosen if index not in kept]
    with ProcessPoolExecutor(processes) as pool, cache.open("a", encoding="utf-8") as stream:
        made = pool.map(partial(registered, settings), (pairs[index] for index in missing))
        for index, crop in zip(missing, made, strict=True):
            kept[index] = crop.outcome.error
            stream.write(json.dumps({"settings": wanted, "pair": index, "error": kept[index]}) + "\n")
            stream.flush()
    return [_outcome(pairs[index], kept[index]) for index in chosen]


def _outcome(pair: Pair, error: list[float] | tuple[float, float]) -> CropOutcome:
    outcome = Outcome((error[0], error[1]), accepted=True, common=pair.in_common)
    return CropOutcome(pair.place, pair.overlap, outcome)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines; an interrupted run may have left half of one."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]


def main() -> None:
    """Tune, run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs-from", type=Path, required=True, help="pairs of real maps")
    parser.add_argument("--tune-on", type=Path, required=True, help="pairs of synthetic scenes")
    parser.add_argument("--most", type=int, help="pairs of real maps for every overlap [default: all]")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    tried = []
    for settings in CHOICES:
        values = counted(run(settings, options.tune_on, options.processes, TUNED))
        tried.append({**asdict(settings), "synthetic_success": [cell.summary.right.fraction for cell in values.totals]})
        print(tried[-1], flush=True)
    best = max(range(len(CHOICES)), key=lambda index: sum(tried[index]["synthetic_success"]))
    about = {"chosen": asdict(CHOICES[best]), "tried": tried}
    outcomes = run(CHOICES[best], options.pairs_from, options.processes, options.most)
    values = counted(outcomes, fingerprint(options.pairs_from), about)
    sources = provenance("benchmarks.crops_open3d", packages=("open3d",)).to_dict()
    content = {"name": "crops_open3d", "provenance": sources, "values": asdict(values)}
    path = Path(__file__).parent / "results" / "crops_open3d.json"
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for cell in values.totals:
        print(cell.overlap, cell.summary.right)


def counted(outcomes: list[CropOutcome], pairs: str = "", settings: dict[str, Any] | None = None) -> CropValues:
    """The counts of Open3D."""
    return crop_values("open3d", pairs, outcomes, settings)


if __name__ == "__main__":
    main()
