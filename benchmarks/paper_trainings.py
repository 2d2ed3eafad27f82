"""All trainings of the paper's networks side by side on one GPU: ``python -m benchmarks.paper_trainings --out DIR``.

A single training leaves a GPU waiting, so several run at the same time, the most important ones first. They stop with
checkpoints when ``--seconds`` are nearly over; the same command again goes on with them. ``DIR/weights`` has those of
finished trainings. With ``--judge`` the ablations are judged, and the weights are measured on the pairs of Table 1 as
far as the time allows. ``--no-main`` trains ablations only, and ``--kept FILE`` those that an earlier document lacks.
``--pack FOLDER`` collects everything in few files.

Where the CUDA Multi-Process Service is installed, the kernels of several trainings run at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from plueckernet.evaluation.experiments.ablations import AblationSettings
from plueckernet.training import train
from plueckernet.training.ablations import AblationRun, ablation_jobs, judge_finished, keep_settings, trained
from plueckernet.training.config import TrainingConfig, load_config
from plueckernet.training.export import export_weights

TOWNS = (
    'data.scenes=["outdoor"]', "data.pool=1664", "train.steps=3400",
    "card.data=synthetic towns, up to 1,000 lines per map",
)  # fmt: skip
MAIN = {  # by importance: config and settings
    "pluecker-indoor": ("pluecker-indoor", ()),
    "pluecker-outdoor": ("pluecker-outdoor", ()),
    "pluecker-paper-indoor": ("pluecker-paper", ()),
    "pluecker-paper-outdoor": ("pluecker-paper", TOWNS),
    "regression-indoor": ("regression-indoor", ()),
    "regression-outdoor": ("regression-outdoor", ()),
}
STOPPING = 35.0  # s before the end at which trainings are stopped: they write checkpoints and validate
JUDGING = 110.0  # s more, if there is to be judged
TRIES = 3  # of a training that fails; the last without CUDA graphs
ARCHIVE_BYTES = 15_000_000


@dataclass(frozen=True)
class Plan:
    """What is asked for on the command line."""

    out: Path
    device: str
    seconds: float
    processes: int
    judge: bool
    pack: Path | None
    settings: tuple[str, ...]  # on top of those of the configs
    ablations: AblationSettings
    main: bool = True  # whether the paper's networks are trained, or ablations only
    kept: Path | None = None  # an earlier ablations.json

    @property
    def weights(self) -> Path:
        """Folder of the exported weights."""
        return self.out / "weights"

    def finished(self, name: str) -> bool:
        """Whether a training is finished and exported."""
        if name in MAIN:
            return (self.weights / f"{name}.json").exists()
        return next(job for job in ablation_jobs(self.out / "ablations") if job.name == name).finished

    def names(self) -> list[str]:
        """All trainings, the most important first."""
        return [*(MAIN if self.main else ()), *(job.name for job in ablation_jobs(self.out / "ablations", self.kept))]

    def folder(self, name: str) -> Path:
        """Checkpoints and log of a training."""
        return self.out / "trainings" / name if name in MAIN else self.out / "ablations" / "trainings" / name


# In the process of one training


def run_one(plan: Plan, name: str, minutes: float, graphs: bool) -> None:
    """Train, or go on with it, and export it at the end of its schedule."""
    if name not in MAIN:
        where = AblationRun(plan.out / "ablations", plan.device, minutes, cuda_graphs=graphs)
        trained(next(job for job in ablation_jobs(where.out) if job.name == name), plan.ablations, where)
        return
    config, settings = MAIN[name]
    plain = () if graphs else ("train.cuda_graphs=false",)
    loaded = load_config(config, (*settings, "validation.workers=0", *plan.settings, *plain))
    folder = plan.folder(name)
    resume = (folder / "last" / "state.json").exists()
    outcome = train(replace(loaded, name=name), folder, device=plan.device, resume=resume, minutes=minutes)
    if outcome.ending == "finished":
        export(plan, name, plan.weights)


def export(plan: Plan, name: str, out: Path) -> None:
    """The last weights; without a schedule that ends the noise of the steps, those of the best validation."""
    constant = load_config(MAIN[name][0]).train.schedule == "constant"
    folder = plan.folder(name)
    best = constant and (folder / "best" / "state.json").exists()
    export_weights(folder / ("best" if best else "last"), out, name=name, half=True)


def probe(device: str) -> None:
    """Whether steps that are recorded as CUDA graphs give the losses of steps that are not."""
    import warnings

    import torch

    from plueckernet.data.stream import PairStream
    from plueckernet.training.distributed import Processes
    from plueckernet.training.trainer import Trainer

    def losses(config: TrainingConfig) -> list[float]:
        source = PairStream(config.data, batch=config.train.batch, device=device)
        trainer = Trainer(config, Processes(torch.device(device)))
        return [trainer.advance(source.batch(step), source).loss for step in range(6)]

    warnings.simplefilter("error", RuntimeWarning)  # of steps that could not be recorded
    small = ("model.layers=4", "train.batch=4", "data.pool=64", "data.sizes=[256]", "train.steps=100", "train.warmup=0")
    config = load_config("pluecker-indoor", small)
    plain, recorded = (losses(replace(config, train=replace(config.train, cuda_graphs=on))) for on in (False, True))
    print("losses of plain and recorded steps:", plain, recorded, flush=True)
    if any(abs(a - b) > 0.02 * abs(a) for a, b in zip(plain, recorded, strict=True)):
        sys.exit("recorded steps give other losses")


# In the process that starts the others


def child(plan: Plan, *arguments: str) -> list[str]:
    """The command of a process."""
    chosen = [f"--set={setting}" for setting in plan.settings]
    chosen += [f"--ablations={key}={value}" for key, value in asdict(plan.ablations).items()]
    return [sys.executable, "-m", "benchmarks.paper_trainings", f"--out={plan.out}", f"--device={plan.device}",
            *chosen, *arguments]  # fmt: skip


@contextmanager
def multi_process_service(plan: Plan) -> Iterator[dict[str, str]]:
    """The environment of processes that share the GPU by the service; empty where it is not there."""
    pipes = plan.out.resolve() / "mps"
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(pipes)}
    pipes.mkdir(parents=True, exist_ok=True)
    control = None if plan.device == "cpu" else shutil.which("nvidia-cuda-mps-control")
    if control is None:
        yield {}
        return
    with (pipes / "control.txt").open("ab") as log:  # not our output: nobody would wait for its end
        daemon = subprocess.Popen(
            [control, "-f"], env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        time.sleep(2)
        yield environment if daemon.poll() is None else {}
    finally:
        if daemon.poll() is None:
            quit_service(control, os.environ | environment)
            daemon.terminate()


def quit_service(control: str, environment: dict[str, str]) -> None:
    """Ask the service to end."""
    process = subprocess.Popen(
        [control], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        process.communicate(b"quit\n", timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        print("the multi-process service does not answer", flush=True)


def works(plan: Plan, environment: dict[str, str]) -> bool:
    """Whether a process can train in this environment; one that hangs is left behind."""
    path = plan.out / "probe.txt"
    with path.open("wb") as log:
        process = subprocess.Popen(child(plan, "--probe"), env=os.environ | environment, stdout=log, stderr=log)
    try:
        succeeded = process.wait(60) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        succeeded = False
    print(path.read_text()[-600:], flush=True)
    return succeeded


def train_all(plan: Plan, environment: dict[str, str], graphs: bool, deadline: float) -> None:
    """Keep ``processes`` trainings running until all are finished or the deadline."""
    waiting = [name for name in plan.names() if not plan.finished(name)]
    running: dict[str, subprocess.Popen[bytes]] = {}
    tries: dict[str, int] = {}
    while (waiting and time.monotonic() < deadline - 20) or running:
        while waiting and len(running) < plan.processes and time.monotonic() < deadline - 20:
            name = waiting.pop(0)
            tries[name] = tries.get(name, 0) + 1
            running[name] = start(plan, name, environment, graphs and tries[name] < TRIES, deadline)
        for name, process in list(running.items()):
            if process.poll() is None:
                continue
            del running[name]
            print(f"{name}: exit {process.returncode}, finished: {plan.finished(name)}", flush=True)
            if process.returncode and tries[name] < TRIES:
                waiting.insert(0, name)
        if time.monotonic() > deadline + STOPPING / 2:
            for process in running.values():
                stop = process.terminate if time.monotonic() < deadline + STOPPING - 10 else process.kill
                stop()
        time.sleep(0.5)


def start(plan: Plan, name: str, environment: dict[str, str], graphs: bool, deadline: float) -> subprocess.Popen[bytes]:
    """The process of one training."""
    minutes = (deadline - time.monotonic()) / 60
    (plan.out / "logs").mkdir(parents=True, exist_ok=True)
    plain = [] if graphs else ["--no-graphs"]
    with (plan.out / "logs" / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            child(plan, f"--only={name}", f"--minutes={minutes}", *plain),
            env=os.environ | environment, stdout=log, stderr=log,
        )  # fmt: skip


def judge(plan: Plan, end: float) -> None:
    """Judge the ablations, then measure the new weights as far as there is time."""
    where = AblationRun(plan.out / "ablations", "cpu", processes=plan.processes, kept=plan.kept)
    done = judge_finished(plan.ablations, where)
    print(f"{done} ablations judged", flush=True)
    for noise in ("each-axis", "random-axis"):
        for kind, pairs in (("indoor", 525), ("outdoor", 298)):
            names = [name for name in (f"pluecker-{kind}", f"regression-{kind}") if plan.finished(name)]
            left = end - time.monotonic() - 10
            if not names or left < 5:
                continue
            command = [sys.executable, "-m", "plueckernet.cli", "evaluate", "methods", *names, f"--dataset={kind}",
                       f"--noise={noise}", f"--pairs={pairs}", f"--weights={plan.weights}",
                       f"--workers={plan.processes}", f"--out={plan.out / 'predictions'}"]  # fmt: skip
            try:
                done_process = subprocess.run(command, timeout=left, check=False, capture_output=True, text=True)
                print(kind, noise, done_process.stdout[-2000:], done_process.stderr[-500:], flush=True)
            except subprocess.TimeoutExpired:
                print(f"{kind}, {noise}: no time left", flush=True)


def pack(plan: Plan, folder: Path) -> None:
    """Weights, and what says how they came to be, in few archives; unfinished weights in a folder of that name."""
    for name in MAIN:
        if not plan.finished(name) and (plan.folder(name) / "last" / "state.json").exists():
            export(plan, name, plan.out / "unfinished")
    weights = [*sorted(plan.weights.glob("*")), *sorted((plan.out / "unfinished").glob("*"))]
    rest = [path for kind in ("logs", "predictions") for path in sorted((plan.out / kind).rglob("*")) if path.is_file()]
    rest += sorted(plan.out.glob("**/log.jsonl")) + sorted((plan.out / "ablations").glob("*.json"))
    rest += sorted((plan.out / "ablations" / "weights").glob("*.json"))
    archives: list[list[Path]] = [[]]
    for path in weights:
        if sum(other.stat().st_size for other in archives[-1]) + path.stat().st_size > ARCHIVE_BYTES:
            archives.append([])
        archives[-1].append(path)
    for number, paths in enumerate(archives, 1):
        with tarfile.open(folder / f"weights-{number}.tar", "w") as archive:
            for path in paths:
                archive.add(path, path.relative_to(plan.out))
    with tarfile.open(folder / "rest.tar.gz", "w:gz") as archive:
        for path in rest:
            archive.add(path, path.relative_to(plan.out))


def table(plan: Plan) -> None:
    """How far each training is; last thing on the screen."""
    print(f"\n{'training':32} {'step':>6} {'of':>6} {'ms':>6} {'loss':>8} {'success':>8}  finished")
    for name in plan.names():
        log, state = plan.folder(name) / "log.jsonl", plan.folder(name) / "last" / "state.json"
        if not log.exists() or not state.exists():
            print(f"{name:32} not begun")
            continue
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        steps = [line for line in lines if line["kind"] == "train"]
        success = [line["success"] for line in lines if line["kind"] != "train"]
        kept = json.loads(state.read_text())
        last = steps[-1] if steps else {"loss": float("nan"), "milliseconds": float("nan")}
        print(
            f"{name:32} {kept['step']:6} {kept['config']['train']['steps']:6} {last['milliseconds']:6.1f} "
            f"{last['loss']:8.3f} {success[-1] if success else float('nan'):8.3f}  {plan.finished(name)}"
        )


def main() -> None:
    """Run what is asked for."""
    begin = time.monotonic()
    plan, options = parsed()
    if options.probe:
        return probe(plan.device)
    if options.only:
        return run_one(plan, options.only, options.minutes, not options.no_graphs)
    keep_settings(plan.out / "ablations", plan.ablations, plan.kept)
    end = begin + plan.seconds
    with multi_process_service(plan) as environment:
        graphs = plan.device == "cpu" or works(plan, environment)
        if environment and not graphs:
            environment = {}
            graphs = works(plan, environment)
        shared = "with" if environment else "without"
        print(f"{time.monotonic() - begin:.0f} s: {shared} multi-process service, CUDA graphs: {graphs}", flush=True)
        train_all(plan, environment, graphs, end - STOPPING - JUDGING * plan.judge)
    print(f"{time.monotonic() - begin:.0f} s: trainings stopped", flush=True)
    if plan.judge:
        judge(plan, end)
    if plan.pack is not None:
        pack(plan, plan.pack)
    table(plan)
    print(f"{time.monotonic() - begin:.0f} s in all", flush=True)


def parsed() -> tuple[Plan, argparse.Namespace]:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=570)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--judge", action="store_true", help="judge and measure after training")
    parser.add_argument("--pack", type=Path, help="folder for archives of the results")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--ablations", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--no-main", action="store_true", help="train ablations only")
    parser.add_argument("--kept", type=Path, help="an earlier ablations.json, whose trainings are not repeated")
    for hidden in ("--only", "--minutes"):
        parser.add_argument(hidden, help=argparse.SUPPRESS, type=float if hidden == "--minutes" else str)
    for hidden in ("--probe", "--no-graphs"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = dict(entry.split("=", 1) for entry in options.ablations)
    ablations = AblationSettings(
        **{key: float(value) if key == "rate" else int(value) for key, value in chosen.items()}
    )
    plan = Plan(
        options.out, options.device, options.seconds, options.processes, options.judge, options.pack,
        tuple(options.settings), ablations, not options.no_main, options.kept,
    )  # fmt: skip
    return plan, options


if __name__ == "__main__":
    main()
