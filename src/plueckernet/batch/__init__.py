"""Many pairs of maps on many machines, with results that survive the death of any process."""

from plueckernet.batch.pairs import BatchPair, read_pairs
from plueckernet.batch.rows import BatchRow
from plueckernet.batch.run import BatchOptions, BatchSummary, run_batch
from plueckernet.batch.store import read_batch
from plueckernet.batch.worker import PairRegistration

__all__ = [
    "BatchOptions",
    "BatchPair",
    "BatchRow",
    "BatchSummary",
    "PairRegistration",
    "read_batch",
    "read_pairs",
    "run_batch",
]
