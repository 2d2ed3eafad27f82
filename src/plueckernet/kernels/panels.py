"""Matrices and vectors as the kernels of networks read them: in panels of outputs, see ``dense.h``."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

PANEL = 16  # outputs


def padded(size: int) -> int:
    """The next multiple of a panel."""
    return -(-size // PANEL) * PANEL


def panels(weight: Float[Tensor, "out in"]) -> Float[Tensor, "panels in 16"]:
    """A matrix in panels, with zeros for the outputs that are missing in the last one."""
    rows = pad(weight, (0, 0, 0, padded(len(weight)) - len(weight)))
    return rows.unflatten(0, (-1, PANEL)).transpose(1, 2).contiguous()


def padded_vector(values: Float[Tensor, " n"]) -> Float[Tensor, " padded"]:
    """A vector with zeros up to a multiple of a panel."""
    return pad(values, (0, padded(len(values)) - len(values)))


def in_memory(values: Tensor) -> Float[Tensor, " n"]:
    """A matrix or a vector as kernels read it, one value after the other."""
    return padded_vector(values) if values.ndim == 1 else panels(values).flatten()
