"""Validation of a network: matching, poses from its matches and nothing else, and their errors on held-out pairs.

Poses are estimated by our RANSAC and refinement. Networks of the paper, whose lines are directed, are judged by the
paper's RANSAC.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plueckernet.data.batches import PairBatch
from plueckernet.data.stream import PairStream, StreamSettings, start_worker
from plueckernet.errors import DegenerateError, InputError
from plueckernet.estimation.matching import putative_matches
from plueckernet.estimation.published import PublishedSettings, published_pose
from plueckernet.estimation.ransac import ransac_pose
from plueckernet.estimation.refinement import refine_pose
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry import LineSet, Pose
from plueckernet.models import MatchOutput
from plueckernet.training.config import ValidationSettings
from plueckernet.training.objective import NetworkOutput, loss_of, match_quality, match_sums

SEED = 1_000_003  # of the held-out pairs, independent of the seed of the training
_BATCH_PAIRS = 16  # largest batch of the network
Error = tuple[float, float]  # degrees, metres


@dataclass(frozen=True)
class Validation:
    """Validation results of the weights of one step."""

    step: int
    cells: Mapping[str, Mapping[str, float]]  # per kind of pairs: success rate, median errors, quality of the matches

    @property
    def success(self) -> float:
        """Fraction of correct poses, averaged over the cells."""
        return statistics.fmean(cell["success"] for cell in self.cells.values())

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key, larger is better: success, then average precision of the matches or the negative loss."""
        second = (cell.get("average_precision", -cell["loss"]) for cell in self.cells.values())
        return self.success, statistics.fmean(second)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"step": self.step, "success": self.success, "cells": {k: dict(v) for k, v in self.cells.items()}}


@dataclass(frozen=True, eq=False)
class _Task:
    """One pair and its match probabilities, as arrays that are cheap to send to another process."""

    source: Mapping[str, np.ndarray]
    target: Mapping[str, np.ndarray]
    log_probability: np.ndarray
    target_T_source: np.ndarray
    directed: bool


class _Pending:
    """A validation whose poses are not all estimated yet."""

    def __init__(self, step: int, weights: Mapping[str, Tensor]) -> None:
        self.step = step
        self.weights = weights
        self.quality: dict[str, dict[str, float]] = {}
        self.errors: dict[str, list[Future[Error]]] = {}

    def done(self) -> bool:
        return all(error.done() for errors in self.errors.values() for error in errors)


class Validator:
    """Validates on fixed pairs of each cell; poses are estimated in worker processes if there are any."""

    def __init__(self, settings: ValidationSettings, device: torch.device) -> None:
        self.settings = settings
        self._cells = {name: _held_out(stream, settings.pairs, device) for name, stream in settings.cells.items()}
        self._pool: ProcessPoolExecutor | None = None
        if settings.workers:
            self._pool = ProcessPoolExecutor(settings.workers, multiprocessing.get_context("spawn"), start_worker)
        self._pending: list[_Pending] = []

    def start(self, step: int, network: nn.Module) -> None:
        """Match all pairs now and start the estimation of their poses."""
        weights = {name: value.detach().cpu().clone() for name, value in network.state_dict().items()}
        pending = _Pending(step, weights)
        for name, batches in self._cells.items():
            sums, loss, errors = torch.zeros(5), 0.0, []
            for batch in batches:
                output = _predicted(network, batch)
                loss += float(loss_of(network, output, batch)) * len(batch.correspondence)
                if isinstance(output, MatchOutput):
                    sums += match_sums(output.log_probability, batch.correspondence).cpu()
                errors += self._errors(output, batch)
            quality = match_quality(sums, len(errors)) if isinstance(output, MatchOutput) else {}
            pending.quality[name] = {**quality, "loss": loss / len(errors)}
            pending.errors[name] = errors
        self._pending.append(pending)

    def finished(self, *, wait: bool = False) -> list[tuple[Validation, Mapping[str, Tensor]]]:
        """Validations finished since the last call, each with the weights it validated."""
        results = []
        while self._pending and (wait or self._pending[0].done()):
            pending = self._pending.pop(0)
            cells = {
                name: {**self._judged([error.result() for error in errors]), **pending.quality[name]}
                for name, errors in pending.errors.items()
            }
            results.append((Validation(pending.step, cells), pending.weights))
        return results

    def close(self) -> None:
        """Stop the worker processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _errors(self, output: NetworkOutput, batch: PairBatch) -> list[Future[Error]]:
        if not isinstance(output, MatchOutput):
            poses, truths = output.pose().to(torch.float64).to("cpu"), batch.target_T_source.to("cpu")
            return [_completed(_error(poses[i], truths[i])) for i in range(len(batch.correspondence))]
        tasks = _tasks(output, batch, self.settings.directed)
        if self._pool is None:
            return [_completed(_estimated(task)) for task in tasks]
        return [self._pool.submit(_estimated, task) for task in tasks]

    def _judged(self, errors: list[Error]) -> dict[str, float]:
        correct = [turn < self.settings.angle and shift < self.settings.distance for turn, shift in errors]
        return {
            "success": sum(correct) / len(correct),
            "median_degrees": _finite(statistics.median(turn for turn, _ in errors)),
            "median_metres": _finite(statistics.median(shift for _, shift in errors)),
        }


@torch.no_grad()
def _predicted(network: nn.Module, batch: PairBatch) -> NetworkOutput:
    training = network.training
    network.eval()
    output = network(batch.source, batch.target)
    network.train(training)
    return output


def _held_out(settings: StreamSettings, pairs: int, device: torch.device) -> list[PairBatch]:
    """Held-out pairs of a stream, in batches small enough for any device."""
    count = math.ceil(pairs / _BATCH_PAIRS)
    size = math.ceil(pairs / count)
    small = replace(settings, sizes=settings.sizes[:1], pool=size, fresh=size)
    source = PairStream(small, batch=size, device=str(device), seed=SEED)
    try:
        return [source.batch(step) for step in range(count)]
    finally:
        source.close()


def _tasks(output: MatchOutput, batch: PairBatch, directed: bool) -> list[_Task]:
    sides = [_rows(lines) for lines in (batch.source, batch.target)]
    matrices = batch.target_T_source.to("cpu").matrix().to(torch.float64).numpy()
    log_probability = output.log_probability.float().cpu().numpy()
    tasks = []
    for i, matrix in enumerate(matrices):
        (source, rows), (target, columns) = (
            ({k: v[i][mask[i]] for k, v in side.items()}, mask[i]) for side, mask in sides
        )
        tasks.append(_Task(source, target, log_probability[i][rows][:, columns], matrix, directed))
    return tasks


def _rows(lines: LineSet) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A padded batch as arrays, and which of its lines are real."""
    mask = torch.ones_like(lines.direction[..., 0], dtype=torch.bool) if lines.mask is None else lines.mask
    names = [f.name for f in fields(lines) if f.name in ("direction", "moment", "endpoints")]
    arrays = {name: getattr(lines, name) for name in names}
    return {k: v.double().cpu().numpy() for k, v in arrays.items() if v is not None}, mask.cpu().numpy()


def _estimated(task: _Task) -> Error:
    """Rotation and translation error of one pair; infinite if there is no pose."""
    source, target = (
        LineSet(**{k: torch.from_numpy(v) for k, v in side.items()}) for side in (task.source, task.target)
    )
    log_probability = torch.from_numpy(task.log_probability)
    truth = Pose.from_matrix(torch.from_numpy(task.target_T_source))
    estimate = _published if task.directed else _refined
    try:
        return _error(estimate(source, target, log_probability), truth)
    except InputError:  # fewer than three lines
        return math.inf, math.inf


@torch.no_grad()
def _refined(source: LineSet, target: LineSet, log_probability: Tensor) -> Pose | None:
    """The pose by our RANSAC and refinement.

    :func:`plueckernet.register` would go on without the matches, so that it would judge the search, not the network.
    """
    longest = max(len(source), len(target))  # all lines are matched, in the order that the network saw
    settings = RegistrationSettings(max_lines=max(longest, RegistrationSettings.max_lines))
    maps, matches = settings.normalize(source, target), putative_matches(log_probability, settings.max_matches)
    scorer = RowScorer(maps.source[matches.source], maps.target[matches.target], maps.threshold)
    ranked = ransac_pose(scorer, matches.probability)
    if not len(ranked.scores):
        return None
    refinement = refine_pose(ranked.poses[0], maps.source, maps.target, maps.threshold)
    return maps.original_pose(ranked.poses[0] if refinement is None else refinement.pose)


def _published(source: LineSet, target: LineSet, log_probability: Tensor) -> Pose | None:
    """The pose by the paper's RANSAC: of the network's matches and nothing else."""
    settings = PublishedSettings()
    matches = putative_matches(log_probability, settings.matches)
    try:
        return published_pose(source[matches.source], target[matches.target], settings).target_T_source
    except DegenerateError:
        return None


def _error(estimate: Pose | None, truth: Pose) -> Error:
    if estimate is None:
        return math.inf, math.inf
    truth = truth.to(torch.float64)
    return float(estimate.angle_to(truth).rad2deg()), float((estimate.translation - truth.translation).norm())


def _completed(error: Error) -> Future[Error]:
    future: Future[Error] = Future()
    future.set_result(error)
    return future


def _finite(number: float) -> float:
    """JSON has no infinity, so it is replaced by a number larger than any error."""
    return number if math.isfinite(number) else 1e9
