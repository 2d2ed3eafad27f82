"""What the paper's network owes to its parts: short trainings that differ in one of them, on the same batches.

    PYTHONPATH=src:. python -m benchmarks.ablations --device cuda --steps 1200 --out DIR

trains every design of ``DESIGNS`` for so many steps on synthetic houses and towns under the paper's protocol and asks
each for the poses of held-out pairs, through the paper's RANSAC. ``DIR/ablations.json`` is written after every design;
a run that finds it there goes on with the designs that it lacks, if the settings are the same. Two designs differ by
their seed alone: smaller differences than theirs mean nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from benchmarks.harness import pose_error, succeeded
from plueckernet.data import LinePair, PaperProtocol, make_scene, sample_pair
from plueckernet.data.batches import PairBatch, SceneBatch, paper_batch
from plueckernet.errors import DegenerateError
from plueckernet.estimation.matching import top_matches
from plueckernet.estimation.published import PublishedSettings, published_pose
from plueckernet.geometry.pose import Pose
from plueckernet.models import Matcher, PlueckerConfig, build_matcher, matching_loss

DESIGNS: dict[str, tuple[PlueckerConfig, int]] = {
    "as published": (PlueckerConfig(), 0),
    "no matchability prior": (PlueckerConfig(matchability_prior=False), 0),
    "no subspace coding": (PlueckerConfig(subspace_coding=False), 0),
    "BatchNorm + ReLU": (PlueckerConfig(style="batch-relu"), 0),
    "no cross-attention": (PlueckerConfig(cross_attention=False), 0),
    "as published, seed 1": (PlueckerConfig(), 1),
}
KINDS = ("indoor", "outdoor")
HELD_OUT = 2_000_000  # the first seed of scenes that are not trained on
KEEP = PaperProtocol().keep
WARM_UP = 100  # steps


class Scenes:
    """Houses and towns as padded segments on the device; of large ones a random part."""

    def __init__(self, count: int, longest: int, device: str) -> None:
        generator = torch.Generator().manual_seed(0)
        segments, counts = [], []
        for seed in range(count):
            endpoints = make_scene(KINDS[seed % 2], seed).endpoints
            if endpoints is None:
                raise ValueError("scenes are made of segments")
            endpoints = endpoints[torch.randperm(len(endpoints), generator=generator)[:longest]].float()
            counts.append(len(endpoints))
            segments.append(pad(endpoints, (0, 0, 0, 0, 0, longest - len(endpoints))))
        self.segments = torch.stack(segments).to(device)  # (scenes, longest, 2, 3)
        self.counts = torch.tensor(counts, device=device)
        self.generator = torch.Generator(device).manual_seed(0)

    def draw(self, batch: int, lines: int) -> PairBatch:
        """Pairs under the paper's protocol."""
        device = self.counts.device
        scene = torch.randint(len(self.counts), (batch,), device=device, generator=self.generator)
        real = torch.arange(self.segments.shape[1], device=device) < self.counts[scene, None]
        return paper_batch(SceneBatch(self.segments[scene], real), lines, (KEEP, KEEP), self.generator)


def train(config: PlueckerConfig, seed: int, a: argparse.Namespace) -> tuple[Matcher, list[list[float]]]:
    """Adam as in the paper, warmed up and then slowed down; returns the losses too."""
    scenes = Scenes(a.scenes, math.floor(a.lines / KEEP), a.device)
    torch.manual_seed(seed)
    net = build_matcher(config).to(a.device).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=a.rate, fused=a.device == "cuda")
    curve = []
    for step in range(a.steps):
        slow = (1 + math.cos(math.pi * step / a.steps)) / 2
        optimizer.param_groups[0]["lr"] = a.rate * min(1, (step + 1) / WARM_UP) * slow
        batch = scenes.draw(a.batch, a.lines)
        loss = matching_loss(net(batch.source, batch.target).log_probability, batch.correspondence)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0).isfinite():
            optimizer.step()
        if step % 50 == 0 or step == a.steps - 1:
            curve.append([step, round(float(loss.detach()), 4)])
    return net.eval(), curve


def judged(net: Matcher, kind: str, a: argparse.Namespace) -> dict[str, float | None]:
    """Held-out pairs of one kind: matches and poses."""
    rows = []
    for seed in range(HELD_OUT, HELD_OUT + a.pairs):
        pair = sample_pair(make_scene(kind, seed), PaperProtocol(), seed)
        log_probability = net.match(pair.source.to(a.device), pair.target.to(a.device)).cpu()
        rows.append(_one(pair, log_probability, seed))
    table = np.array(rows)
    return {
        "pairs": a.pairs,
        "precision": float(table[:, 0].mean()),
        "recall": float(table[:, 1].mean()),
        "success": float(table[:, 2].mean()),
        "rotation_median": _finite(np.median(table[:, 3])),
        "translation_median": _finite(np.median(table[:, 4])),
        "highest_precision": float(table[:, 5].mean()),
    }


def _finite(value: np.floating) -> float | None:
    """JSON has no infinity."""
    return float(value) if np.isfinite(value) else None


def _one(pair: LinePair, log_probability: Tensor, seed: int) -> tuple[float, ...]:
    """Precision and recall of the top matches, success and errors of the pose, and the highest precision possible."""
    settings = PublishedSettings()
    best = top_matches(log_probability, settings.matches)
    true = torch.zeros_like(log_probability, dtype=torch.bool)
    true[pair.matches[:, 0], pair.matches[:, 1]] = True
    right = int(true[best.source, best.target].sum())
    possible = max(1, min(len(pair.matches), settings.matches))
    found: Pose | None
    try:
        source, target = pair.source[best.source], pair.target[best.target]
        found = published_pose(source, target, settings, seed).target_T_source
    except DegenerateError:
        found = None
    error = pose_error(found, pair.target_T_source)
    return right / len(best), right / possible, float(succeeded(error)), *error, possible / len(best)


def settings_of(a: argparse.Namespace) -> dict[str, Any]:
    """What has to be the same for results to be comparable."""
    return {name: getattr(a, name) for name in ("steps", "batch", "lines", "rate", "scenes", "pairs")}


def earlier(path: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Designs that an earlier run with these settings has measured."""
    if not path.exists():
        return []
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["settings"] != settings:
        raise SystemExit(f"{path} was made with other settings: {document['settings']}; choose another folder")
    designs: list[dict[str, Any]] = document["designs"]
    return designs


def main() -> None:
    """Train and judge the designs, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lines", type=int, default=256, help="at most, of a map to train on")
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning, at its highest; the paper's")
    parser.add_argument("--scenes", type=int, default=4000)
    parser.add_argument("--pairs", type=int, default=100, help="of either kind to judge by")
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS), choices=list(DESIGNS), metavar="DESIGN")
    a = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    a.out.mkdir(parents=True, exist_ok=True)
    path, settings = a.out / "ablations.json", settings_of(a)
    rows = earlier(path, settings)
    name = torch.cuda.get_device_name() if a.device.startswith("cuda") else platform.machine()
    metadata = {"device": name, "torch": torch.__version__, "python": platform.python_version()}
    for design in a.designs:
        if any(row["design"] == design for row in rows):
            continue
        config, seed = DESIGNS[design]
        start = time.perf_counter()
        net, curve = train(config, seed, a)
        trained = time.perf_counter()
        row = {"design": design, "seed": seed, "result": {kind: judged(net, kind, a) for kind in KINDS}}
        row["parameters"] = sum(parameter.numel() for parameter in net.parameters())
        row |= {"training_s": trained - start, "judging_s": time.perf_counter() - trained, "curve": curve}
        rows.append(row)
        print(json.dumps(row), flush=True)
        document = {"metadata": metadata, "settings": settings, "protocol": "paper, directed", "designs": rows}
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
