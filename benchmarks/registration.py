"""register() without weights: success, accuracy, honesty, units; with and without: unrelated maps, and real maps.

``python -m benchmarks.registration`` writes ``results/registration.json``. ``--real FOLDER`` adds Line3D++ and CityJSON
maps, which do not come with the package.
"""

from __future__ import annotations

import argparse
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import pose_error, progress, save, succeeded
from plueckernet import Status, read_lines, register
from plueckernet.data.protocols import AnyProtocol, PairProtocol, ScanProtocol, sample_pair, unrelated_pair
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, Pose, Similarity

PAIRS = 200  # where a number is asked for
FEWER = 40  # elsewhere
FIRST_SEED = 6_000_000  # far from those that the confidence was fitted on
CELLS: dict[str, PairProtocol] = {
    "keep 70 %": AnyProtocol(keep=0.7),
    "keep 50 %": AnyProtocol(keep=0.5),
    "keep 30 %": AnyProtocol(keep=0.3),
    "scan, 60 % in common": ScanProtocol(overlap=0.6),
    "scan, 30 % in common": ScanProtocol(overlap=0.3),
}
MATCHER = "descriptors"
MATCHERS = (MATCHER, "invariant")
Job = tuple[str, str, int]


def one_pair(job: Job) -> dict[str, Any]:
    """Register one synthetic pair and compare with the truth."""
    torch.set_num_threads(1)
    kind, cell, seed = job
    pair = sample_pair(make_scene(kind, seed), CELLS[cell], seed)
    result = register(pair.source, pair.target, matcher=MATCHER)
    error = pose_error(result.target_T_source, pair.target_T_source)
    found: dict[str, Any] = {"status": str(result.status), "error": error, "common": len(pair.matches)}
    if result.target_T_source is not None and result.covariance is not None and succeeded(error):
        xi = (pair.target_T_source @ result.target_T_source.inverse()).log()
        found["nees"] = float(xi @ torch.linalg.solve(result.covariance, xi))
    return found


def one_unrelated(job: tuple[str, str, int]) -> str:
    """The status of a pair that has nothing in common."""
    torch.set_num_threads(1)
    matcher, kind, seed = job
    protocol = AnyProtocol() if seed % 2 else ScanProtocol()
    source, target = unrelated_pair(make_scene(kind, seed), make_scene(kind, seed + 500_000), protocol, seed)
    return str(register(source, target, matcher=matcher).status)


def synthetic(pool: ProcessPoolExecutor, asked: int, fewer: int) -> list[dict[str, Any]]:
    """Success and errors for each kind of scene and each protocol; what is not called a success counts as failed."""
    rows = []
    for kind in ("indoor", "outdoor"):
        for cell in CELLS:
            pairs = asked if cell == "keep 70 %" else fewer
            jobs = [(kind, cell, FIRST_SEED + seed) for seed in range(pairs)]
            found = list(progress(pool.map(one_pair, jobs, chunksize=5), f"{kind}, {cell}", pairs))
            rows.append({"scenes": kind, "protocol": cell, "pairs": pairs, **_summary(found)})
    return rows


def _summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    right = [one for one in found if one["status"] == Status.SUCCESS and succeeded(one["error"])]
    enough = [one for one in found if one["common"] >= 10]
    called = [one for one in found if one["status"] == Status.SUCCESS]
    return {
        "success": len(right) / len(found),
        "success_with_ten_lines_in_common": sum(one in right for one in enough) / max(1, len(enough)),
        "right_pose_whatever_the_status": sum(succeeded(one["error"]) for one in found) / len(found),
        "called_success_but_wrong": len(called) - len(right),
        "rotation_median": statistics.median(one["error"][0] for one in right),
        "translation_median": statistics.median(one["error"][1] for one in right),
        "normalised_squared_error": statistics.mean(one["nees"] for one in right),
    }


def unrelated(pool: ProcessPoolExecutor, pairs: int, matcher: str) -> dict[str, Any]:
    """How often maps of different places are called registered."""
    seeds = range(FIRST_SEED + 100_000, FIRST_SEED + 100_000 + pairs // 2)
    jobs = [(matcher, kind, seed) for kind in ("indoor", "outdoor") for seed in seeds]
    statuses = list(progress(pool.map(one_unrelated, jobs, chunksize=5), f"unrelated, {matcher}", len(jobs)))
    return {"pairs": len(statuses), **{str(status): statuses.count(str(status)) for status in Status}}


def units() -> dict[str, float]:
    """Largest change of the answer when both maps are scaled or moved far away, in degrees and metres."""
    pair = sample_pair(make_scene("indoor", 61_000), ScanProtocol(overlap=0.6), 61_000)
    plain = register(pair.source, pair.target, matcher=MATCHER).target_T_source
    changes: dict[str, float] = {}
    for factor in (0.001, 1000.0):
        grow = Similarity.from_pose(Pose.identity(), factor)
        found = register(grow @ pair.source, grow @ pair.target, matcher=MATCHER).target_T_source
        shrunk = None if found is None else Pose(found.rotation, found.translation / factor)
        changes[f"times {factor:g}"] = max(pose_error(shrunk, plain)) if plain else float("inf")
    far = torch.full((3,), 1e6, dtype=torch.float64)
    moved = register(pair.source.shifted(-far), pair.target.shifted(-far), matcher=MATCHER).target_T_source
    if moved is not None and plain is not None:
        centre = pair.source.centre()[None]
        there = (moved.act(centre + far) - far - plain.act(centre)).norm()
        changes["moved by 1e6"] = max(float(moved.angle_to(plain).rad2deg()), float(there))
    return changes


def real_maps(folder: Path, matcher: str) -> dict[str, Any]:
    """Line3D++ versions of one reconstruction under ten poses; a city against itself in another frame."""
    first, second = (read_lines(next(folder.glob(f"line3dpp/{day}*.txt"))) for day in ("2016-01-22", "2016-06-29"))
    extent = float((second.midpoints().amax(0) - second.midpoints().amin(0)).norm())
    trials = []
    for seed in progress(range(10), f"Line3D++, {matcher}"):
        pose = Pose.random(generator=torch.Generator().manual_seed(seed), translation=10.0)
        trials.append(_at_centre(register(first, pose @ second, matcher=matcher).target_T_source, pose, second))
    within = sum(turn < 1 and shift < 0.01 * extent for turn, shift in trials)
    city = read_lines(next(folder.glob("cityjson/rotterdam*.json")))
    centre = city.centre()
    turn = Pose.random(generator=torch.Generator().manual_seed(1), translation=100.0)
    pose = Pose(turn.rotation, centre - turn.rotation @ centre + turn.translation)
    moved = _at_centre(register(city, pose @ city, matcher=matcher).target_T_source, pose, city)
    return {"line3dpp_within": within, "line3dpp": trials, "line3dpp_extent": extent, "cityjson": moved}


def _at_centre(found: Pose | None, truth: Pose, lines: LineSet) -> tuple[float, float]:
    """Rotation error in degrees and displacement of the middle of the map."""
    if found is None:
        return float("inf"), float("inf")
    centre = lines.centre()[None]
    return float(found.angle_to(truth).rad2deg()), float((found.act(centre) - truth.act(centre)).norm())


def table(values: dict[str, Any]) -> list[dict[str, str]]:
    """The rows of the README."""
    by = {(row["scenes"], row["protocol"]): row for row in values["synthetic"]}
    asked = {("indoor", "keep 70 %"): "≥ 97 %", ("outdoor", "keep 70 %"): "≥ 90 %"}
    rows = [
        {"what": f"registered without weights, {kind}, {cell}, {row['pairs']} pairs",
         "asked": asked.get((kind, cell), ""),
         "measured": f"{row['success']:.1%}, median {row['rotation_median']:.2f}° / {row['translation_median']:.3f} m"}
        for (kind, cell), row in by.items()
    ]  # fmt: skip
    wrong = sum(row["called_success_but_wrong"] for row in values["synthetic"])
    total = sum(row["pairs"] for row in values["synthetic"])
    nees = " / ".join(f"{by[kind, 'keep 70 %']['normalised_squared_error']:.1f}" for kind in ("indoor", "outdoor"))
    rows += [
        {"what": "of all these, called a success with a wrong pose", "measured": f"{wrong} of {total}"},
        {"what": "unrelated maps called a success, without / with weights", "asked": "≤ 1 %",
         "measured": " / ".join(f"{one['success']} of {one['pairs']}" for one in values["unrelated"].values())},
        {"what": "normalised squared error of register(), noise estimated, keep 70 %, indoor / outdoor",
         "asked": "5.4 to 6.6", "measured": nees},
        {"what": "change of the answer for maps times 0.001, times 1000, moved by 1e6 (degrees, metres)",
         "asked": "none",
         "measured": " / ".join(f"{value:.0e}" for value in values["units"].values())},
    ]  # fmt: skip
    if "real" in values:
        real = values["real"].values()
        rows += [
            {"what": "Line3D++ versions of one reconstruction, ten poses, within 1° and 1 % of extent, without / with",
             "asked": "10 of 10", "measured": " / ".join(f"{one['line3dpp_within']} of 10" for one in real)},
            {"what": "CityJSON in national-grid coordinates against its moved self, without / with", "asked": "1 mm",
             "measured": " / ".join(f"{1000 * one['cityjson'][1]:.1g} mm" for one in real)},
        ]  # fmt: skip
    return rows


def main() -> None:
    """Run, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="where a number is asked for")
    parser.add_argument("--fewer", type=int, default=FEWER, help="pairs elsewhere")
    parser.add_argument("--real", type=Path, help="folder with line3dpp/ and cityjson/")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with ProcessPoolExecutor() as pool:
        values: dict[str, Any] = {
            "synthetic": synthetic(pool, options.pairs, options.fewer),
            "unrelated": {matcher: unrelated(pool, options.pairs, matcher) for matcher in MATCHERS},
        }
    values["units"] = units()
    if options.real:
        values["real"] = {matcher: real_maps(options.real, matcher) for matcher in MATCHERS}
    rows = table(values)
    save("registration", {"table": rows, **values})
    for row in rows:
        print(f"{row['what']}: {row['measured']}")


if __name__ == "__main__":
    main()
