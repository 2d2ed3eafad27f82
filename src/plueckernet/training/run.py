"""A training from beginning to end: steps, with reports, checkpoints and validation on the way."""

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
class Outcome:
    """How a training ended."""

    step: int  # steps taken, earlier runs included
    ending: Ending
    best: Mapping[str, Any] | None  # the best validation so far
    skipped: int  # steps left out because they were bad
    returned: int  # times training went back to where it was good


def train(
    config: TrainingConfig,
    out: Path,
    *,
    device: str = "cpu",
    resume: bool = False,
    minutes: float | None = None,
    source: PairSource | None = None,
    quiet: bool = False,
) -> Outcome:
    """Train as the config says and leave ``out/last`` and ``out/best``; stops cleanly after ``minutes``.

    Pairs come from the config's [data], or from ``source``. Under `torchrun` each process calls this alike.
    """
    settings = config.train
    clock = _Clock(minutes)
    with ExitStack() as stack:
        these = stack.enter_context(processes(device, settings.batch))
        if these.device.type == "cuda":
            stack.enter_context(float32_products("high"))  # TF32
        stop = stack.enter_context(_signals())
        trainer = Trainer(config, these)
        last = out / "last"
        if resume:
            trainer.load(load_checkpoint(last))
            if (out / "best" / "state.json").exists():  # newer than `last`, if something broke in between
                trainer.best = load_checkpoint(out / "best").state["best"]
        elif (last / "state.json").exists():
            raise InputError(f"{out} already has a training: continue it by --resume, or choose another folder")
        if source is None:
            source = PairStream(
                config.data, batch=settings.batch, device=str(these.device), seed=settings.seed,
                rank=these.rank, world=these.world, workers=settings.workers,
            )  # fmt: skip
            stack.callback(source.close)
        office = None
        if these.first:
            office = stack.enter_context(_Office.opened(config, out, these.device, quiet))
        return _loop(trainer, source, office, clock, stop)


def _loop(trainer: Trainer, source: PairSource, office: _Office | None, clock: _Clock, stop: _Stop) -> Outcome:
    steps = trainer.config.train.steps
    ending: Ending = "finished"
    batch = source.batch(trainer.step) if trainer.step < steps else None
    if office is not None:
        office.begin(trainer.step)
    while batch is not None:
        result = trainer.advance(batch, source, stop=stop.wanted or clock.over())
        batch = result.following
        if office is not None:
            office.after(trainer, result)
        if result.stop and batch is not None:
            ending = "interrupted" if stop.wanted else "time"
            break
    if office is not None:
        office.end(trainer, ending)
    guard = trainer.guard
    return Outcome(trainer.step, ending, trainer.best, guard.skipped, guard.returned)


class _Office:
    """What only the first process does: validate, write, report."""

    def __init__(self, config: TrainingConfig, out: Path, reporter: Reporter, validator: Validator) -> None:
        self.config, self.out, self.reporter, self.validator = config, out, reporter, validator
        self._saved = self._logged = time.monotonic()
        self._logged_step = 0

    @staticmethod
    @contextmanager
    def opened(config: TrainingConfig, out: Path, device: torch.device, quiet: bool) -> Iterator[_Office]:
        with closing(Validator(config.validation, device)) as validator:
            try:
                out.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"{out}: cannot be made: {error.strerror or error}") from error
            with closing(Reporter(out, config.train.steps, quiet=quiet)) as reporter:
                yield _Office(config, out, reporter, validator)

    def begin(self, step: int) -> None:
        """From here on time is counted: the first pairs are there."""
        self._logged, self._logged_step = time.monotonic(), step

    def after(self, trainer: Trainer, result: StepResult) -> None:
        """Everything that may be due after a step."""
        settings, step = self.config.train, trainer.step
        if result.verdict == "back":
            self.reporter.say(
                f"step {step}: went back to where it was good, with half the rate (loss {result.loss:.3g})"
            )
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
        """Leave a checkpoint, before anything else and again with what the validation under way says."""
        save_checkpoint(self.out / "last", trainer.checkpoint())
        if self._collect(trainer, wait=True):
            save_checkpoint(self.out / "last", trainer.checkpoint())
        steps, guard = self.config.train.steps, trainer.guard
        if guard.skipped:
            self.reporter.say(f"{guard.skipped} bad steps were left out; went back {guard.returned} times")
        why = {"finished": "finished", "time": "time is up", "interrupted": "interrupted"}[ending]
        more = "" if ending == "finished" else "; --resume continues"
        self.reporter.say(f"{why} after {trainer.step} of {steps} steps, checkpoint in {self.out / 'last'}{more}")

    def _log(self, trainer: Trainer, result: StepResult) -> None:
        now = time.monotonic()
        numbers = {"loss": result.loss, **result.quality, "gradient": result.gradient, "rate": result.rate}
        numbers["milliseconds"] = 1000 * (now - self._logged) / max(1, trainer.step - self._logged_step)
        numbers["skipped"] = trainer.guard.skipped
        self._logged, self._logged_step = now, trainer.step
        self.reporter.step(trainer.step, numbers)

    def _collect(self, trainer: Trainer, *, wait: bool) -> bool:
        """Report the validations that are done, keep the best; whether there was a new best."""
        found = False
        for validation, weights in self.validator.finished(wait=wait):
            best = trainer.best is None or validation.rank > tuple(trainer.best["rank"])
            if best:
                trainer.best = {**validation.to_dict(), "rank": list(validation.rank)}
                state = trainer.description() | {"step": validation.step}
                save_checkpoint(self.out / "best", Checkpoint({"model": weights}, state))
            self.reporter.validation(validation, best=best)
            found = found or best
        return found


class _Clock:
    """When time is up."""

    def __init__(self, minutes: float | None) -> None:
        self._end = math.inf if minutes is None else time.monotonic() + 60 * minutes

    def over(self) -> bool:
        return time.monotonic() > self._end


class _Stop:
    """Whether somebody asked to stop."""

    wanted = False


@contextmanager
def _signals() -> Iterator[_Stop]:
    """Let the first SIGINT or SIGTERM end training after the step under way; a second one ends it at once."""
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def asked(number: int, _frame: object) -> None:
        stop.wanted = True
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, asked)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
