"""Checkpoints: folders of safetensors files and a JSON file, written atomically; no pickle.

A full checkpoint has ``model``, ``ema`` (if there is a moving average), ``first_moment`` and ``second_moment``. The
weights to use are ``ema`` if present, otherwise ``model``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from plueckernet.errors import FormatError, InputError
from plueckernet.io.atomic import atomic_write, atomic_write_bytes
from plueckernet.io.files import read_json
from plueckernet.models.weights import read_tensors, tensor_bytes

_STATE = "state.json"
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Named groups of tensors, and the remaining state as plain data."""

    tensors: Mapping[str, Tensors]
    state: Mapping[str, Any]

    @property
    def weights(self) -> Tensors:
        """The weights that are validated, exported and used."""
        return self.tensors["ema"] if "ema" in self.tensors else self.tensors["model"]


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace ``folder``; after an interruption at any point, :func:`load_checkpoint` reads the old or the new one."""
    new, old = _sibling(folder, "new"), _sibling(folder, "old")
    try:
        if not folder.exists() and old.exists():
            old.rename(folder)  # interrupted between the two steps below
        for leftover in (new, old):
            shutil.rmtree(leftover, ignore_errors=True)
        new.mkdir(parents=True)
        for name, tensors in checkpoint.tensors.items():
            file = new / f"{name}.safetensors"
            with atomic_write_bytes(file) as handle:
                handle.write(tensor_bytes(tensors))
        with atomic_write(new / _STATE) as stream:
            stream.write(json.dumps(checkpoint.state, indent=1, ensure_ascii=False) + "\n")
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def load_checkpoint(folder: Path) -> Checkpoint:
    """Read a checkpoint of :func:`save_checkpoint`; the tensors are on the CPU."""
    if not (folder / _STATE).is_file() and (_sibling(folder, "old") / _STATE).is_file():
        folder = _sibling(folder, "old")
    if not (folder / _STATE).is_file():
        raise InputError(f"{folder}: no checkpoint")
    state = read_json(folder / _STATE)
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors[file.stem] = read_tensors(file)
    if "model" not in tensors and "ema" not in tensors:
        raise FormatError(folder, "no weights: neither model.safetensors nor ema.safetensors")
    return Checkpoint(tensors, state)


def find_checkpoint(path: Path) -> Path:
    """The folder itself if it is a checkpoint, otherwise the best or the last checkpoint of the training in it."""
    for folder in (path, path / "best", path / "last"):
        if (folder / _STATE).is_file() or (_sibling(folder, "old") / _STATE).is_file():
            return folder
    raise InputError(f"{path}: neither a checkpoint nor a folder of `plueckernet train`")


def _sibling(folder: Path, suffix: str) -> Path:
    return folder.with_name(f"{folder.name}.{suffix}")
