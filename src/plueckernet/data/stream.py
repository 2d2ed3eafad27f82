"""An endless stream of training pairs: worker processes make scenes, the device draws pairs from them."""

from __future__ import annotations

import math
import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.data.batches import Mixture, PairBatch, SceneBatch, mixed_batch, paper_batch
from plueckernet.data.noise import DirectionNoise, Noise
from plueckernet.data.prepared import INDEX, SPLITS
from plueckernet.data.primitives import to_segments
from plueckernet.data.protocols import PaperProtocol
from plueckernet.data.random_source import DeviceGenerator
from plueckernet.data.recorded import RecordedPairs
from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import read_lines

_CHUNK = 64  # scenes made at a time where the pool does not change
_AHEAD = 4  # chunks that each worker is asked for in advance
_LINES_STEP = 64  # sizes of maps of the paper's protocol are multiples of it: few shapes, little padding
_MAX_DISTANCE = 1000.0  # m from the origin, of maps that keep their frame: more is no frame for raw coordinates
_MAX_STEPS = 1 << 32  # of a training: keeps the seeds of two trainings apart

StreamProtocol = Literal["mixed", "paper", "recorded"]
"""Random subsets and surveys, any rotation; the paper's, directed; or the pairs of a prepared folder as recorded."""

Chunk = tuple[Float[np.ndarray, "c s 2 3"], Int[np.ndarray, " c"]]  # segments, and how many are real


@dataclass(frozen=True)
class StreamSettings:
    """The pairs that training sees."""

    protocol: StreamProtocol = "mixed"
    scenes: tuple[str, ...] = ("varied",)  # kinds, of :data:`plueckernet.data.scenes.SCENES`
    lines: str = ""  # a folder of line maps to use instead, in any format that `read_lines` reads
    noise: DirectionNoise = "random-axis"  # of the paper's protocol
    sizes: tuple[int, ...] = (256,)  # most lines of a map; steps take them in turn
    keep: tuple[float, float] = (0.15, 1.0)  # fraction of the lines that each side keeps, lowest and highest
    surveys: float = 0.6  # fraction of pairs that are surveys of neighbouring places
    remote: float = 0.0  # fraction of surveys that have little in common
    sparse: float = 0.0  # fraction of surveys that record only their longest lines, down to a tenth of them
    infinite: float = 0.3  # fraction of batches without endpoints; in them, surveys are a quarter as frequent
    pool: int = 4096  # scenes that pairs are drawn from
    fresh: int = 16  # scenes of the pool that are replaced at every step
    stored: int = 1024  # most lines of a scene; of larger scenes a neighbourhood or a random subset


class PairStream:
    """Batches of pairs. A batch depends only on the settings, the seed and the step, so that training can resume.

    There are ``world`` streams; stream ``rank`` gives the pairs ``rank, rank + world, ...`` of the joint batch. A step
    with larger maps has fewer pairs, so that all steps cost about the same.
    """

    def __init__(
        self,
        settings: StreamSettings,
        *,
        batch: int,
        device: str = "cpu",
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
    ) -> None:
        self.settings, self._batch, self._device, self._seed = settings, batch, device, seed
        self._rank, self._world = rank, world
        self._chunk = settings.fresh or _CHUNK
        self._capacity = max(1, settings.pool // self._chunk)  # chunks that the pool holds
        self._next = 0  # number of the chunk that enters the pool next, after those that the pool holds
        self._asked: deque[Future[Chunk]] = deque()
        spawn = multiprocessing.get_context("spawn")
        self._executor = ProcessPoolExecutor(workers, spawn, start_worker) if workers else None
        self._workers = workers
        shape = (self._capacity * self._chunk, settings.stored)
        self._endpoints = torch.zeros(*shape, 2, 3, device=device)
        self._counts = torch.zeros(shape[0], dtype=torch.long, device=device)

    def batch(self, step: int) -> PairBatch:
        """The pairs of a step."""
        s = self.settings
        lines = s.sizes[step % len(s.sizes)]
        pairs = max(self._world, round(self._batch * (s.sizes[0] / lines) ** 2))
        seed = self._seed * _MAX_STEPS + step
        if s.protocol == "recorded":
            joint = self._recorded.batch(pairs, lines, seed).to(self._device)
        else:
            with float32_products("highest"):  # the precision that networks tolerate would move lines by millimetres
                joint = self._simulated(step, pairs, lines, seed)
        return joint if self._world == 1 else _rows(joint, slice(self._rank, None, self._world))

    def _simulated(self, step: int, pairs: int, lines: int, seed: int) -> PairBatch:
        """Pairs drawn from scenes of the pool."""
        s = self.settings
        self._fill(step if s.fresh else 0)
        generator = torch.Generator(device=self._device).manual_seed(seed)
        scene = torch.randint(len(self._counts), (pairs,), generator=generator, device=self._device)
        counts = self._counts[scene]
        real = torch.arange(s.stored, device=self._device) < counts[:, None]
        scenes, random = SceneBatch(self._endpoints[scene], real), DeviceGenerator(generator, pairs)
        if s.protocol == "paper":
            # Most scenes are much smaller than the largest: padding to `lines` would be most of the work.
            needed = math.ceil(s.keep[1] * int(counts.max()) / _LINES_STEP) * _LINES_STEP
            protocol = PaperProtocol(noise=Noise(turn=s.noise))
            return paper_batch(scenes, min(lines, max(_LINES_STEP, needed)), s.keep, random, protocol)
        infinite = _alternating(step // len(s.sizes), s.infinite)
        surveys = s.surveys / 4 if infinite else s.surveys
        return mixed_batch(scenes, lines, Mixture(s.keep, surveys, s.remote, s.sparse), infinite, random)

    @cached_property
    def _recorded(self) -> RecordedPairs:
        return RecordedPairs.read(Path(self.settings.lines))

    def close(self) -> None:
        """Stop the worker processes."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _fill(self, first: int) -> None:
        """Fill the pool with the chunks that begin with ``first``."""
        if not first <= self._next <= first + self._capacity:
            self._asked.clear()
            self._next = first
        while self._next < first + self._capacity:
            self._ask()
            endpoints, counts = self._asked.popleft().result()
            start = self._next % self._capacity * self._chunk
            rows = slice(start, start + self._chunk)
            self._endpoints[rows], self._counts[rows] = self._sent(endpoints), self._sent(counts)
            self._next += 1
        if self._executor is not None and self.settings.fresh:
            self._ask()

    def _sent(self, array: np.ndarray) -> Tensor:
        """An array on the device, copied from pinned memory so that a GPU need not finish its work first."""
        tensor = torch.from_numpy(array)
        pinned = tensor.pin_memory() if self._endpoints.is_cuda else tensor
        return pinned.to(self._device, non_blocking=True)

    def _ask(self) -> None:
        """Request the next chunks."""
        wanted = 1 if self._executor is None else _AHEAD * self._workers
        while len(self._asked) < wanted:
            first = (self._next + len(self._asked)) * self._chunk
            job = (self.settings, self._seed, range(first, first + self._chunk))
            if self._executor is not None:
                self._asked.append(self._executor.submit(make_chunk, *job))
            else:
                done: Future[Chunk] = Future()
                done.set_result(make_chunk(*job))
                self._asked.append(done)


def start_worker() -> None:
    """Set up a worker process: it uses one core and leaves Ctrl-C to the main process."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def make_chunk(settings: StreamSettings, seed: int, numbers: range) -> Chunk:
    """Some scenes of the stream as padded segments, and the number of segments of each."""
    make = _maker(settings.scenes, settings.lines, settings.protocol == "paper")
    endpoints = np.zeros((len(numbers), settings.stored, 2, 3), dtype=np.float32)
    counts = np.zeros(len(numbers), dtype=np.int64)
    for row, number in enumerate(numbers):
        rng = np.random.default_rng([seed, number])
        segments = _stored(make(int(rng.integers(1 << 31)), rng), settings, rng)
        endpoints[row, : len(segments)], counts[row] = segments, len(segments)
    return endpoints, counts


def _stored(segments: Float[np.ndarray, "n 2 3"], settings: StreamSettings, rng: np.random.Generator) -> np.ndarray:
    """All segments, or as many as are stored: a random subset, or the neighbours of a random segment."""
    if len(segments) <= settings.stored:
        return segments
    if settings.protocol == "paper" or rng.random() < 0.5:
        return segments[rng.permutation(len(segments))[: settings.stored]]
    middle = segments.mean(axis=1)
    distance = np.linalg.norm(middle - middle[rng.integers(len(middle))], axis=1)
    return segments[np.argpartition(distance, settings.stored)[: settings.stored]]


@cache
def _maker(kinds: tuple[str, ...], folder: str, keep_frame: bool) -> Callable[[int, np.random.Generator], np.ndarray]:
    """A function that gives the segments of a scene by its seed."""
    if not folder:
        return lambda seed, rng: to_segments(make_scene(kinds[rng.integers(len(kinds))], seed))
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder of line maps")
    if (Path(folder) / INDEX).exists():
        raise InputError(f"{folder}: a prepared dataset; train on its folder {Path(folder) / SPLITS[0]}")
    files = sorted(path for path in Path(folder).iterdir() if path.is_file())
    maps = [to_segments((_in_own_frame if keep_frame else _centred)(read_lines(path), path)) for path in files]
    if not maps:
        raise InputError(f"{folder}: no line maps to train on")
    return lambda _, rng: maps[rng.integers(len(maps))]


def _centred(lines: LineSet, path: Path) -> LineSet:
    if lines.endpoints is None:
        raise InputError(f"{path}: training needs segments, not infinite lines")
    return lines.shifted(lines.centre())


def _in_own_frame(lines: LineSet, path: Path) -> LineSet:
    """As prepared: the paper's noise and networks depend on the origin, and evaluation does not move it either.

    The paper's protocol uses infinite lines. Those without endpoints get some, one metre apart, to be stored.
    """
    distance = float(lines.centre().norm())
    if distance > _MAX_DISTANCE:
        raise InputError(f"{path}: {distance:.0f} m from its origin; the paper's protocol needs maps near theirs")
    if lines.endpoints is not None:
        return lines
    ends = torch.tensor([-0.5, 0.5], dtype=lines.direction.dtype)[:, None] * lines.direction[:, None]
    return lines.replaced(endpoints=lines.footpoints()[:, None] + ends)


@contextmanager
def float32_products(precision: Literal["highest", "high"]) -> Iterator[None]:
    """Compute products of float32 matrices in full precision, or on a GPU in TF32, which keeps three digits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _alternating(turn: int, fraction: float) -> bool:
    """True for a fraction of all turns, evenly spaced."""
    return int((turn + 1) * fraction) > int(turn * fraction)


def _rows(batch: PairBatch, rows: slice) -> PairBatch:
    pose = batch.target_T_source
    source, target = (lines.mapped(lambda tensor: tensor[rows]) for lines in (batch.source, batch.target))
    return PairBatch(source, target, batch.correspondence[rows], Pose(pose.rotation[rows], pose.translation[rows]))
