"""The networks on a GPU: pairs a second, precision in bf16, time of a training step, and where it goes.

    PYTHONPATH=src python benchmarks/networks_gpu.py --out DIR

Everything is synthetic. The invariant matcher is first trained for `--train-seconds`, because whether bf16 keeps the
matches can only be seen on a network that has learned some. Parts that `--seconds` leaves no time for are left out.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from plueckernet.data import make_scene
from plueckernet.data.batches import PairBatch
from plueckernet.data.stream import StreamSettings
from plueckernet.evaluation.provenance import provenance
from plueckernet.geometry import LineSet, Pose
from plueckernet.models import (
    InvariantConfig,
    Matcher,
    MatchOutput,
    PlueckerConfig,
    build_matcher,
    top_k_matches,
)
from plueckernet.training.config import ModelSettings, TrainingConfig, TrainSettings
from plueckernet.training.distributed import Processes
from plueckernet.training.objective import autocast, loss_of
from plueckernet.training.trainer import Trainer

CONFIGS = {
    "invariant": InvariantConfig(),
    "invariant-transport": InvariantConfig(assignment="transport"),
    "pluecker": PlueckerConfig(),
}
NOISE = 0.03  # m, of every endpoint coordinate


class Pairs:
    """Scenes on the device, and pairs drawn from them there."""

    def __init__(self, scenes: int, device: str, first_seed: int, longest: int = 600) -> None:
        segments, counts = [], []
        for seed in range(first_seed, first_seed + scenes):
            endpoints = make_scene("mixed", seed).endpoints
            if endpoints is None or len(endpoints) < 20:
                continue
            endpoints = endpoints[torch.randperm(len(endpoints))[:longest]]
            endpoints = endpoints - endpoints.mean((0, 1))
            counts.append(len(endpoints))
            segments.append(torch.nn.functional.pad(endpoints, (0, 0, 0, 0, 0, longest - len(endpoints))))
        self.segments = torch.stack(segments).to(device)  # (scenes, longest, 2, 3)
        self.counts = torch.tensor(counts, device=device)

    def draw(self, batch: int, lines: int, keep: tuple[float, float] = (0.3, 1.0)) -> PairBatch:
        """Two random parts of each of `batch` scenes, with noise."""
        device = self.counts.device
        scene = torch.randint(len(self.counts), (batch,), device=device)
        share = keep[0] + (keep[1] - keep[0]) * torch.rand(batch, device=device)
        kept = (self.counts[scene] * share).long().clamp(4, lines)
        (source, i), (target, j) = (self._part(scene, kept, lines) for _ in range(2))
        same = (i[:, :, None] == j[:, None, :]) & source.mask[:, :, None] & target.mask[:, None]  # type: ignore[index]
        return PairBatch(source, target, same, Pose.identity(batch, device=str(device)))

    def _part(self, scene: Tensor, kept: Tensor, lines: int) -> tuple[LineSet, Tensor]:
        slots = torch.arange(self.segments.shape[1], device=scene.device)
        order = torch.rand(len(scene), len(slots), device=scene.device)
        order = order.masked_fill(slots >= self.counts[scene, None], 2.0).argsort(-1)[:, :lines]
        mask = slots[:lines] < kept[:, None]
        endpoints = self.segments[scene[:, None], order]
        return padded_lines(endpoints + NOISE * torch.randn_like(endpoints), mask), order


def padded_lines(endpoints: Tensor, mask: Tensor) -> LineSet:
    """Segments (b, n, 2, 3) of which the mask tells the real ones; padding points along the x axis."""
    start, end = endpoints.unbind(-2)
    x_axis = torch.tensor([1.0, 0, 0], dtype=endpoints.dtype, device=endpoints.device)
    direction = torch.where(mask[..., None], torch.nn.functional.normalize(end - start, dim=-1), x_axis)
    return LineSet(direction, torch.linalg.cross(start, direction), endpoints, mask=mask)


def training_step(
    net: Matcher, forward: Callable[..., MatchOutput], batch: PairBatch, optimizer: torch.optim.Optimizer, bf16: bool
) -> Tensor:
    """Forward, loss, backward, optimizer."""
    with autocast(batch.correspondence.device.type, bf16):
        output = forward(batch.source, batch.target)
    loss = loss_of(net, output, batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """float32 products exact ("highest") or in TF32 ("high")."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    yield
    torch.set_float32_matmul_precision(before)


def timed(function: Callable[[], object], device: str, warmup: int, repeats: int) -> dict[str, float]:
    """Median and quartiles of the wall-clock time in milliseconds."""

    def once() -> float:
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        return 1000 * (time.perf_counter() - start)

    for _ in range(warmup):
        once()
    times = sorted(once() for _ in range(repeats))
    low, middle, high = statistics.quantiles(times, n=4)
    return {"median_ms": middle, "q1_ms": low, "q3_ms": high}


class Run:
    """One run of the benchmark: its clock, its settings, its rows."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.device = arguments.device
        self.start = time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        self.extra: dict[str, Any] = {}

    def has_time_for(self, seconds: float) -> bool:
        """Whether ``seconds`` are left; compiling needs the most."""
        return time.perf_counter() - self.start + seconds < self.arguments.seconds

    def add(self, **row: Any) -> None:
        """Keep a row and show it, so that an interrupted run is not lost."""
        self.rows.append(row)
        print(json.dumps(row), flush=True)
        self.save()

    def save(self) -> None:
        """Write everything measured so far."""
        name = torch.cuda.get_device_name() if self.device == "cuda" else platform.processor()
        sources = provenance("benchmarks.networks_gpu", device=name).to_dict()
        settings = {k: v for k, v in vars(self.arguments).items() if k != "out"}
        document = {"provenance": sources, "settings": settings, "rows": self.rows, **self.extra}
        folder = Path(self.arguments.out)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "networks_gpu.json").write_text(json.dumps(document, indent=1))


class Endless:
    """New pairs at every step, for the trainer."""

    def __init__(self, pairs: Pairs, size: int, lines: int) -> None:
        self.pairs, self.size, self.lines = pairs, size, lines

    def batch(self, step: int) -> PairBatch:  # noqa: ARG002
        """The trainer has seeded the device by the number of the step."""
        return self.pairs.draw(self.size, self.lines)

    def close(self) -> None:
        """There is nothing to close."""


def train(run: Run, pairs: Pairs) -> Matcher:
    """The invariant matcher after a short training in bf16."""
    a = run.arguments
    precision: Literal["bf16", "float32"] = "bf16" if run.device == "cuda" else "float32"
    settings = TrainSettings(
        steps=a.train_steps, batch=a.batch, warmup=50, schedule="constant", precision=precision, ema=0.0
    )
    config = TrainingConfig("invariant", ModelSettings("invariant", CONFIGS["invariant"]), StreamSettings(), settings)
    trainer, source = Trainer(config, Processes(torch.device(run.device))), Endless(pairs, a.batch, a.lines)
    start, curve, batch = time.perf_counter(), [], source.batch(0)
    while batch is not None and time.perf_counter() - start < a.train_seconds:
        result = trainer.advance(batch, source)
        batch = result.following
        if trainer.step % 20 == 1:
            curve.append([trainer.step - 1, round(time.perf_counter() - start, 2), round(result.loss, 4)])
    run.extra["training"] = {"steps": trainer.step, "seconds": time.perf_counter() - start, "curve": curve}
    print("training:", trainer.step, "steps, loss", curve[0][2], "->", curve[-1][2], flush=True)
    return trainer.network.eval()


@torch.no_grad()
def compare_precisions(run: Run, net: Matcher, pairs: Pairs) -> None:
    """Precision of the best matches in float32, TF32 and bf16, and how many they share with float32."""
    torch.manual_seed(1)
    batches = [pairs.draw(16, 215, keep=(0.5, 0.5)) for _ in range(run.arguments.test_batches)]
    reference: list[Tensor] = []
    for name, precision, bf16 in (("float32", "highest", False), ("tf32", "high", False), ("bf16", "high", True)):
        right, total, shared = 0, 0, 0.0
        for i, batch in enumerate(batches):
            with matmul_precision(precision), autocast(run.device, bf16):
                output = net(batch.source, batch.target)
            best = top_k_matches(output.log_probability, 50, mutual=True)
            mutual = best.log_probability > -torch.inf
            sets = torch.arange(len(best.source), device=mutual.device)[:, None]
            right += int((batch.correspondence[sets, best.source, best.target] & mutual).sum())
            total += int(mutual.sum())
            chosen = torch.zeros_like(batch.correspondence)
            chosen[sets, best.source, best.target] = mutual
            if name == "float32":
                reference.append(chosen)
            shared += float((chosen & reference[i]).sum() / reference[i].sum())
        run.add(
            what="precision of the 50 best mutual matches",
            variant=name,
            precision=right / max(total, 1),
            shared_with_float32=shared / len(batches),
        )


@torch.no_grad()
def inference(run: Run, net: Matcher, name: str, pairs: Pairs, compiled: bool) -> None:
    """Pairs a second at 215 lines."""
    batch = pairs.draw(run.arguments.inference_batch, 215, keep=(1.0, 1.0))
    forward = torch.compile(net, dynamic=False) if compiled else net
    variants = (("float32", "highest", False), ("tf32", "high", False), ("bf16", "high", True))
    for label, precision, bf16 in variants[2:] if compiled else variants:
        with matmul_precision(precision), autocast(run.device, bf16):
            time_ms = timed(lambda: forward(batch.source, batch.target), run.device, 5, run.arguments.repeats)
        rate = 1000 * run.arguments.inference_batch / time_ms["median_ms"]
        run.add(what="inference", network=name, variant=label, compiled=compiled, pairs_per_second=rate, **time_ms)


def training_time(run: Run, name: str, pairs: Pairs, bf16: bool, compiled: bool) -> None:
    """Time of one step, and the memory it takes."""
    a = run.arguments
    torch.manual_seed(0)
    batch = pairs.draw(a.batch, a.lines)
    net = build_matcher(CONFIGS[name]).to(run.device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=run.device == "cuda")
    forward = torch.compile(net, dynamic=False) if compiled else net
    if run.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    training_step(net, forward, batch, optimizer, bf16)
    first = time.perf_counter() - begin

    def step() -> Tensor:
        return training_step(net, forward, batch, optimizer, bf16)

    time_ms = timed(step, run.device, 4, a.repeats)
    peak = torch.cuda.max_memory_allocated() / 2**30 if run.device == "cuda" else float("nan")
    run.add(
        what="training step",
        network=name,
        variant="bf16" if bf16 else "tf32",
        compiled=compiled,
        **time_ms,
        peak_gib=peak,
        first_call_s=first,
    )
    if name == "invariant" and bf16:
        run.extra[f"profile{'_compiled' * compiled}"] = profile(step, run.device)


def profile(step: Callable[[], object], device: str) -> str:
    """The kernels that take the most time in three steps."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as record:
        for _ in range(3):
            step()
    order = "self_cuda_time_total" if device == "cuda" else "self_cpu_time_total"
    table = record.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=70)
    print(table, flush=True)
    return table


def main() -> None:
    """Run what there is time for, the most telling first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--train-seconds", type=float, default=40)
    parser.add_argument("--train-steps", type=int, default=100_000)
    parser.add_argument("--scenes", type=int, default=96)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lines", type=int, default=256)
    parser.add_argument("--inference-batch", type=int, default=64)
    parser.add_argument("--test-batches", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--no-compile", action="store_true")
    run = Run(parser.parse_args())
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    pairs = Pairs(run.arguments.scenes, run.device, first_seed=0)
    held_out = Pairs(max(16, run.arguments.scenes // 4), run.device, first_seed=100_000)
    print(f"scenes ready after {time.perf_counter() - run.start:.0f} s", flush=True)
    for name in CONFIGS:
        for bf16 in (True, False):
            training_time(run, name, pairs, bf16, compiled=False)
    net = train(run, pairs)
    compare_precisions(run, net, held_out)
    inference(run, net, "invariant", held_out, compiled=False)
    inference(run, build_matcher(CONFIGS["pluecker"]).to(run.device).eval(), "pluecker", held_out, compiled=False)
    for name in () if run.arguments.no_compile else ("invariant", "pluecker", "invariant-transport"):
        if run.has_time_for(60):
            training_time(run, name, pairs, bf16=True, compiled=True)
        if name == "invariant" and run.has_time_for(40):
            inference(run, net, "invariant", held_out, compiled=True)
    run.extra["seconds"] = time.perf_counter() - run.start
    run.save()
    print_table(run)


def print_table(run: Run) -> None:
    """All rows, last thing on the screen."""
    print(f"\n{'what':42} {'network':20} {'variant':8} {'compiled':8} {'ms':>8}  result")
    for row in run.rows:
        result = {
            "inference": lambda r: f"{r['pairs_per_second']:.0f} pairs/s",
            "training step": lambda r: f"{r['peak_gib']:.1f} GiB, first {r['first_call_s']:.1f} s",
        }.get(row["what"], lambda r: f"{100 * r['precision']:.2f} %, shared {100 * r['shared_with_float32']:.1f} %")(
            row
        )
        cells = (row["what"], row.get("network", ""), row["variant"], str(row.get("compiled", "")))
        print(f"{cells[0]:42} {cells[1]:20} {cells[2]:8} {cells[3]:8} {row.get('median_ms', 0):8.2f}  {result}")


if __name__ == "__main__":
    main()
