"""What the paper's network owes to its parts: short trainings that differ in one of them, on the same pairs.

    PYTHONPATH=src:. python -m benchmarks.ablations --device cuda --steps 1200 --minutes 8 --out DIR

trains every design twice, with two seeds, on synthetic houses and towns under the paper's protocol, all of them at the
same time: one training alone leaves a GPU waiting for its next small task. Each is then judged by the evaluation that
Table 1 rests on, on the first of its pairs. ``DIR/ablations.json`` has what `plueckernet reproduce ablations` shows.

Checkpoints are written every minute and when the minutes are over; the same command again goes on from there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from plueckernet.data import PaperProtocol
from plueckernet.data.stream import StreamSettings
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.methods import published_method
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.provenance import environment
from plueckernet.evaluation.runner import Runner, RunSettings, begin_worker
from plueckernet.evaluation.summary import summarise
from plueckernet.io.atomic import atomic_write
from plueckernet.models import PlueckerConfig
from plueckernet.training import train
from plueckernet.training.config import CardSettings, ModelSettings, TrainingConfig, TrainSettings, ValidationSettings
from plueckernet.training.export import export_weights

DESIGNS = {
    "as published": PlueckerConfig(),
    "no matchability prior": PlueckerConfig(matchability_prior=False),
    "no subspace coding": PlueckerConfig(subspace_coding=False),
    "BatchNorm + ReLU": PlueckerConfig(style="batch-relu"),
    "no cross-attention": PlueckerConfig(cross_attention=False),
}
SEEDS = (0, 1)
KINDS = ("indoor", "outdoor")
PROTOCOL = PaperProtocol()


@dataclass(frozen=True)
class Job:
    """One training and where it lives."""

    design: str
    model: PlueckerConfig
    seed: int
    out: Path

    @property
    def name(self) -> str:
        """Fit for a file."""
        return f"{re.sub('[^a-z]+', '-', self.design.lower())}-{self.seed}"

    @property
    def folder(self) -> Path:
        """Checkpoints and log."""
        return self.out / "trainings" / self.name

    @property
    def weights(self) -> Path:
        """There once the training is finished."""
        return self.out / "weights" / f"{self.name}.safetensors"

    def config(self, a: argparse.Namespace) -> TrainingConfig:
        """Adam, warmed up and then slowed down; the scenes are the same in every step."""
        stream = StreamSettings(
            protocol="paper", scenes=KINDS, sizes=(a.lines,), keep=(PROTOCOL.keep,) * 2, pool=a.scenes, fresh=0
        )
        settings = TrainSettings(
            steps=a.steps, batch=a.batch, lr=a.rate, warmup=min(100, a.steps), weight_decay=0.0, precision="float32",
            ema=0.99, seed=self.seed, checkpoint_minutes=1.0,
        )  # fmt: skip
        return TrainingConfig(
            name=self.name,
            model=ModelSettings("pluecker", self.model),
            data=stream,
            train=settings,
            validation=ValidationSettings(every=0, pairs=1, directed=True, cells={"all": stream}),
            card=CardSettings("synthetic houses and towns", "the paper's, directed"),
        )


def trained(job: Job, a: argparse.Namespace) -> bool:
    """Train, or go on with it; whether it is finished."""
    if job.weights.with_suffix(".json").exists():  # the card is written last
        return True
    resume = (job.folder / "last" / "state.json").exists()
    talks = (job.model, job.seed) == (PlueckerConfig(), 0)
    outcome = train(job.config(a), job.folder, device=a.device, resume=resume, minutes=a.minutes, quiet=not talks)
    if outcome.ending == "finished":
        export_weights(job.folder / "last", job.weights.parent, name=job.name, half=True)
    return outcome.ending == "finished"


def judged(jobs: list[Job], a: argparse.Namespace) -> list[dict[str, Any]]:
    """What each training has come to, on held-out pairs of both kinds."""
    places = list(product(jobs, KINDS))
    cells = [Cell(StandIn(kind), PROTOCOL, published_method(job.name, job.weights)) for job, kind in places]
    with Runner(RunSettings(a.out / "predictions", workers=a.processes)) as runner:
        found = dict(zip(places, runner.run(cells, a.pairs), strict=True))
    return [
        {
            "design": job.design,
            "seed": job.seed,
            "result": {kind: numbers(found[job, kind]) for kind in KINDS},
            **history(job.folder / "log.jsonl"),
        }
        for job in jobs
    ]


def numbers(found: list[Prediction]) -> dict[str, Any]:
    """Of the most probable matches, which are the network's own work, and of the poses that come of them."""
    summary = summarise(found)
    right = [one.putative_right for one in found]
    possible = [max(1, min(one.common, one.putative)) for one in found]
    recalls = [a / b for a, b in zip(right, possible, strict=True)]
    return {
        "precision": fmean(a / max(1, one.putative) for a, one in zip(right, found, strict=True)),
        "recall": fmean(recalls),
        "success": summary["success"],
        "strict": summary["strict"],
        "rotation_median": summary["rotation"][1],
        "translation_median": summary["translation"][1],
        "recalls": [round(value, 4) for value in recalls],  # pair by pair: designs are compared on the same
    }


def history(path: Path) -> dict[str, Any]:
    """How a training went, from its log."""
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    steps = [entry for entry in entries if entry["kind"] == "train"]
    curve = [[entry["step"], round(entry["loss"], 3)] for entry in steps if entry["step"] % 100 == 0]
    return {"milliseconds_a_step": fmean(entry["milliseconds"] for entry in steps), "loss": curve}


def checked(path: Path, settings: dict[str, Any]) -> None:
    """Keep the settings beside the trainings; a folder of others is left alone."""
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known != settings:
            raise SystemExit(f"{path.parent} was made with other settings: {known}; choose another folder")
        return
    with atomic_write(path) as stream:
        stream.write(json.dumps(settings, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--minutes", type=float, default=None, help="after which a training stops with a checkpoint")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lines", type=int, default=256, help="at most, of a map to train on")
    parser.add_argument("--rate", type=float, default=5e-4, help="of learning, at its highest")
    parser.add_argument("--scenes", type=int, default=4096)
    parser.add_argument("--pairs", type=int, default=100, help="of either kind to judge by")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="trainings, then pairs, at a time")
    a = parser.parse_args(arguments)
    settings = {name: getattr(a, name) for name in ("steps", "batch", "lines", "rate", "scenes", "pairs")}
    a.out.mkdir(parents=True, exist_ok=True)
    checked(a.out / "settings.json", settings)
    jobs = [Job(design, model, seed, a.out) for seed, (design, model) in product(SEEDS, DESIGNS.items())]
    if a.processes == 1:
        finished = [trained(job, a) for job in jobs]
    else:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(len(jobs), a.processes), spawn, begin_worker) as pool:
            finished = list(pool.map(partial(trained, a=a), jobs))
    done = [job for job, whole in zip(jobs, finished, strict=True) if whole]
    rows = judged(done, a)
    device = torch.cuda.get_device_name() if a.device.startswith("cuda") else "cpu"
    document = {"metadata": environment(device), "settings": settings, "designs": rows}
    with atomic_write(a.out / "ablations.json") as stream:
        stream.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
    print(f"{len(done)} of {len(jobs)} trainings are finished and judged: {a.out / 'ablations.json'}")
    if len(done) < len(jobs):
        raise SystemExit("the same command again goes on with the others")


if __name__ == "__main__":
    main()
