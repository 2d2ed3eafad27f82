"""Training in one process, or in several processes started by `torchrun`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from plueckernet.errors import InputError


@dataclass(frozen=True)
class Processes:
    """Rank of this process, number of processes, and device."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process validates, writes files and reports."""
        return self.rank == 0

    def parallel(self, network: nn.Module) -> nn.Module:
        """The network with gradients averaged over the processes."""
        if self.world == 1:
            return network
        return DistributedDataParallel(network, device_ids=[self.device] if self.device.type == "cuda" else None)

    def loss_weight(self, pairs: int) -> float:
        """Weight of the mean loss over these pairs, so that the mean over processes is the mean over all pairs."""
        if self.world == 1:
            return 1.0
        total = torch.tensor([pairs], device=self.device)
        dist.all_reduce(total)
        return pairs * self.world / int(total)

    def average(self, values: Tensor) -> Tensor:
        """The mean over the processes."""
        if self.world > 1:
            dist.all_reduce(values)
            values = values / self.world
        return values


@contextmanager
def processes(device: str, batch: int) -> Iterator[Processes]:
    """Join the process group if `torchrun` started this process; ``cuda`` then means one GPU per process."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Processes(torch.device(device))
        return
    if batch < world:
        raise InputError(f"a batch of {batch} pairs is too small for {world} processes")
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield Processes(torch.device(device), dist.get_rank(), world)
    finally:
        dist.destroy_process_group()
