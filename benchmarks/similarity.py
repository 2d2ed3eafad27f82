"""Unknown scale and known vertical: ``python -m benchmarks.similarity [--pairs N] [--data FOLDER] [--cells NAME...]``.

Scales are log-uniform in [0.01, 100]. A pose is right below 5° and 0.5 m, and a scale within 5 %; the scale error is
compared with the maximum-likelihood bound, which knows matches and noise. Crops, turned about z for the vertical, and
the pair of unknown scale are real and do not come with the package: ``--data`` names the folder that has ``crops`` and
``more_lines/dtu24``. Time is CPU time of both searches in one run. Rows are kept in build/similarity, so that an
interrupted run goes on; ``--pairs 540`` is the size of the other synthetic tables.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch

from benchmarks.harness import RESULTS, progress, save
from plueckernet import LineSet, Pose, RegistrationResult, Similarity, register
from plueckernet.data.protocols import AnyProtocol, LinePair
from plueckernet.estimation.similarity.joint import crossings, solved_step, with_scale_column
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.documents import TableRow
from plueckernet.evaluation.oracle import anchored, noise_centres
from plueckernet.evaluation.outcomes import MIN_COMMON, is_right
from plueckernet.evaluation.protocols import Unrelated
from plueckernet.evaluation.rates import Rate
from plueckernet.evaluation.synthetic import FIRST_SEED, UNRELATED_SEED
from plueckernet.geometry.pose import rotation_exp
from plueckernet.geometry.residuals import NoiseModel, line_residuals, variances, whitened

Row = dict[str, Any]
ROWS = RESULTS.parents[1] / "build" / "similarity"
PAIRS = 60
KEEP = AnyProtocol(keep=0.7)
NOISE = NoiseModel(0.05, math.radians(2.0) / math.sqrt(3.0))  # of `KEEP`
DTU24 = Similarity(
    torch.tensor(223.5).double(), torch.eye(3).double(), torch.tensor([43.4, -18.7, 614.0], dtype=torch.float64)
)
MOVES = 10
MAX_SCALE_ERROR = 0.05
UNIT = 1e-4  # m, of the coordinates of the crops


def random_scale(generator: torch.Generator) -> float:
    """Log-uniform in [0.01, 100]."""
    return 100 ** (2 * float(torch.rand((), generator=generator, dtype=torch.float64)) - 1)


def scaled(pair: LinePair, seed: int) -> tuple[LineSet, Similarity]:
    """The source in a unit of its own, and the true similarity."""
    scale = random_scale(torch.Generator().manual_seed(seed))
    truth = Similarity.from_pose(pair.target_T_source, scale)
    return Similarity.from_pose(Pose.identity(), 1 / scale) @ pair.source, truth


def compared(result: RegistrationResult, truth: Similarity | Pose, source: LineSet) -> Row:
    """Error of the best pose at the centre of the source, whether it was accepted, and the error of the scale."""
    candidates = [result.target_T_source, *(other.target_T_source for other in result.alternatives)]
    best = next((pose for pose in candidates if pose is not None), None)
    row: Row = {"accepted": bool(result.ok), "confidence": result.confidence, "degrees": 180.0, "metres": math.inf}
    if best is None:
        return row | {"metres": None, "right": False, "log_scale": None}
    centre = source.centre()[None]
    turn = Pose(best.rotation, best.translation).angle_to(Pose(truth.rotation, truth.translation))
    true_scale = float(truth.scale) if isinstance(truth, Similarity) else 1.0
    row |= {"degrees": math.degrees(float(turn)), "metres": float((best.act(centre) - truth.act(centre)).norm())}
    row["log_scale"] = math.log(result.scale / true_scale)
    row["right"] = is_right((row["degrees"], row["metres"])) and abs(row["log_scale"]) < MAX_SCALE_ERROR
    if result.covariance is not None and len(result.covariance) == 7:
        row["sigma"] = math.sqrt(float(result.covariance[6, 6]))
    return row


def bound(pair: LinePair) -> float | None:
    """The error of the logarithm of the scale, of maximum likelihood on the true matches with the true noise."""
    (source_centre, target_centre), truth = noise_centres(pair), pair.target_T_source
    source = anchored(pair.source[pair.matches[:, 0]], source_centre)
    target = anchored(pair.target[pair.matches[:, 1]], target_centre)
    pose, log_scale = Pose(truth.rotation, truth.act(source_centre[None])[0] - target_centre), 0.0
    sigma, weight = (source.sigmas(NOISE), target.sigmas(NOISE)), torch.ones(len(source)).double()
    for _ in range(12):
        residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
        known = variances(residuals, *sigma)
        value, jacobian = whitened(residuals, *known)
        jacobian = with_scale_column(residuals, jacobian, crossings(pose, residuals, source, target), known[1])
        xi = solved_step(value, jacobian, weight)
        step = Similarity.exp(xi)
        moved = step @ Similarity.from_pose(pose)
        grow = Similarity.from_pose(Pose.identity(), float(moved.scale))
        source, pose = anchored(grow @ source.lines, torch.zeros(3).double()), moved.pose
        log_scale += float(xi[6])
    return log_scale if math.isfinite(log_scale) else None


def synthetic(kind: str, index: int) -> Row:
    """One pair of which 70 % of the lines are kept, at a random scale."""
    pair = StandIn(kind, FIRST_SEED, FIRST_SEED).pair(KEEP, index)
    source, truth = scaled(pair, index)
    row = compared(register(source, pair.target, scale="unknown"), truth, source)
    return row | {"common": len(pair.matches), "bound": bound(pair)}


def unrelated(index: int) -> Row:
    """Maps of two places."""
    pair = StandIn(("indoor", "outdoor")[index % 2], UNRELATED_SEED, UNRELATED_SEED).pair(Unrelated(), index)
    source, _ = scaled(pair, index)
    result = register(source, pair.target, scale="unknown")
    return {"accepted": bool(result.ok), "confidence": result.confidence}


def crop_pairs(data: Path, low: float) -> list[LinePair]:
    """The real crops of one band of lines in common."""
    with np.load(data / "crops" / "pairs.npz") as file:
        arrays = dict(file)
    places = {side: np.concatenate([[0], arrays[f"{side}_count"].cumsum()]) for side in ("source", "target")}

    def lines(side: str, row: int) -> LineSet:
        ends = arrays[side][places[side][row] : places[side][row + 1]]
        return LineSet.from_segments(torch.from_numpy(ends * UNIT).double())

    rows = np.flatnonzero(np.isclose(arrays["share_low"], low))
    none = torch.zeros(0, 2, dtype=torch.long)
    poses = [Pose.from_matrix(torch.from_numpy(arrays["target_T_source"][row])) for row in rows]
    return [
        LinePair(lines("source", int(row)), lines("target", int(row)), pose, none)
        for row, pose in zip(rows, poses, strict=True)
    ]


def crop(pairs: Sequence[LinePair], index: int) -> Row:
    """A crop at a random scale."""
    source, truth = scaled(pairs[index], index)
    return compared(register(source, pairs[index].target, scale="unknown"), truth, source)


def upright(pairs: Sequence[LinePair], index: int) -> Row:
    """A crop turned about z, registered with any rotation and with turns about z only."""
    pair, generator = pairs[index], torch.Generator().manual_seed(index)
    angle = math.tau * torch.rand((), generator=generator, dtype=torch.float64)
    shift = 20 * torch.rand(3, generator=generator, dtype=torch.float64) - 10
    truth = Pose(rotation_exp(angle * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)), shift)
    target = truth @ (pair.target_T_source.inverse() @ pair.target)
    row: Row = {}
    for name, up in (("free", None), ("upright", (0, 0, 1))):
        start = time.process_time()
        result = register(pair.source, target, up=up)
        seconds = time.process_time() - start
        row |= {f"{name}_{key}": value for key, value in compared(result, truth, pair.source).items()}
        row[f"{name}_seconds"] = seconds
    return row


def dtu24(data: Path, index: int) -> Row:
    """The wireframe, moved at random, against the Line3D++ map."""
    folder = data / "more_lines" / "dtu24"
    wireframe, reference = (_lines(folder / f"neat_dtu24_{name}.npz") for name in ("neat", "line3dpp"))
    generator = torch.Generator().manual_seed(index)
    motion = Similarity.from_pose(Pose.random(generator=generator, translation=5.0), random_scale(generator))
    source, truth = motion @ wireframe, DTU24 @ motion.inverse()
    row = compared(register(source, reference, scale="unknown"), truth, source)
    row["right"] = row["degrees"] < 1 and row["log_scale"] is not None and abs(row["log_scale"]) < 0.015
    return row


def _lines(path: Path) -> LineSet:
    with np.load(path) as file:
        arrays = list(file.values())
    ends = max(arrays, key=lambda array: array.size)
    return LineSet.from_segments(torch.from_numpy(ends.reshape(-1, 2, 3)).double())


def kept_rows(name: str, count: int, measure: Callable[[int], Row]) -> list[Row]:
    """The rows of one cell; those of an earlier run are not measured again, and a count of 0 means all of these."""
    path = ROWS / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    with path.open("a") as stream:
        for index in progress(range(len(known), count), name, max(0, count - len(known))):
            known.append(measure(index))
            stream.write(json.dumps(known[-1]) + "\n")
            stream.flush()
    return known[: count or None]


def cells(data: Path | None, pairs: int) -> Iterator[tuple[str, int, Callable[[int], Row]]]:
    """Name, number of rows and how to measure one, for each cell."""
    for kind in ("indoor", "outdoor"):
        yield kind, pairs, lambda index, kind=kind: synthetic(kind, index)  # type: ignore[misc]
    if data is not None:
        easy, hard = crop_pairs(data, 0.5), crop_pairs(data, 0.1)
        yield "crops", min(pairs, len(easy)), lambda index: crop(easy, index)
        yield "upright", min(pairs, len(hard)), lambda index: upright(hard, index)
        yield "dtu24", min(pairs, MOVES), lambda index: dtu24(data, index)
    yield "unrelated", pairs, unrelated


def table(measured: Mapping[str, list[Row]]) -> list[TableRow]:
    """What the cells say, with their counts."""
    rows: list[TableRow] = []
    for name, goal in (("indoor", "98 %"), ("outdoor", "94 %"), ("crops", "92 %")):
        counted = [row for row in measured.get(name, []) if row.get("common", MIN_COMMON) >= MIN_COMMON]
        if counted:
            what = f"unknown scale, {'real crops, 0.5 to 0.8 in common' if name == 'crops' else f'{name}, keep 70 %'}"
            called = Rate.of([row["right"] and row["accepted"] for row in counted])
            wrong = sum(row["accepted"] and not row["right"] for row in counted)
            rows.append(TableRow(f"{what}: right and called", f"{called}; {wrong} wrong and called", f"≥ {goal}"))
        right = [row for row in counted if row["right"] and row.get("bound") is not None]
        if right:
            ratio = median(abs(row["log_scale"]) for row in right) / median(abs(row["bound"]) for row in right)
            rows.append(TableRow(f"unknown scale, {name}: median scale error over its bound", f"{ratio:.2f}", "≤ 1.15"))
    if measured.get("unrelated"):
        called = Rate.of([row["accepted"] for row in measured["unrelated"]])
        rows.append(TableRow("unknown scale, maps of different places: called a success", str(called), ""))
    if measured.get("dtu24"):
        called = Rate.of([row["right"] and row["accepted"] for row in measured["dtu24"]])
        rows.append(TableRow("dtu24, moved at random: within 1.5 % and 1° and called", str(called), "10 of 10"))
    return rows + _upright_rows(measured.get("upright", []))


def _upright_rows(rows: Sequence[Row]) -> list[TableRow]:
    if not rows:
        return []
    free, known = (Rate.of([row[f"{name}_right"] for row in rows]) for name in ("free", "upright"))
    called = [
        Rate.of([row[f"{name}_right"] and row[f"{name}_accepted"] for row in rows]) for name in ("free", "upright")
    ]
    wrong = sum(row["upright_accepted"] and not row["upright_right"] for row in rows)
    ratio = fmean(row["upright_seconds"] for row in rows) / fmean(row["free_seconds"] for row in rows)
    what = "crops, 0.1 to 0.2 in common, vertical known"
    return [
        TableRow(f"{what}: right", f"{known}, with any rotation {free}", "8 points more"),
        TableRow(
            f"{what}: right and called", f"{called[1]}, with any rotation {called[0]}; {wrong} wrong and called", ""
        ),
        TableRow(f"{what}: mean time over that with any rotation", f"{ratio:.2f}", "≤ 0.5"),
    ]


def main() -> None:
    """Write ``results/similarity.json``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of each cell; 0: what earlier runs have kept")
    parser.add_argument("--data", type=Path, help="folder with crops/ and more_lines/dtu24/")
    parser.add_argument("--cells", nargs="*", help="names of cells, to measure only these")
    options = parser.parse_args()
    torch.set_num_threads(1)
    measured = {
        name: kept_rows(name, count, measure)
        for name, count, measure in cells(options.data, options.pairs)
        if not options.cells or name in options.cells
    }
    counts = {name: len(rows) for name, rows in measured.items()}
    save("similarity", {"pairs": counts, "table": table(measured)}, weights=["invariant"])


if __name__ == "__main__":
    main()
