"""Which settings of the extraction matter: see :mod:`benchmarks.sensitivity`.

``python -m benchmarks.sensitivity_extraction`` writes ``results/sensitivity_extraction.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.extraction import SENSORS, seen
from benchmarks.harness import save
from benchmarks.sensitivity import Metrics, Study, kept_file, run_study
from benchmarks.synthetic_clouds import (
    Patch,
    Photograph,
    Scene,
    agreement,
    boxes,
    dense,
    facade,
    lidar,
    photograph,
    unique_edges,
)
from plueckernet.extraction import Intrinsics, PointCloudSettings, RgbdSettings, extract_lines, extract_rgbd
from plueckernet.extraction.tiles import TileSettings
from plueckernet.extraction.visibility import VisibilitySettings


@dataclass(frozen=True)
class ExtractionSettings:
    """All settings of extraction: from clouds and from images."""

    clouds: PointCloudSettings = field(default_factory=lambda: PointCloudSettings(workers=1))
    images: RgbdSettings = field(default_factory=RgbdSettings)


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points, the edges to be found, how near a line has to be, and changes of the settings for this cloud."""

    points: np.ndarray
    edges: np.ndarray
    distance: float = 0.03  # m
    angle: float = 2.0  # degrees
    changes: dict[str, Any] = field(default_factory=dict)


LARGE_CLOUD_SCALE = 1 / 35  # a cloud of 15,000 points represents one of 525,000


@cache
def clouds() -> dict[str, list[Cloud]]:
    """Small clouds that between them need every step of the extraction, by their kind."""
    box, front, corner = boxes(np.random.default_rng(1), 1, 2.2), facade(1, 1), walls(1.5)
    wide = {"distance": 0.1, "angle": 5.0}
    scans = []
    for scene, sensor in ((boxes(np.random.default_rng(0)), SENSORS["boxes"]), (facade(2, 1), SENSORS["facade"])):
        points = lidar(scene, np.array(sensor), 32, 0.02, np.random.default_rng(4))
        scans.append(Cloud(points, scene.edges[seen(points, scene.edges)], **wide, changes={"viewpoint": sensor}))
    tiled = Cloud(dense(front, 0.05, 0.003, np.random.default_rng(5)), front.edges, changes={"tile_points": 4000})
    return {
        "façade": [Cloud(dense(front, 0.05, 0.003, np.random.default_rng(1)), front.edges)],
        "box with noise": [Cloud(dense(box, 0.04, 0.012, np.random.default_rng(2)), box.edges)],
        "scattered": [Cloud(dense(corner, 0.02, 0.03, np.random.default_rng(3)), corner.edges, **wide)],
        "LiDAR": scans,
        "tiles": [tiled],
    }


def walls(size: float) -> Scene:
    """A corner of a floor and two walls."""
    patches = [Patch(np.zeros(3), size * u, size * v) for u, v in combinations(np.eye(3), 2)]
    return Scene(patches, unique_edges(patches))


@cache
def cloud_metrics(kind: str, settings: PointCloudSettings) -> Metrics:
    """Recall and precision, and recall within a third of the distance, averaged over the clouds of a kind."""
    scale = replace(settings.scale, large_cloud=round(settings.scale.large_cloud * LARGE_CLOUD_SCALE))
    results = []
    for cloud in clouds()[kind]:
        lines = extract_lines(cloud.points, replace(settings, scale=scale, **cloud.changes)).endpoints
        result = agreement(lines, cloud.edges, distance=cloud.distance, angle=cloud.angle, step=0.02)
        close = agreement(lines, cloud.edges, distance=cloud.distance / 3, angle=cloud.angle, step=0.02)
        results.append({**result, "close recall": close["recall"]})
    return averaged(kind, results)


def averaged(kind: str, results: list[dict[str, float]]) -> Metrics:
    """The means of recalls and precision, named by the kind of data."""
    names = [name for name in ("recall", "precision", "close recall") if name in results[0]]
    return {f"{kind}: {name}": float(np.mean([result[name] for result in results])) for name in names}


def relevant(kind: str, settings: PointCloudSettings) -> PointCloudSettings:
    """The settings with defaults for the groups that have no effect on a kind of cloud, so that metrics are cached."""
    if kind == "tiles":  # the other steps are measured on the whole façade
        default = PointCloudSettings(workers=1)
        return replace(default, seed=settings.seed, merging=settings.merging, tiles=settings.tiles)
    visibility = settings.visibility if kind == "LiDAR" else VisibilitySettings()
    return replace(settings, tiles=TileSettings(), visibility=visibility)


@cache
def frames() -> list[Photograph]:
    """Frames of two scenes of boxes and of a façade."""
    views = [
        (boxes(np.random.default_rng(0)), (3.9, 3.7, 1.8), (1.2, 1.2, 0.5)),
        (boxes(np.random.default_rng(2)), (3.9, 2.0, 1.5), (1.2, 1.5, 0.6)),
        (facade(2, 1), (2.0, -2.9, 1.6), (3.0, 0.0, 1.5)),
    ]
    rng = np.random.default_rng(7)
    return [photograph(scene, np.array(eye), np.array(target), rng) for scene, eye, target in views]


@cache
def image_metrics(settings: RgbdSettings) -> Metrics:
    """Recall and precision, averaged over the frames."""
    results = []
    for frame in frames():
        lines = extract_rgbd(frame.image, frame.depth, Intrinsics(500, 500, 320, 240), settings).endpoints
        results.append(agreement(lines, frame.edges, distance=0.05, angle=4.0))
    return averaged("images", results)


def extraction_metrics(settings: ExtractionSettings) -> Metrics:
    """Metrics of all clouds and of the images."""
    metrics = image_metrics(settings.images)
    for kind in clouds():
        metrics = metrics | cloud_metrics(kind, relevant(kind, settings.clouds))
    return metrics


def reseeded_extraction(settings: ExtractionSettings, seed: int) -> ExtractionSettings:
    """The settings with another seed of the samples."""
    return ExtractionSettings(replace(settings.clouds, seed=seed), replace(settings.images, seed=seed))


STUDY = Study(
    ExtractionSettings(),
    extraction_metrics,
    reseeded_extraction,
    {
        "clouds.workers": "changes the time only",
        "clouds.tile_points": "bounds the memory",
        "clouds.seed": "measured as noise",
        "images.seed": "measured as noise",
        "images.max_depth": "the range of the sensor",
        "images.noise.0": "the noise of the sensor",
        "images.noise.1": "the noise of the sensor",
    },
)

if __name__ == "__main__":
    save("sensitivity_extraction", run_study(STUDY, "extraction", kept_file()))
