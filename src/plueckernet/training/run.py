"""A complete training: steps, reports, checkpoints and validations."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from plueckernet.data.stream import PairStream, float32_products
from plueckernet.errors import InputError
from plueckernet.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from plueckernet.training.config import TrainingConfig
from plueckernet.training.distributed import processes
from plueckernet.training.reporting import Reporter
from plueckernet.training.trainer import PairSource, StepResult, Trainer
from plueckernet.training.validation import Validator

Ending = Literal["finished", "time", "interrupted"]


@dataclass(frozen=True)
class TrainingOutcome:
    """The result of a training."""

    step: int  # steps taken, including those of earlier runs
    ending: Ending
    best: Mapping[str, Any] | None  # the best validation so far
    skipped: int  # bad steps that were not taken
    rollbacks: int  # times training was rolled back to a snapshot


def train(
    config: TrainingConfig,
    out: Path,
    *,
    device: str = "cpu",
    resume: bool = False,
    minutes: float | None = None,
    source: PairSource | None = None,
    quiet: bool = False,
) -> TrainingOutcome:
    """Train as configured and write ``out/last`` and ``out/best``; stop cleanly after ``minutes``.

    Pairs come from the config's [data], or from ``source``. Under `torchrun` every process calls this function.
    """
    settings = config.train
    clock = _Clock(minutes)
    with ExitStack() as stack:
        group = stack.enter_context(processes(device, settings.batch))
        if group.device.type == "cuda":
            stack.enter_context(float32_products("high"))  # TF32
        stop = stack.enter_context(_signals())
        trainer = Trainer(config, group)
        last = out / "last"
        if resume:
            trainer.load(load_checkpoint(last))
            if (out / "best" / "state.json").exists():  # newer than `last` if the run was interrupted in between
                trainer.best = load_checkpoint(out / "best").state["best"]
        elif (last / "state.json").exists():
            raise InputError(f"{out} already has a training: continue it with --resume, or choose another folder")
        if source is None:
            source = PairStream(
                config.data, batch=settings.batch, device=str(group.device), seed=settings.seed,
                rank=group.rank, world=group.world, workers=settings.workers,
            )  # fmt: skip
            stack.callback(source.close)
        host = None
        if group.first:
            host = stack.enter_context(_Host.opened(config, out, group.device, quiet))
        return _loop(trainer, source, host, clock, stop)


def _loop(trainer: Trainer, source: PairSource, host: _Host | None, clock: _Clock, stop: _Stop) -> TrainingOutcome:
    steps = trainer.config.train.steps
    ending: Ending = "finished"
    batch = source.batch(trainer.step) if trainer.step < steps else None
    if host is not None:
        host.begin(trainer.step)
    while batch is not None:
        result = trainer.advance(batch, source, stop=stop.wanted or clock.over())
        batch = result.following
        if host is not None:
            host.after(trainer, result)
        if result.stop and batch is not None:
            ending = "interrupted" if stop.wanted else "time"
            break
    if host is not None:
        host.end(trainer, ending)
    guard = trainer.guard
    return TrainingOutcome(trainer.step, ending, trainer.best, guard.skipped, guard.rollbacks)


class _Host:
    """The tasks of the first process only: validation, checkpoints, reports."""

    def __init__(self, config: TrainingConfig, out: Path, reporter: Reporter, validator: Validator) -> None:
        self.config, self.out, self.reporter, self.validator = config, out, reporter, validator
        self._saved = self._logged = time.monotonic()
        self._logged_step = 0

    @staticmethod
    @contextmanager
    def opened(config: TrainingConfig, out: Path, device: torch.device, quiet: bool) -> Iterator[_Host]:
        with closing(Validator(config.validation, device)) as validator:
            try:
                out.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{out}: cannot be created: {error.strerror or error}") from error
            with closing(Reporter(out, config.train.steps, quiet=quiet)) as reporter:
                yield _Host(config, out, reporter, validator)

    def begin(self, step: int) -> None:
        """Start the timing, after the first pairs have been made."""
        self._logged, self._logged_step = time.monotonic(), step

    def after(self, trainer: Trainer, result: StepResult) -> None:
        """Reports, validation and checkpoints that are due after a step."""
        settings, step = self.config.train, trainer.step
        if result.decision == "rollback":
            self.reporter.say(f"step {step}: rolled back, learning rate halved (loss {result.loss:.3g})")
        if step % settings.log_every == 0 or step == settings.steps:
            self._log(trainer, result)
        every = self.config.validation.every
        if step == settings.steps or (every and step % every == 0):
            self.validator.start(step, trainer.weights)
        self._collect(trainer, wait=False)
        if time.monotonic() - self._saved > 60 * settings.checkpoint_minutes:
            save_checkpoint(self.out / "last", trainer.checkpoint())
            self._saved = time.monotonic()

    def end(self, trainer: Trainer, ending: Ending) -> None:
        """Write a checkpoint at once, and again if the pending validation gives a new best."""
        save_checkpoint(self.out / "last", trainer.checkpoint())
        if self._collect(trainer, wait=True):
            save_checkpoint(self.out / "last", trainer.checkpoint())
        steps, guard = self.config.train.steps, trainer.guard
        if guard.skipped:
            self.reporter.say(f"{guard.skipped} bad steps skipped, {guard.rollbacks} rollbacks")
        reason = {"finished": "finished", "time": "time limit reached", "interrupted": "interrupted"}[ending]
        hint = "" if ending == "finished" else "; --resume continues"
        self.reporter.say(f"{reason} after {trainer.step} of {steps} steps, checkpoint in {self.out / 'last'}{hint}")

    def _log(self, trainer: Trainer, result: StepResult) -> None:
        now = time.monotonic()
        numbers = {"loss": result.loss, **result.quality, "gradient": result.gradient, "rate": result.rate}
        numbers["milliseconds"] = 1000 * (now - self._logged) / max(1, trainer.step - self._logged_step)
        numbers["skipped"] = trainer.guard.skipped
        self._logged, self._logged_step = now, trainer.step
        self.reporter.step(trainer.step, numbers)

    def _collect(self, trainer: Trainer, *, wait: bool) -> bool:
        """Report finished validations and save the best; whether there was a new best."""
        improved = False
        for validation, weights in self.validator.finished(wait=wait):
            best = trainer.best is None or validation.rank > tuple(trainer.best["rank"])
            if best:
                trainer.best = {**validation.to_dict(), "rank": list(validation.rank)}
                state = trainer.description() | {"step": validation.step}
                save_checkpoint(self.out / "best", Checkpoint({"model": weights}, state))
            self.reporter.validation(validation, best=best)
            improved = improved or best
        return improved


class _Clock:
    """The time limit."""

    def __init__(self, minutes: float | None) -> None:
        self._end = math.inf if minutes is None else time.monotonic() + 60 * minutes

    def over(self) -> bool:
        return time.monotonic() > self._end


class _Stop:
    """Whether a signal requested a stop."""

    wanted = False


@contextmanager
def _signals() -> Iterator[_Stop]:
    """The first SIGINT or SIGTERM ends training after the current step; a second one ends it at once."""
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, _frame: object) -> None:
        stop.wanted = True
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
