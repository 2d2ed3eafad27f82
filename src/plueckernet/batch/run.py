"""`run_batch`: all pairs, whatever happens to workers and driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from plueckernet.batch.identity import batch_identity
from plueckernet.batch.pairs import BatchPair
from plueckernet.batch.rows import ERROR, error_row
from plueckernet.batch.store import BatchFolder, write_pending
from plueckernet.batch.worker import PairRegistration, PairWorker, RegisterFunction, registration_identity
from plueckernet.errors import InputError, WorkerLostError
from plueckernet.parallel import Executor, ProcessExecutor


@dataclass(frozen=True)
class BatchSummary:
    """What a batch has come to."""

    pairs: int
    computed: int  # in this run; the others were there
    statuses: dict[str, int]  # number of pairs by status

    @property
    def errors(self) -> int:
        """Number of pairs that could not be computed."""
        return self.statuses.get(ERROR, 0)


@dataclass(frozen=True)
class BatchOptions:
    """How a batch runs; nothing of it changes a result."""

    batch_size: int = 1  # pairs that a worker gets at a time
    retry: bool = False  # compute pairs that ended in an error again
    on_progress: Callable[[int, int], None] | None = None  # called with the number of rows and of pairs
    on_wait: Callable[[], None] | None = None  # called if workers of a driver that was killed have to end first

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch size: expected at least 1, got {self.batch_size}")


def run_batch(
    pairs: Sequence[BatchPair],
    out_dir: str | Path,
    register_function: RegisterFunction = PairRegistration(),
    workers: int | Executor = 1,
    options: BatchOptions = BatchOptions(),
) -> BatchSummary:
    """Register all pairs and write a row for each to Parquet files in ``out_dir``, or continue where it stopped.

    Every pair gets one row, also one that cannot be computed: its status is ``error``, with the reason. A worker or
    driver that is killed loses only the pairs it is computing; started again, the batch computes those and no others.

    Args:
        pairs: The pairs; their files have to be the same when the batch continues.
        out_dir: The folder of results; on a cluster, one that all nodes share.
        register_function: Registers pairs of line sets.
        workers: Number of processes of one thread each, or an executor.
        options: See :class:`BatchOptions`.

    Raises:
        InputError: The folder has another batch, or is in use.
        MissingDependencyError: pyarrow, or the package of the executor, is not installed.
    """
    out_dir = Path(out_dir).absolute()
    executor = ProcessExecutor(workers) if isinstance(workers, int) else workers
    identity = batch_identity(pairs, registration_identity(register_function))
    with BatchFolder.opened(out_dir, identity, options.on_wait, retry=options.retry) as folder:
        begun = len(folder.done)
        work = PairWorker(out_dir, folder.token, register_function)
        # A worker that dies with several pairs leaves open which of them killed it; they are tried one by one.
        for size in sorted({options.batch_size, 1}, reverse=True):
            _pass(folder, work, pairs, executor, (size, options.on_progress))
        return BatchSummary(len(pairs), len(folder.done) - begun, dict(folder.finish()))


def _pass(
    folder: BatchFolder,
    work: PairWorker,
    pairs: Sequence[BatchPair],
    executor: Executor,
    how: tuple[int, Callable[[int, int], None] | None],
) -> None:
    """Compute all pairs without a row, so many at a time."""
    size, on_progress = how
    missing = [(number, _absolute(pair)) for number, pair in enumerate(pairs) if number not in folder.done]
    if not missing:
        return
    chunks = [tuple(missing[start : start + size]) for start in range(0, len(missing), size)]
    complete = len(pairs) - len(missing)
    with closing(executor.run(work, chunks)) as outcomes:
        for outcome in outcomes:
            new = 0
            if isinstance(outcome.error, WorkerLostError) and size == 1:
                number, pair = chunks[outcome.place][0]
                write_pending(folder.path, error_row(number, pair, str(outcome.error)))
                new = 1
            elif not isinstance(outcome.error, WorkerLostError):
                new = outcome.result()
            complete += new
            folder.collect_if_due(new)
            if on_progress is not None:
                on_progress(complete, len(pairs))
    folder.collect()


def _absolute(pair: BatchPair) -> BatchPair:
    """As workers on other machines, with other working directories, need it."""
    return replace(pair, source=pair.source.absolute(), target=pair.target.absolute())
