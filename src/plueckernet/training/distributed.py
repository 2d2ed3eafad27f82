"""One process or several: what `torchrun` says about them."""

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
    """Which of how many processes this is, and where it computes."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that validates, writes and talks."""
        return self.rank == 0

    def parallel(self, network: nn.Module) -> nn.Module:
        """The network, its gradients averaged over the processes."""
        if self.world == 1:
            return network
        return DistributedDataParallel(network, device_ids=[self.device] if self.device.type == "cuda" else None)

    def share(self, pairs: int) -> float:
        """What a mean over these pairs is multiplied by, so that the mean over processes is one over all pairs."""
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
    """Join the other processes, if `torchrun` started this one; ``cuda`` then means a GPU for each."""
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
