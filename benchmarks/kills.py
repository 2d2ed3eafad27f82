"""Kill commands at random moments and start them again: ``python -m benchmarks.kills register=60 train=30``.

Each command first runs undisturbed, as the reference. Then, for each kill, it starts anew, is killed by `SIGKILL` at a
random moment of its usual duration, and is started again until its end. After a kill every file with a final name must
be whole; after the end the files must equal the reference, and no temporary file may be left. The commands run in forks
of this process, which has imported everything, so that the moments fall into their work and not into imports. Of
`batch` the driver is killed or, as often, a worker, after which the driver has to complete the batch by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from benchmarks.harness import RESULTS, save
from plueckernet.cli import COMMANDS as KNOWN
from plueckernet.cli import main as plueckernet
from plueckernet.errors import PlueckernetError
from plueckernet.io import read_lines, write_lines
from plueckernet.training.checkpoint import load_checkpoint

_DEMO = Path(__file__).parents[1] / "src" / "plueckernet" / "demo"
# What differs between two runs without a kill: how long it took, and when.
_TIMES = frozenset(("timings", "seconds", "milliseconds", "provenance", "time", "median_seconds", "timing"))
_TOLERANCE = 1e-8
_TINY = (
    "model.layers=2", "model.edge_channels=8", "data.sizes=[24]", "data.pool=4", "data.stored=64", "train.batch=4",
    "train.log_every=1", "train.steps=5", "train.checkpoint_minutes=0", "validation.pairs=1", "validation.every=0",
)  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command line for a folder of inputs and a folder of outputs, and the outputs that must be equal."""

    arguments: Callable[[Path, Path], list[str]]
    compared: tuple[str, ...]
    has_workers: bool = False  # of which any may be killed, too


def _train(_: Path, out: Path) -> list[str]:
    begun = any((out / name / "state.json").exists() for name in ("last", "last.old"))
    settings = [word for setting in _TINY for word in ("--set", setting)]
    return ["train", "tiny", "--out", str(out), "--quiet", *settings, *(["--resume"] if begun else [])]


def _prepare(inputs: Path, out: Path) -> list[str]:
    return ["prepare", "structured3d", str(inputs / "houses"), "--out", str(out)]


COMMANDS = {
    "register": Command(
        lambda _, out: [
            "register", str(_DEMO / "house_monday.obj"), str(_DEMO / "house_friday.txt"), "--quiet",
            "--json", str(out / "result.json"), "--aligned", str(out / "aligned.obj"),
        ],
        ("result.json", "aligned.obj"),
    ),
    "extract": Command(
        lambda inputs, out: [
            "extract", str(inputs / "cloud.npy"), "--out", str(out / "lines.obj"), "--quality", str(out / "lines.csv"),
            "--quiet",
        ],
        ("lines.obj", "lines.csv"),
    ),
    "prepare": Command(_prepare, ("index.json", "*/*.npz")),
    "reproduce": Command(
        lambda _, out: ["reproduce", "wrong-matches", "--out", str(out), "--limit", "1"],
        ("predictions/**/config.json", "predictions/**/*.jsonl"),
    ),
    "train": Command(_train, ("last/*", "best/*.safetensors")),
    "batch": Command(
        lambda inputs, out: [
            "batch", str(inputs / "pairs.csv"), "--out", str(out), "--workers", "2", "--matcher", "descriptors",
        ],
        ("results/*.parquet",),
        has_workers=True,
    ),
    "align": Command(
        lambda inputs, out: [
            "align", *map(str, sorted((inputs / "maps").glob("*.obj"))[:3]), "--out", str(out), "--no-report",
        ],
        ("align.json",),
    ),
}  # fmt: skip
_NAMES = {command.__name__ for command in KNOWN}
COMMANDS = {name: command for name, command in COMMANDS.items() if name in _NAMES}


def make_inputs(folder: Path) -> None:
    """A cloud with edges, houses as Structured3D publishes them, and small maps in pairs."""
    generator = np.random.default_rng(0)
    points = generator.uniform(-1, 1, (30_000, 3)) * [4, 3, 1.5]
    axis, side = generator.integers(0, 3, len(points)), generator.integers(0, 2, len(points))
    points[np.arange(len(points)), axis] = np.where(side == 1, 1, -1) * np.array([4, 3, 1.5])[axis]
    np.save(folder / "cloud.npy", points)
    for number in range(60):
        scene = folder / "houses" / f"scene_{number:05d}"
        scene.mkdir(parents=True)
        junctions = [{"coordinate": point} for point in generator.uniform(0, 9000, (400, 3)).tolist()]
        matrix = np.kron(np.eye(200, dtype=int), [1, 1]).tolist()
        (scene / "annotation_3d.json").write_text(json.dumps({"junctions": junctions, "lineJunctionMatrix": matrix}))

    house = read_lines(_DEMO / "house_monday.obj")
    (folder / "maps").mkdir()
    for number in range(12):
        rows = torch.randperm(len(house), generator=torch.Generator().manual_seed(number))[:60]
        write_lines(folder / "maps" / f"{number:02d}.obj", house[rows].replaced(ids=None))
    pairs = [f"maps/{number:02d}.obj,maps/{(number + 1) % 12:02d}.obj" for number in range(12)]
    (folder / "pairs.csv").write_text("\n".join(["source,target", *pairs, "maps/00.obj,missing.obj"]))


def run(arguments: list[str], seconds: float = float("inf"), chosen: random.Random | None = None) -> int | None:
    """The exit code of a command in a fork; None if it, or a worker ``chosen`` at random, was killed then."""
    child = os.fork()
    if child == 0:
        code = 70
        with contextlib.suppress(BaseException):
            sys.modules["__main__"] = ModuleType("__main__")  # workers would import it, with all that it imports
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            try:
                plueckernet(arguments)
            except SystemExit as end:
                code = int(end.code or 0)
        os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    victim = child
    if chosen is not None and chosen.random() < 0.5:
        victim = chosen.choice(_workers(child) or [child])
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _workers(driver: int) -> list[int]:
    """The processes that a driver has started, but not the one by which Python tracks their resources."""
    text = Path(f"/proc/{driver}/task/{driver}/children").read_text()
    names = {int(word): Path(f"/proc/{word}/cmdline").read_bytes() for word in text.split()}
    return [process for process, name in names.items() if b"spawn_main" in name]


def content(out: Path, patterns: tuple[str, ...]) -> dict[str, Any]:
    """The compared outputs without what differs from run to run; unreadable ones raise."""
    files = sorted({path for pattern in patterns for path in out.glob(pattern) if path.is_file()})
    tables = [path for path in files if path.suffix == ".parquet"]
    if tables:  # which rows are in which file depends on the moment
        return _rows(tables)
    return {str(path.relative_to(out)): _comparable(path) for path in files if not path.name.endswith(".part")}


def _rows(tables: list[Path]) -> dict[str, Any]:
    """The rows of all tables by their number; a number that is there twice raises."""
    import pyarrow.parquet

    rows: dict[str, Any] = {}
    for path in tables:
        for row in pyarrow.parquet.ParquetFile(path).read().to_pylist():
            if str(row["number"]) in rows:
                raise ValueError(f"pair {row['number']} is there twice")
            document = row.pop("document")
            rows[str(row["number"])] = _timeless({**row, "result": json.loads(document) if document else None})
    return rows


def _comparable(path: Path) -> Any:
    if path.suffix == ".json":
        return _timeless(json.loads(path.read_text()))
    if path.suffix == ".jsonl":
        return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    return path.read_bytes()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(entry) for key, entry in value.items() if key not in _TIMES}
    return [_timeless(entry) for entry in value] if isinstance(value, list) else value


def equal(value: Any, other: Any) -> bool:
    """Whether two outputs are equal; numbers up to what two runs without a kill differ by.

    The baseline of the paper in `reproduce` differs in the last digits from run to run: its sums depend on where arrays
    lie in memory. All other outputs have been equal to the last bit.
    """
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(equal(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(equal, value, other))
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(value == other)


def half_written(name: str, out: Path, reference: dict[str, Any]) -> list[str]:
    """Files that a kill has left incomplete under their final names."""
    wrong = []
    if name == "train":
        for folder in (path for path in (out / "last", out / "best") if (path / "state.json").exists()):
            try:
                load_checkpoint(folder)
            except PlueckernetError as error:
                wrong.append(str(error))
        return wrong
    patterns = tuple(pattern for pattern in COMMANDS[name].compared if not pattern.endswith(".jsonl"))
    try:
        kept = content(out, patterns)
    except ValueError as error:
        return [str(error)]
    return [file for file, value in kept.items() if not equal(value, reference.get(file))]


def measure(name: str, kills: int, inputs: Path, work: Path) -> dict[str, Any]:
    """Kill one command that often; counts of what happened."""
    command = COMMANDS[name]
    reference, duration = _reference(command, inputs, work / "reference")
    generator = random.Random(name)
    counts = {"kills": 0, "ended_before": 0, "half_written": 0, "failed_again": 0, "different": 0, "leftovers": 0}
    attempt = 0
    while counts["kills"] < kills:
        attempt += 1
        out = work / str(attempt)
        out.mkdir()
        chosen = generator if command.has_workers else None
        if run(command.arguments(inputs, out), generator.uniform(0, 0.98 * duration), chosen) is not None:
            counts["ended_before"] += 1
            duration *= 0.95
            continue
        counts["kills"] += 1
        counts["half_written"] += bool(half_written(name, out, reference))
        code = run(command.arguments(inputs, out))
        counts["failed_again"] += code not in (0, 1)
        counts["different"] += not equal(content(out, command.compared), reference)
        counts["leftovers"] += bool(list(out.rglob("*.part")))
    return {**counts, "duration_seconds": round(duration, 2)}


def _reference(command: Command, inputs: Path, out: Path) -> tuple[dict[str, Any], float]:
    out.mkdir(parents=True)
    start = time.monotonic()
    code = run(command.arguments(inputs, out))
    duration = time.monotonic() - start
    reference = content(out, command.compared)
    if code not in (0, 1) or not reference:
        raise SystemExit(f"the command itself fails with {code}: {command.arguments(inputs, out)}")
    return reference, duration


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", nargs="*", default=[f"{name}=40" for name in COMMANDS], metavar="COMMAND=COUNT")
    options = parser.parse_args()
    torch.set_num_threads(1)
    before = RESULTS / "kills.json"
    counted = json.loads(before.read_text())["commands"] if before.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder))
        for name, _, wanted in (text.partition("=") for text in options.kills):
            counted[name] = measure(name, int(wanted), Path(folder), Path(folder) / name)
            print(name, counted[name], flush=True)
            save("kills", {"commands": counted})
    failures = ("half_written", "failed_again", "different", "leftovers")
    sys.exit(any(counts[key] for counts in counted.values() for key in failures))
