"""Designs of the invariant matcher against each other: the same seed, the same batches, the same held-out pairs.

    PYTHONPATH=src python -m benchmarks.networks_designs --out DIR      (one GPU, nine minutes)

Processes sample pairs from synthetic scenes; every design is then trained on them for the same number of steps, and
asked for its 200 best mutual matches of pairs from scenes it has not seen. Designs that `--seconds` leaves no time for
are left out. Differences smaller than that between the two rows of the default, which differ by their seed, mean
nothing. The better of the two is saved.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.networks_gpu import padded_lines
from plueckernet.data import AnyProtocol, LinePair, ScanProtocol, make_scene, sample_pair
from plueckernet.data.batches import PairBatch
from plueckernet.data.stream import StreamSettings, start_worker
from plueckernet.evaluation.provenance import provenance
from plueckernet.geometry import LineSet, Pose
from plueckernet.models import InvariantConfig, Matcher
from plueckernet.models.weights import ModelCard, save_pretrained
from plueckernet.training.config import ModelSettings, TrainingConfig, TrainSettings
from plueckernet.training.distributed import Processes
from plueckernet.training.objective import autocast, loss_of, match_quality, match_sums
from plueckernet.training.trainer import Trainer

# The first things first: time may run out.
DESIGNS: dict[str, tuple[InvariantConfig, int]] = {
    "default": (InvariantConfig(), 0),
    "transport": (InvariantConfig(assignment="transport"), 0),
    "prototype": (InvariantConfig(scale="metric", signed=False, local=False), 0),
    "default, seed 1": (InvariantConfig(), 1),
    "metric": (InvariantConfig(scale="metric"), 0),
    "no filters": (InvariantConfig(filters=0), 0),
    "unsigned": (InvariantConfig(signed=False), 0),
    "not local": (InvariantConfig(local=False), 0),
    "8 layers": (InvariantConfig(layers=8), 0),
    "64 edge channels": (InvariantConfig(edge_channels=64), 0),
}
DATA = "synthetic scenes of every scale, at most 256 neighbouring lines a side"
PROTOCOL = "AnyProtocol, keep 0.3 to 1, with and without endpoints; ScanProtocol, overlap 0.2 to 0.8; any rotation"
HELD_OUT = 10_000_000  # the first seed of scenes that are not trained on
FEWEST = 8  # true matches of a pair that is worth showing
MOST = 1024  # true matches of a pair, of fragments with fragments
RATE = 5e-4  # of learning, at its highest


# Pairs


class Rows(NamedTuple):
    """Pairs of padded segment maps."""

    endpoints: Any  # (p, 2, lines, 2, 3)
    counts: Any  # (p, 2)
    matches: Any  # (p, MOST, 2), padded by -1
    scan: Any  # (p,), whether two surveys made them
    target_T_source: Any  # (p, 4, 4)


def sampled(seed: int, lines: int) -> Iterator[tuple[LinePair, bool]]:
    """Two pairs of one scene: random parts of a neighbourhood in it, and two surveys."""
    generator = torch.Generator().manual_seed(seed)
    scene = make_scene("varied", seed)
    keep, overlap = torch.rand(2, generator=generator).tolist()
    parts = AnyProtocol(keep=0.3 + 0.7 * keep, segments=True)
    yield sample_pair(neighbourhood(scene, lines, generator), parts, generator), False
    surveys = ScanProtocol(overlap=0.2 + 0.6 * overlap)
    yield sample_pair(neighbourhood(scene, lines // 2, generator), surveys, generator), True  # surveys break lines


def neighbourhood(scene: LineSet, count: int, generator: torch.Generator) -> LineSet:
    """The lines nearest to a random one."""
    middle = scene.midpoints()
    chosen = middle[torch.randint(len(scene), (1,), generator=generator)]
    return scene[(middle - chosen).norm(dim=-1).topk(min(count, len(scene)), largest=False).indices]


def rows_of(seeds: range, lines: int) -> Rows:
    """All pairs of some scenes; of a map with too many lines, a random part."""
    rows = []
    for pair, scan in (pair for seed in seeds for pair in sampled(seed, lines)):
        matches = pair.matches[(pair.matches < lines).all(-1)]  # lines stand in random order
        if len(matches) < FEWEST or len(matches) > MOST:
            continue
        endpoints = np.zeros((2, lines, 2, 3), dtype=np.float32)
        sides = [side.endpoints[:lines].numpy() for side in (pair.source, pair.target)]  # type: ignore[index]
        for row, side in zip(endpoints, sides, strict=True):
            row[: len(side)] = side
        padded = np.full((MOST, 2), -1, dtype=np.int16)
        padded[: len(matches)] = matches.numpy()
        rows.append((endpoints, [len(side) for side in sides], padded, scan, pair.target_T_source.matrix().numpy()))
    return Rows(*(np.array(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True)
class Pool:
    """Pairs on the device."""

    rows: Rows

    @classmethod
    def of(cls, chunks: list[Rows], device: str) -> Pool:
        """All chunks together."""
        columns = (torch.from_numpy(np.concatenate(column)) for column in zip(*chunks, strict=True))
        return cls(Rows(*(column.to(device) for column in columns)))

    def __len__(self) -> int:
        return len(self.rows.counts)

    def batch(self, index: Tensor, *, infinite: bool) -> PairBatch:
        """Some pairs, with or without their endpoints."""
        endpoints, counts, matches = self.rows.endpoints[index], self.rows.counts[index], self.rows.matches[index]
        lines = endpoints.shape[2]
        mask = torch.arange(lines, device=counts.device) < counts[..., None]  # (b, 2, lines)
        sides = [padded_lines(endpoints[:, i].double(), mask[:, i]) for i in range(2)]
        source, target = (side.infinite() for side in sides) if infinite else sides
        same = torch.zeros(len(index), lines + 1, lines + 1, dtype=torch.bool, device=counts.device)
        first, second = matches.long().unbind(-1)  # -1 is the last row, which is cut off
        same[torch.arange(len(index), device=counts.device)[:, None], first, second] = True
        return PairBatch(source, target, same[:, :-1, :-1], Pose.from_matrix(self.rows.target_T_source[index]))

    def groups(self) -> Iterator[tuple[str, Tensor, bool]]:
        """Kinds of pairs: name, rows, and whether to show them without endpoints."""
        surveys, parts = self.rows.scan.nonzero()[:, 0], (~self.rows.scan).nonzero()[:, 0]
        yield from (("parts", parts, False), ("parts, infinite lines", parts, True), ("surveys", surveys, False))


def make_pools(a: argparse.Namespace) -> tuple[Pool, Pool]:
    """Pairs to train on, as many as the time allows, and held-out ones; sampled by processes."""
    start, chunk = time.perf_counter(), 16
    seeds = [range(HELD_OUT + i, HELD_OUT + i + chunk) for i in range(0, a.test_scenes, chunk)]
    tests = len(seeds)
    seeds += [range(i, i + chunk) for i in range(0, a.scenes, chunk)]
    chunks = []
    with ProcessPoolExecutor(a.workers, multiprocessing.get_context("spawn"), initializer=start_worker) as executor:
        for rows in executor.map(rows_of, seeds, [a.lines] * len(seeds)):
            chunks.append(rows)
            if len(chunks) > tests and time.perf_counter() - start > a.pool_seconds:
                executor.shutdown(cancel_futures=True)
                break
    return Pool.of(chunks[tests:], a.device), Pool.of(chunks[:tests], a.device)


# One design


class Batches:
    """The same pairs at the same step whatever the design; one step in three shows infinite lines."""

    def __init__(self, pool: Pool, size: int) -> None:
        self.pool, self.size = pool, size
        (_, self.parts, _), *_ = pool.groups()
        self.every = torch.arange(len(pool), device=self.parts.device)

    def batch(self, step: int) -> PairBatch:
        """Some pairs of the pool."""
        infinite = step % 3 == 2
        candidates = self.parts if infinite else self.every
        chosen = torch.randint(len(candidates), (self.size,), generator=torch.Generator().manual_seed(step))
        return self.pool.batch(candidates[chosen.to(candidates.device)], infinite=infinite)

    def close(self) -> None:
        """The pool stays for the next design."""


def train(model: InvariantConfig, seed: int, pool: Pool, a: argparse.Namespace) -> tuple[Matcher, list[list[float]]]:
    """One design, trained, and its losses."""
    precision: Literal["bf16", "float32"] = "bf16" if a.device == "cuda" else "float32"
    settings = TrainSettings(steps=a.steps, batch=a.batch, lr=RATE, warmup=50, precision=precision, ema=0.0, seed=seed)
    config = TrainingConfig("design", ModelSettings("invariant", model), StreamSettings(), settings)
    trainer, source, curve = Trainer(config, Processes(torch.device(a.device))), Batches(pool, a.batch), []
    batch: PairBatch | None = source.batch(0)
    while batch is not None:
        result = trainer.advance(batch, source)
        batch = result.following
        if trainer.step % 50 == 1 or trainer.step == a.steps:
            curve.append([trainer.step - 1, round(result.loss, 4)])
    return trainer.network.eval(), curve


@torch.no_grad()
def evaluate(net: Matcher, pool: Pool, a: argparse.Namespace) -> dict[str, dict[str, float]]:
    """What the 200 best mutual matches are worth, for each kind of pairs and for all."""
    totals: dict[str, Tensor] = {}
    for name, rows, infinite in pool.groups():
        totals[name] = sum(judged(net, pool.batch(block, infinite=infinite)) for block in rows.split(a.batch))  # type: ignore[assignment]
    totals["all"] = sum(totals.values())  # type: ignore[assignment]
    result = {}
    for name, total in totals.items():
        loss, pairs = total[5:].tolist()
        result[name] = {**match_quality(total[:5], round(pairs)), "loss": loss / pairs, "pairs": pairs}
    return result


def judged(net: Matcher, batch: PairBatch) -> Tensor:
    """Sums over pairs of what :func:`evaluate` averages."""
    pairs, device = len(batch.correspondence), batch.correspondence.device
    with autocast(device.type, device.type == "cuda"):
        output = net(batch.source, batch.target)
    sums = match_sums(output.log_probability, batch.correspondence)
    return torch.cat([sums, torch.stack([loss_of(net, output, batch) * pairs, torch.tensor(pairs, device=device)])])


# All of them


def save(a: argparse.Namespace, rows: list[dict[str, Any]], pools: tuple[Pool, Pool]) -> None:
    """Write everything measured so far."""
    name = torch.cuda.get_device_name() if a.device == "cuda" else platform.machine()
    document = {
        "provenance": provenance("benchmarks.networks_designs", device=name).to_dict(),
        "settings": {k: v for k, v in vars(a).items() if k not in ("out", "table")},
        "data": DATA,
        "protocol": PROTOCOL,
        "pairs": {"trained_on": len(pools[0]), "held_out": len(pools[1])},
        "designs": rows,
    }
    a.out.mkdir(parents=True, exist_ok=True)
    (a.out / "networks_designs.json").write_text(json.dumps(document, indent=1) + "\n")


def table(rows: list[dict[str, Any]]) -> str:
    """The Markdown table of docs/networks.md: precision / recall of each kind, then of all pairs, in percent."""
    kinds = [kind for kind in rows[0]["result"] if kind != "all"]
    heads = ["design", *kinds, "average precision", "8 correct", "M parameters", "ms per step"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        result = row["result"]
        cells = [f"{100 * result[kind]['precision']:.1f} / {100 * result[kind]['recall']:.1f}" for kind in kinds]
        cells += [f"{100 * result['all'][name]:.1f}" for name in ("average_precision", "eight_right")]
        cells += [f"{row['parameters'] / 1e6:.2f}", f"{row['step_ms']:.0f}"]
        lines.append(f"| {row['design']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Train and judge the designs, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--pool-seconds", type=float, default=70)
    parser.add_argument("--scenes", type=int, default=16_000)
    parser.add_argument("--test-scenes", type=int, default=512)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lines", type=int, default=256)
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS))
    parser.add_argument("--table", action="store_true", help="print the table of what is in OUT")
    a = parser.parse_args()
    if a.table:
        print(table(json.loads((a.out / "networks_designs.json").read_text())["designs"]))
        return
    start = time.perf_counter()
    torch.set_float32_matmul_precision("high")
    pools = make_pools(a)
    print(f"{len(pools[0])} and {len(pools[1])} pairs after {time.perf_counter() - start:.0f} s", flush=True)
    warm_up = argparse.Namespace(**{**vars(a), "steps": 3})
    train(InvariantConfig(), 0, pools[0], warm_up)
    rows: list[dict[str, Any]] = []
    longest = best = 0.0
    for name in a.designs:
        began = time.perf_counter()
        if began - start + 1.1 * longest > a.seconds:
            print("no time for", name, flush=True)
            continue
        config, seed = DESIGNS[name]
        net, curve = train(config, seed, pools[0], a)
        trained = time.perf_counter()
        result = evaluate(net, pools[1], a)
        row = {"design": name, "result": result, "parameters": sum(p.numel() for p in net.parameters())}
        rows.append({**row, "step_ms": 1000 * (trained - began) / a.steps, "curve": curve})
        print(json.dumps(rows[-1]), flush=True)
        save(a, rows, pools)
        if config == InvariantConfig() and result["all"]["average_precision"] > best:
            best = result["all"]["average_precision"]
            save_pretrained(a.out / "invariant", net, ModelCard("invariant", DATA, PROTOCOL, result))
        longest = max(longest, time.perf_counter() - began)
    print(table(rows))


if __name__ == "__main__":
    main()
