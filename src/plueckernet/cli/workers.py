"""Where a command computes: in processes of this machine, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from plueckernet.geometry import LineSet
    from plueckernet.parallel import Executor

_SMALL = 1000  # lines of a map

RayOption = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Run on a Ray cluster: its address, `auto`, or `local`."),
]


WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Workers, of one thread each.", show_default="1; with --ray all")
]


@contextmanager
def fitting_threads(*maps: LineSet) -> Iterator[None]:
    """One thread for small maps, unless OMP_NUM_THREADS says how many.

    Their operations are many and small. On a busy machine several threads wait for each other longer than they compute.
    """
    import torch

    threads = torch.get_num_threads()
    if max(map(len, maps)) <= _SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def few_or_chosen(workers: int | None, ray: str | None) -> Executor:
    """The executor of the options; by default this process."""
    from plueckernet.parallel import InlineExecutor

    return InlineExecutor() if ray is None and workers in (None, 1) else chosen_executor(workers, ray)


def chosen_executor(workers: int | None, ray: str | None, device: str = "cpu") -> Executor:
    """The executor of the options; by default as many workers as there are cores, or GPUs if the device is one."""
    from plueckernet.parallel import ProcessExecutor, RayExecutor
    from plueckernet.parallel.ray_cluster import load_ray

    if ray is not None:
        load_ray()  # an error before the work, not in it
        return RayExecutor(ray, workers, gpus=1.0 if device == "cuda" else 0.0)
    gpus = _gpus() if device == "cuda" else 0
    return ProcessExecutor(workers or (gpus or 1 if device.startswith("cuda") else os.cpu_count() or 1), gpus=gpus)


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()
