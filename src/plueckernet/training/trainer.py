"""Training steps and the state that they change."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from plueckernet.data.batches import PairBatch
from plueckernet.errors import InputError
from plueckernet.models import MatchOutput
from plueckernet.training.checkpoint import Checkpoint
from plueckernet.training.config import TrainingConfig, TrainSettings, parse_model
from plueckernet.training.distributed import Processes
from plueckernet.training.guard import SNAPSHOT_EVERY, Guard, StepDecision
from plueckernet.training.objective import NetworkOutput, autocast, loss_of, match_quality, match_sums
from plueckernet.training.passes import Passes, RecordedPasses
from plueckernet.version import __version__

_COUNT = "#steps"  # suffix of a parameter's name: number of optimizer steps of its moments


@runtime_checkable
class PairSource(Protocol):
    """A source of pairs; it gives the same pairs for the same step, so resuming needs no state."""

    def batch(self, step: int) -> PairBatch:
        """The pairs of a step."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...


@dataclass(frozen=True, eq=False)
class StepResult:
    """The result of a step."""

    loss: float
    gradient: float  # norm before clipping
    rate: float
    decision: StepDecision
    stop: bool  # whether any process requested a stop
    quality: Mapping[str, float]  # of the matches; only in steps that are logged
    following: PairBatch | None  # the next pairs, made while the device was busy


class Trainer:
    """Network, moving average and optimizer."""

    def __init__(self, config: TrainingConfig, group: Processes) -> None:
        self.config = config
        self.group = group
        settings = config.train
        model = config.model.pretrained(settings.start) if settings.start else config.model.build(settings.seed)
        self.network: nn.Module = model.to(group.device)
        self.average = copy.deepcopy(self.network).requires_grad_(False) if settings.ema else None
        self.optimizer = torch.optim.AdamW(
            self.network.parameters(), lr=settings.lr, weight_decay=settings.weight_decay,
            fused=group.device.type == "cuda",
        )  # fmt: skip
        forward = group.parallel(self.network)
        self._forward = torch.compile(forward, dynamic=False) if settings.compile else forward
        recorded = settings.cuda_graphs and group.device.type == "cuda" and group.world == 1
        self._run = RecordedPasses(self._passes, self.network) if recorded else self._passes
        self.guard = Guard()
        self.step = 0
        self.best: Mapping[str, Any] | None = None
        self._snapshots = [self._snapshot()]

    @property
    def weights(self) -> nn.Module:
        """The network to be validated and exported."""
        return self.network if self.average is None else self.average

    def advance(self, batch: PairBatch, source: PairSource, *, stop: bool = False) -> StepResult:
        """Take one step unless it is bad; the next pairs are made while the device computes.

        ``stop`` requests all processes to end after this step.
        """
        settings = self.config.train
        # The random numbers depend only on the step, so a resumed training draws the same ones.
        torch.manual_seed(hash((settings.seed, self.step, self.group.rank)) % 2**63)
        rate = self.guard.rate * learning_rate(self.step, settings)
        self.optimizer.param_groups[0]["lr"] = rate
        output, loss, norm = self._run(batch)
        flag = torch.full_like(norm, float(stop))
        numbers = self.group.average(torch.stack([loss.to(norm.dtype), norm, flag]))
        upcoming = source.batch(self.step + 1) if self.step + 1 < settings.steps else None
        value, gradient, stopping = numbers.tolist()  # synchronises with the device
        logged = (self.step + 1) % settings.log_every == 0 or self.step + 1 == settings.steps
        quality = _quality(output, batch) if logged else {}
        decision = self.guard.judge(value, gradient)
        self._apply(decision)
        self.step += 1
        if decision == "take" and self.step % SNAPSHOT_EVERY == 0:
            self._snapshots = [self._snapshots[-1], self._snapshot()]
        return StepResult(value, gradient, rate, decision, stopping > 0, quality, upcoming)

    def _passes(self, batch: PairBatch) -> Passes:
        """Forward, loss, backward, and the gradient cut to its longest length."""
        settings = self.config.train
        with autocast(self.group.device.type, settings.precision == "bf16"):
            output = self._forward(batch.source, batch.target)
        loss = loss_of(self.network, output, batch) * self.group.loss_weight(len(batch.correspondence))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), settings.clip)
        return Passes(type(output)(*(tensor.detach() for tensor in output)), loss.detach(), norm)

    def _apply(self, decision: StepDecision) -> None:
        if decision == "take":
            self.optimizer.step()
            self._update_average()
        elif decision == "rollback":
            self._restore(self._snapshots[0])  # the older one: the newer may already be diverging

    @torch.no_grad()
    def _update_average(self) -> None:
        """Move the average towards the weights; faster in the first steps."""
        if self.average is None:
            return
        decay = min(self.config.train.ema, (1 + self.step) / (10 + self.step))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.network.parameters()), 1 - decay)
        for own, new in zip(self.average.buffers(), self.network.buffers(), strict=True):
            own.copy_(new)

    # Checkpoints and snapshots

    def checkpoint(self) -> Checkpoint:
        """The complete state, from which training resumes exactly."""
        return Checkpoint(self._tensors(), self.description() | {"guard": self.guard.state()})

    def description(self) -> dict[str, Any]:
        """Version, step, best validation and config as plain data."""
        return {"version": __version__, "step": self.step, "best": self.best, "config": self.config.to_tables()}

    def load(self, checkpoint: Checkpoint) -> None:
        """Restore a checkpoint; a checkpoint of another network raises :class:`InputError`."""
        state = checkpoint.state
        try:
            if parse_model(state["config"]["model"], Path("state.json")) != self.config.model:
                raise InputError("the checkpoint belongs to another network than [model] describes")
            self._restore(checkpoint.tensors)
            self.step, self.best = state["step"], state["best"]
            self.guard.load(state["guard"])
        except (KeyError, TypeError) as error:
            raise InputError(f"the checkpoint has no complete state: {error}") from error
        self._snapshots = [self._snapshot()]

    def _tensors(self) -> dict[str, dict[str, Tensor]]:
        names = [name for name, _ in self.network.named_parameters()]
        moments = self.optimizer.state_dict()["state"]
        groups = {"model": dict(self.network.state_dict())}
        if self.average is not None:
            groups["ema"] = dict(self.average.state_dict())
        for group, key in (("first_moment", "exp_avg"), ("second_moment", "exp_avg_sq")):
            groups[group] = {names[i]: state[key] for i, state in moments.items()}
        groups["second_moment"] |= {f"{names[i]}{_COUNT}": state["step"] for i, state in moments.items()}
        return groups

    def _snapshot(self) -> dict[str, dict[str, Tensor]]:
        return {group: {k: v.clone() for k, v in tensors.items()} for group, tensors in self._tensors().items()}

    def _restore(self, groups: Mapping[str, Mapping[str, Tensor]]) -> None:
        try:
            self.network.load_state_dict(groups["model"])
            if self.average is not None:
                self.average.load_state_dict(groups.get("ema", groups["model"]))
            state = self.optimizer.state_dict()
            first, second = groups["first_moment"], groups["second_moment"]
            names = [name for name, _ in self.network.named_parameters()]
            state["state"] = {
                i: {
                    "step": second[f"{name}{_COUNT}"].clone(),
                    "exp_avg": first[name].clone(),
                    "exp_avg_sq": second[name].clone(),
                }
                for i, name in enumerate(names)
                if name in first
            }
            self.optimizer.load_state_dict(state)
        except (KeyError, RuntimeError) as error:
            raise InputError(f"the checkpoint does not fit the network: {error}") from error


def _quality(output: NetworkOutput, batch: PairBatch) -> dict[str, float]:
    if not isinstance(output, MatchOutput):
        return {}
    return match_quality(match_sums(output.log_probability, batch.correspondence), len(batch.correspondence))


def learning_rate(step: int, settings: TrainSettings) -> float:
    """Linear warm-up, then a half cosine down to zero or a constant rate."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup))
    if settings.schedule == "constant":
        return settings.lr * warm
    return settings.lr * warm * (1 + math.cos(math.pi * step / settings.steps)) / 2
