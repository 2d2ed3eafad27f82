"""Many maps in one heap: ``python -m benchmarks.merging --real FOLDER [--more FOLDER]``.

Three heaps: four sessions of an office with crops of four other maps; 30 submaps of a synthetic campus with 10
unrelated maps and a fifth of the edges corrupted; twelve overlapping crops of each of four real maps. Registrations are
kept in build/merging, so that an interrupted run goes on. The graph is also solved by GTSAM, where it is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import merging_heaps as heaps
from benchmarks.harness import RESULTS, save
from benchmarks.merging_heaps import PlacedMap
from plueckernet.errors import UnitWarning
from plueckernet.estimation.judgement import Status
from plueckernet.evaluation.documents import read_json
from plueckernet.evaluation.provenance import is_current
from plueckernet.geometry import LineSet, Pose
from plueckernet.merging import AlignedGroup, Alignment, align
from plueckernet.merging.exports import to_gtsam
from plueckernet.registration import register
from plueckernet.result import RegistrationResult

KEPT = Path(__file__).parents[1] / "build" / "merging"
MAX_DISTANCE, MAX_ANGLE = 0.3, 1.0  # m and degrees, of a map that is placed
CORRUPTED = 0.2  # of the edges with a pose


class Registrations:
    """Registers pairs, or reads their results if they are kept; corrupts a fraction of those with a pose."""

    def __init__(self, folder: Path, corrupted: float = 0.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.corrupted = folder, corrupted
        self.seconds: list[float] = []
        self.poses = self.wrong = 0

    def __call__(self, pairs: Sequence[tuple[LineSet, LineSet]]) -> Iterator[RegistrationResult]:
        """One after the other."""
        for source, target in pairs:
            path = self.folder / f"{_digest(source)}_{_digest(target)}.json"
            if not path.exists():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UnitWarning)
                    register(source, target).save(path)
            result = RegistrationResult.load(path)
            self.seconds.append(sum(result.timings.values()))
            yield self._corrupted(result, path.stem)

    def _corrupted(self, result: RegistrationResult, key: str) -> RegistrationResult:
        """Another pose, as sure of itself as the right one was."""
        if result.status is Status.FAILED:
            return result
        self.poses += 1
        generator = torch.Generator().manual_seed(int(hashlib.sha256(key.encode()).hexdigest()[:12], 16))
        if float(torch.rand((), generator=generator)) >= self.corrupted:
            return result
        self.wrong += 1
        pose = Pose.random(generator=generator, translation=10.0)
        return replace(result, target_T_source=pose, alternatives=(), status=Status.SUCCESS, confidence=0.99)


def measure(maps: Sequence[PlacedMap], registrations: Registrations) -> dict[str, Any]:
    """Counts of one heap."""
    start = time.perf_counter()
    alignment = align({placed.name: placed.lines for placed in maps}, register_pairs=registrations)
    places = {placed.name: placed.place for placed in maps}
    truth = {placed.name: placed.map_T_place for placed in maps}
    groups = [_group_counts(alignment, group, places, truth) for group in alignment.groups]
    false = [edge for edge in alignment.edges if edge.accepted and not _is_right(alignment, edge, places, truth)]
    return {
        "maps": len(maps),
        "places": len(set(places.values())),
        "pairs": len(maps) * (len(maps) - 1) // 2,
        "registered": len(alignment.edges),
        "accepted": sum(edge.accepted for edge in alignment.edges),
        "accepted_wrong": len(false),
        "corrupted": [registrations.wrong, registrations.poses],
        "crossed_groups": sum(len(group["places"]) > 1 for group in groups),
        "groups": groups,
        "registration_seconds": round(sum(registrations.seconds), 1),
        "graph_seconds": round(time.perf_counter() - start, 1),
        "gtsam": _against_gtsam(alignment),
    }


def _group_counts(
    alignment: Alignment, group: AlignedGroup, places: dict[str, str], truth: dict[str, Pose]
) -> dict[str, Any]:
    """Which places are in a group, and how many of its maps are placed, relative to the map that is best for it."""
    placed = max(
        sum(_is_placed(alignment, group, reference, name, truth) for name in group.maps) for reference in group.maps
    )
    return {"maps": len(group.maps), "places": sorted({places[name] for name in group.maps}), "placed": placed}


def _is_placed(alignment: Alignment, group: AlignedGroup, reference: str, name: str, truth: dict[str, Pose]) -> bool:
    estimated = group.poses[reference].inverse() @ group.poses[name]
    true = truth[reference] @ truth[name].inverse()
    return _agree(estimated, true, alignment, name, MAX_ANGLE, MAX_DISTANCE)


def _agree(estimated: Any, true: Pose, alignment: Alignment, name: str, angle: float, distance: float) -> bool:
    """Two poses of a map, by their angle and by where they put its centre."""
    centre = alignment.centres[name]
    moved = float((estimated @ centre - true @ centre).norm())
    return float(estimated.angle_to(true).rad2deg()) < angle and moved < distance


def _is_right(alignment: Alignment, edge: Any, places: dict[str, str], truth: dict[str, Pose]) -> bool:
    if places[edge.source] != places[edge.target]:
        return False
    pose = Pose.from_matrix(edge.target_T_source)
    true = truth[edge.target] @ truth[edge.source].inverse()
    return _agree(pose, true, alignment, edge.source, 5.0, 0.5)


def _against_gtsam(alignment: Alignment) -> dict[str, float] | None:
    """The same graph solved by GTSAM, without robust weights: cost of our poses over that of GTSAM's."""
    if importlib.util.find_spec("gtsam") is None:
        return None
    import gtsam

    graph, values = to_gtsam(alignment, alignment.groups[0])
    start = time.perf_counter()
    solved = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()
    moved = [
        float(torch.tensor(solved.atPose3(key).translation() - values.atPose3(key).translation()).norm())
        for key in range(len(alignment.groups[0].maps))
    ]
    return {
        "cost_ours": graph.error(values),
        "cost_gtsam": graph.error(solved),
        "largest_difference_m": max(moved),
        "gtsam_seconds": round(time.perf_counter() - start, 3),
    }


def rows(values: dict[str, Any]) -> list[dict[str, str]]:
    """For the table of numbers."""
    result = []
    if "office" in values:
        heap = values["office"]
        result.append(
            _row(
                "Many maps: four sessions of an office and crops of four other maps",
                heap,
                "one group a place, none crossed",
            )
        )
    if "campus" in values:
        heap = values["campus"]
        placed = max(group["placed"] for group in heap["groups"])
        attached = sum(
            any(p.startswith("unrelated") for p in group["places"]) and len(group["places"]) > 1
            for group in heap["groups"]
        )
        result.append(
            {
                "what": "Many maps: 30 submaps of a campus, 10 unrelated, a fifth of the edges corrupted",
                "goal": "at least 28 placed to 0.3 m and 1°, none of the unrelated attached",
                "measured": f"{placed} of 30 placed; {attached} groups with unrelated maps; {heap['corrupted'][0]} of"
                f" {heap['corrupted'][1]} edges corrupted, {heap['accepted_wrong']} wrong ones accepted",
            }
        )
    if "four" in values:
        heap = values["four"]
        result.append(
            _row(
                "Many maps: twelve crops of each of four real maps", heap, "four groups, at least 90 % placed to 0.3 m"
            )
        )
    return result


def _row(what: str, heap: dict[str, Any], goal: str) -> dict[str, str]:
    several = [group for group in heap["groups"] if group["maps"] > 1]
    placed = sum(group["placed"] for group in several)
    single = len(heap["groups"]) - len(several)
    measured = (
        f"{len(several)} groups of {heap['places']} places{f' and {single} maps on their own' if single else ''},"
        f" {heap['crossed_groups']} crossed; {placed} of {heap['maps']} maps placed;"
        f" {heap['registered']} of {heap['pairs']} pairs registered"
    )
    return {"what": what, "goal": goal, "measured": measured}


def _digest(lines: LineSet) -> str:
    ends = torch.empty(0) if lines.endpoints is None else lines.endpoints
    return hashlib.sha256(ends.numpy().tobytes()).hexdigest()[:24]


def main() -> None:
    """Measure the heaps that are asked for and keep the others, if this code measured them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heaps", nargs="*", default=["office", "campus", "four"])
    parser.add_argument(
        "--real", type=Path, required=True, help="folder with lidar_lines/, line2plane/, line3dpp/ and bim/"
    )
    parser.add_argument("--more", type=Path, required=True, help="folder with icl_office/")
    options = parser.parse_args()
    torch.set_num_threads(1)
    values = {}
    earlier = read_json(RESULTS / "merging.json") if (RESULTS / "merging.json").exists() else {}
    if earlier and is_current(earlier):  # heaps of other code would pass for those of this
        values = {key: value for key, value in earlier.items() if key in ("office", "campus", "four")}
    for name in options.heaps:
        maps = {
            "office": lambda: [*heaps.offices(options.more), *heaps.real_crops(options.real, heaps.OTHER_MAPS, 3, 100)],
            "campus": lambda: [*heaps.campus_maps(), *heaps.unrelated_maps(10)],
            "four": lambda: heaps.real_crops(options.real, heaps.FOUR_MAPS, 12, 200),
        }[name]()
        registrations = Registrations(KEPT, CORRUPTED if name == "campus" else 0.0)
        values[name] = measure(maps, registrations)
        print(name, values[name], flush=True)
        save("merging", {**values, "table": rows(values)}, weights=("invariant",))


if __name__ == "__main__":
    main()
