"""Where the time of a batch goes: by function and by operation, for ``benchmarks.throughput --profile``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch

from plueckernet import batching
from plueckernet.estimation.batched import candidates, family, hypotheses, look, refinement, symmetry
from plueckernet.estimation.batched.completed import CompletedPairs
from plueckernet.estimation.batched.verification import BatchedMapScorer
from plueckernet.models.attention import MessageLayer
from plueckernet.models.invariant_encoder import InvariantEncoder

_FUNCTIONS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (batching, ("prepare", "assessed_pairs", "has_no_family", "least_firmness")),
    (batching.BatchRegistration, ("_result",)),
    (look, ("match_longest", "propose", "select_candidates", "refine_poses", "_is_new", "compacted")),
    (look.BatchedSearch, ("_refined", "_evidence", "completed")),
    (hypotheses, ("_support", "_drawn_pairs", "_seed_pairs", "_solved", "compacted")),
    (candidates, ("distinct_poses", "polished")),
    (BatchedMapScorer, ("rough_scores", "explained", "stand_out")),
    (family, ("surviving_motions", "_has_members", "_has_symmetries")),
    (symmetry, ("_counterparts", "_crossing_poses", "_with_common_rotations", "_agreeing", "_checked")),
    (refinement, ("close_pairs", "_fit", "match_probability", "gauss_newton_steps", "line_residuals")),
    (CompletedPairs, ("of",)),
    (InvariantEncoder, ("_placed", "_all_edges")),
    (MessageLayer, ("forward",)),
)


@dataclass
class Spent:
    """On one function, with all that it calls."""

    calls: int = 0
    seconds: float = 0.0


@contextmanager
def timed_functions(device: str) -> Iterator[dict[str, Spent]]:
    """The time of each function; the device is waited for before and after every call."""
    spent: dict[str, Spent] = {}
    with ExitStack() as patches:
        for owner, names in _FUNCTIONS:
            for name in names:
                entry = spent.setdefault(f"{owner.__name__.rpartition('.')[2]}.{name}", Spent())
                patches.enter_context(patch.object(owner, name, _timed(getattr(owner, name), entry, device)))
        yield spent


def _timed(function: Callable[..., Any], entry: Spent, device: str) -> Callable[..., Any]:
    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        wait()
        start = time.perf_counter()
        result = function(*arguments, **options)
        wait()
        entry.calls += 1
        entry.seconds += time.perf_counter() - start
        return result

    return call


def profile(register_all: Callable[[], Any], title: str, device: str) -> None:
    """Print which functions take most time, and which operations on the CPU and on the device."""
    register_all()
    with timed_functions(device) as spent:
        register_all()
    print(title, "functions, milliseconds and calls")
    for name, entry in sorted(spent.items(), key=lambda item: -item[1].seconds):
        print(f"{1e3 * entry.seconds:9.1f} {entry.calls:6d}  {name}")
    with torch.profiler.profile() as seen:
        register_all()
    for order in ("self_cuda_time_total", "self_cpu_time_total"):
        print(title, order)
        print(seen.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=60))
