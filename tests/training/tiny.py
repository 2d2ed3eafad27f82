"""A very small training for tests."""

from __future__ import annotations

from pathlib import Path

import torch

from plueckernet.data.stream import PairStream
from plueckernet.training import TrainingConfig, load_config
from plueckernet.training.distributed import Processes
from plueckernet.training.trainer import Trainer

SMALL = (
    "model.layers=2", "model.edge_channels=8", "data.sizes=[24]", "data.pool=4", "data.stored=64", "train.batch=4",
    "train.log_every=1", "validation.pairs=1", "validation.every=0",
)  # fmt: skip


def tiny(*settings: str) -> TrainingConfig:
    """The shipped tiny config with smaller sizes."""
    return load_config("tiny", [*SMALL, *settings])


def trainer(config: TrainingConfig) -> Trainer:
    return Trainer(config, Processes(torch.device("cpu")))


def stream(config: TrainingConfig, rank: int = 0, world: int = 1) -> PairStream:
    return PairStream(config.data, batch=config.train.batch, seed=config.train.seed, rank=rank, world=world)


def files(folder: Path) -> dict[str, bytes]:
    """The files of a checkpoint and their content."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
