"""What the paper's network owes to its components: short trainings that differ in one of them, on the same pairs.

Every design is trained with three seeds on synthetic houses and towns under the paper's protocol. All trainings
run at the same time, because one training alone leaves a GPU waiting for its next small task. Each is then judged by
the evaluation of Table 1, on the first of its pairs. ``OUT/ablations.json`` has what `plueckernet reproduce ablations`
shows.

Checkpoints are written every minute and when the minutes are over; the same call again goes on from there.
"""

from __future__ import annotations

import json
import multiprocessing
import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean

from plueckernet.data import PaperProtocol
from plueckernet.data.stream import StreamSettings
from plueckernet.errors import InputError
from plueckernet.evaluation.datasets import StandIn
from plueckernet.evaluation.documents import ResultDocument, read_json, read_result, write_result
from plueckernet.evaluation.experiments.ablations import AblationSettings, AblationValues, TrainingResult, TrainingRun
from plueckernet.evaluation.methods import published_method
from plueckernet.evaluation.predictions import Cell, Prediction
from plueckernet.evaluation.provenance import provenance
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
    "Gram–Schmidt": PlueckerConfig(orthogonal_subspaces=True),
    "fast attention": PlueckerConfig(fast_attention=True),
}
SEEDS = (0, 1, 2)
KINDS = ("indoor", "outdoor")
PROTOCOL = PaperProtocol()


@dataclass(frozen=True)
class AblationRun:
    """Where and how to run; none of it changes the result."""

    out: Path
    device: str = "cuda"
    minutes: float | None = None  # after which a training stops with a checkpoint
    processes: int = 1  # trainings, then pairs, at a time
    cuda_graphs: bool = True  # see :class:`TrainSettings`
    kept: Path | None = None  # an earlier ``ablations.json``, whose trainings are not repeated


@dataclass(frozen=True)
class AblationJob:
    """One training and its files."""

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
        """Exists once the training is finished."""
        return self.out / "weights" / f"{self.name}.safetensors"

    @property
    def finished(self) -> bool:
        """Whether there are weights; their card is written last."""
        return self.weights.with_suffix(".json").exists()

    def config(self, settings: AblationSettings, *, cuda_graphs: bool = True) -> TrainingConfig:
        """Adam with warm-up and decay; the scenes are the same in every step."""
        stream = StreamSettings(
            protocol="paper", scenes=KINDS, sizes=(settings.lines,), keep=(PROTOCOL.keep,) * 2, pool=settings.scenes,
            fresh=0,
        )  # fmt: skip
        optimisation = TrainSettings(
            steps=settings.steps, batch=settings.batch, lr=settings.rate, warmup=min(100, settings.steps),
            weight_decay=0.0, precision="float32", ema=0.99, cuda_graphs=cuda_graphs, seed=self.seed,
            checkpoint_minutes=1.0,
        )  # fmt: skip
        return TrainingConfig(
            name=self.name,
            model=ModelSettings("pluecker", self.model),
            data=stream,
            train=optimisation,
            validation=ValidationSettings(every=0, pairs=1, directed=True, cells={"all": stream}),
            card=CardSettings("synthetic houses and towns", "the paper's, directed"),
        )


def run_ablations(settings: AblationSettings, where: AblationRun) -> tuple[int, int]:
    """Train, judge and write ``OUT/ablations.json``; returns how many trainings are finished, of how many."""
    keep_settings(where.out, settings, where.kept)
    _train_all(ablation_jobs(where.out, where.kept), settings, where)
    return judge_finished(settings, where), len(ablation_jobs(where.out))


def ablation_jobs(out: Path, kept: Path | None = None) -> list[AblationJob]:
    """All trainings but those that are kept; an early end leaves whole seeds, because those of a seed come together."""
    jobs = [AblationJob(design, model, seed, out) for seed, (design, model) in product(SEEDS, DESIGNS.items())]
    known = set() if kept is None else {(run.design, run.seed) for run in _read(kept).values.trainings}
    return [job for job in jobs if (job.design, job.seed) not in known]


def judge_finished(settings: AblationSettings, where: AblationRun) -> int:
    """Judge the trainings that are finished and write ``OUT/ablations.json``, with those that are kept.

    Returns how many they are.
    """
    done = [job for job in ablation_jobs(where.out, where.kept) if job.finished]
    values = AblationValues(settings, judged(done, settings, where))
    sources = provenance("plueckernet.training.ablations", device=where.device)
    document = ResultDocument("ablations", sources.to_dict(), values)
    if where.kept is not None:
        document = joined(_read(where.kept), document)
    write_result(where.out / "ablations.json", document)
    return len(document.values.trainings)


def joined(
    earlier: ResultDocument[AblationValues], later: ResultDocument[AblationValues]
) -> ResultDocument[AblationValues]:
    """Trainings of two documents in one, in their order.

    Its provenance is that of the earlier, so that its numbers belong to the older sources; ``"later"`` lists the rest.
    """
    order = [(job.design, job.seed) for job in ablation_jobs(Path())]
    trainings = [*earlier.values.trainings, *later.values.trainings]
    trainings.sort(key=lambda run: order.index((run.design, run.seed)))
    sources = {**earlier.provenance, "later": [*earlier.provenance.get("later", ()), later.provenance]}
    return ResultDocument("ablations", sources, AblationValues(later.values.settings, tuple(trainings)))


def _read(path: Path) -> ResultDocument[AblationValues]:
    return read_result(path, "ablations", AblationValues)


def _train_all(jobs: Sequence[AblationJob], settings: AblationSettings, where: AblationRun) -> None:
    if where.processes == 1:
        for job in jobs:
            trained(job, settings, where)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(len(jobs), where.processes), spawn, begin_worker) as pool:
        list(pool.map(partial(trained, settings=settings, where=where), jobs))


def trained(job: AblationJob, settings: AblationSettings, where: AblationRun) -> bool:
    """Train, or go on with it; whether it is finished."""
    if job.finished:
        return True
    resume = (job.folder / "last" / "state.json").exists()
    quiet = (job.model, job.seed) != (PlueckerConfig(), 0)  # one of them reports
    config = job.config(settings, cuda_graphs=where.cuda_graphs)
    outcome = train(config, job.folder, device=where.device, resume=resume, minutes=where.minutes, quiet=quiet)
    if outcome.ending == "finished":
        export_weights(job.folder / "last", job.weights.parent, name=job.name, half=True)
    return outcome.ending == "finished"


def judged(jobs: list[AblationJob], settings: AblationSettings, where: AblationRun) -> tuple[TrainingRun, ...]:
    """The result of each training on held-out pairs of both kinds."""
    places = list(product(jobs, KINDS))
    cells = [Cell(StandIn(kind), PROTOCOL, published_method(job.name, job.weights)) for job, kind in places]
    with Runner(RunSettings(where.out / "predictions", workers=where.processes)) as runner:
        predictions = dict(zip(places, runner.run(cells, settings.pairs), strict=True))
    return tuple(
        TrainingRun(
            job.design, job.seed, {kind: numbers(predictions[job, kind]) for kind in KINDS},
            *history(job.folder / "log.jsonl"),
        )
        for job in jobs
    )  # fmt: skip


def numbers(predictions: list[Prediction]) -> TrainingResult:
    """Of the most probable matches, which are the network's own work, and of the poses estimated from them."""
    summary = summarise(predictions)
    right = [prediction.putative_right for prediction in predictions]
    possible = [max(1, min(prediction.common, prediction.putative)) for prediction in predictions]
    claimed = [max(1, prediction.putative) for prediction in predictions]
    recalls = [a / b for a, b in zip(right, possible, strict=True)]
    return TrainingResult(
        precision=fmean(a / b for a, b in zip(right, claimed, strict=True)),
        recall=fmean(recalls),
        success=summary.success,
        strict=summary.strict,
        rotation_median=summary.median("rotation"),
        translation_median=summary.median("translation"),
        recalls=tuple(round(value, 4) for value in recalls),
    )


def history(path: Path) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Milliseconds per step, and the loss every hundred steps, from the log of a training."""
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    steps = [entry for entry in entries if entry["kind"] == "train"]
    curve = tuple((float(entry["step"]), round(entry["loss"], 3)) for entry in steps if entry["step"] % 100 == 0)
    return fmean(entry["milliseconds"] for entry in steps), curve


def keep_settings(out: Path, settings: AblationSettings, kept: Path | None = None) -> None:
    """Keep the settings beside the trainings; a folder with other settings is left alone.

    Raises:
        InputError: The folder or the trainings that are kept have other settings.
    """
    if kept is not None and (others := _read(kept).values.settings) != settings:
        raise InputError(f"{kept} was made with other settings: {others}")
    out.mkdir(parents=True, exist_ok=True)
    path = out / "settings.json"
    if path.exists():
        known = read_json(path)
        if known != asdict(settings):
            raise InputError(f"{path.parent} was made with other settings: {known}; choose another folder")
        return
    with atomic_write(path) as stream:
        stream.write(json.dumps(asdict(settings), indent=1) + "\n")
