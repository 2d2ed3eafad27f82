"""Which settings matter: each is varied by -50 % and +50 %, one at a time.

``python -m benchmarks.sensitivity extraction`` writes ``results/sensitivity_extraction.json``.

A setting matters if one of its variations changes one metric by more than `MIN_CHANGE` and by more than `NOISE_FACTOR`
times the largest change of this metric among the seeds of the default settings. It does not matter if no metric changes
by more than `MIN_CHANGE`. Otherwise its effect is within noise: the study cannot tell.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.extraction import SENSORS, seen
from benchmarks.harness import progress, save
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
from plueckernet.errors import InputError
from plueckernet.extraction import Intrinsics, PointCloudSettings, RgbdSettings, extract_lines, extract_rgbd
from plueckernet.extraction.tiles import TileSettings
from plueckernet.extraction.visibility import VisibilitySettings

FACTORS = (0.5, 1.5)
SEEDS = 5  # of the default settings, which show the change that chance makes
MIN_CHANGE = 0.01
NOISE_FACTOR = 2.0
WORKERS = 2  # processes

Metrics = dict[str, float]


@dataclass(frozen=True)
class Study:
    """Settings whose fields are varied, and a measurement of their effect.

    Attributes:
        settings: A frozen dataclass, which may contain others.
        measure: Metrics of settings, each in [0, 1].
        reseeded: The settings with another seed.
        skipped: Dotted names of fields that are not varied, with the reason.
    """

    settings: Any
    measure: Callable[[Any], Metrics]
    reseeded: Callable[[Any, int], Any]
    skipped: dict[str, str]


def variations(settings: Any, factors: tuple[float, ...] = FACTORS) -> Iterator[tuple[str, float, Any]]:
    """Dotted name, value and settings for each numeric field times each factor.

    Integers are rounded. A value above 1 of a field that has to be a fraction becomes 1. Other values that the settings
    do not allow are left out.
    """
    for name, value in ((each.name, getattr(settings, each.name)) for each in fields(settings)):
        if is_dataclass(value):
            for inner, number, changed in variations(value, factors):
                yield f"{name}.{inner}", number, replace(settings, **{name: changed})
        elif isinstance(value, tuple):
            for place, number in enumerate(value):
                for varied in _values(number, factors):
                    changed = (*value[:place], varied, *value[place + 1 :])
                    yield from _allowed(settings, name, f"{name}.{place}", varied, changed)
        else:
            for varied in _values(value, factors):
                yield from _allowed(settings, name, name, varied, varied)


def _values(value: object, factors: tuple[float, ...]) -> list[int | float]:
    """The number times the factors; nothing for what is no number, or where rounding changes nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    scaled = [round(value * factor) if isinstance(value, int) else value * factor for factor in factors]
    return [number for number in scaled if number != value]


def _allowed(settings: Any, name: str, label: str, varied: float, value: Any) -> Iterator[tuple[str, float, Any]]:
    try:
        yield label, varied, replace(settings, **{name: value})
    except InputError:
        if isinstance(value, float) and value > 1:
            yield label, 1.0, replace(settings, **{name: 1.0})


def main(name: str) -> None:
    """Run a study and write ``results/sensitivity_NAME.json``."""
    study = STUDIES[name]
    varied = [each for each in variations(study.settings) if each[0] not in study.skipped]
    reseeded = [study.reseeded(study.settings, seed) for seed in range(1, SEEDS)]
    tasks = [study.settings, *reseeded, *(settings for _, _, settings in varied)]
    with ProcessPoolExecutor(WORKERS) as pool:
        results = list(progress(pool.map(study.measure, tasks), name, len(tasks)))
    default = results[0]
    noise = {metric: max(abs(result[metric] - default[metric]) for result in results[1:SEEDS]) for metric in default}
    rows: dict[str, dict[str, Any]] = {}
    for (label, value, _), result in zip(varied, results[SEEDS:], strict=True):
        row = rows.setdefault(label, {"default": _value(study.settings, label), "values": [], "changes": []})
        row["values"].append(value)
        row["changes"].append({metric: round(result[metric] - default[metric], 4) for metric in default})
    judged = {label: row | _verdict(row["changes"], noise) for label, row in rows.items()}
    rule = {"min_change": MIN_CHANGE, "noise_factor": NOISE_FACTOR, "seeds": SEEDS}
    save(
        f"sensitivity_{name}",
        {"rule": rule, "default": default, "noise": noise, "fields": judged, "skipped": study.skipped},
    )
    print("\n".join(table(judged)))


def _value(settings: Any, label: str) -> float:
    """The value of a field by its dotted name; a number names an element of a tuple."""
    for name in label.split("."):
        settings = settings[int(name)] if name.isdigit() else getattr(settings, name)
    return float(settings)


def _verdict(changes: list[Metrics], noise: Metrics) -> dict[str, Any]:
    """Whether a setting matters, and the metric that changes most relative to its limit."""
    limits = {metric: max(MIN_CHANGE, NOISE_FACTOR * value) for metric, value in noise.items()}
    ratios = {metric: max(abs(change[metric]) / limits[metric] for change in changes) for metric in noise}
    most = max(ratios, key=lambda metric: ratios[metric])
    largest = max((change[most] for change in changes), key=abs)
    resolved = max(abs(value) for change in changes for value in change.values()) <= MIN_CHANGE
    verdict = "matters" if ratios[most] > 1 else "does not matter" if resolved else "within noise"
    return {"verdict": verdict, "most": most, "largest_change": largest, "ratio_to_limit": round(ratios[most], 2)}


def table(rows: dict[str, dict[str, Any]]) -> list[str]:
    """The result as Markdown, the settings that matter most first."""
    lines = ["| setting | default | tried | largest change | verdict |", "|---|---|---|---|---|"]
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["ratio_to_limit"]):
        values = ", ".join(f"{value:g}" for value in row["values"])
        change = f"{100 * row['largest_change']:+.1f} points, {row['most']}"
        lines.append(f"| `{name}` | {row['default']:g} | {values} | {change} | {row['verdict']} |")
    return lines


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


STUDIES: dict[str, Study] = {
    "extraction": Study(
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
    ),
}

if __name__ == "__main__":
    for study_name in sys.argv[1:] or STUDIES:
        main(study_name)
