"""The kernel of the dual softmax of :mod:`plueckernet.models.matcher`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.kernels.library import FLOAT, INTEGER, POINTER, function
from plueckernet.kernels.panels import in_memory

_assign_lines = function(
    "assign_lines", POINTER, POINTER, INTEGER, INTEGER, POINTER, POINTER, POINTER, result=ctypes.c_int32
)


class _Sizes(ctypes.Structure):
    _fields_ = [("channels", INTEGER), ("prior", INTEGER), ("sharpness", FLOAT)]


class AssignmentKernel:
    """Two softmaxes over the products of projected lines, and the network of matchabilities, if there is one."""

    def __init__(self, project: Sequence[Tensor], matchability: Sequence[Tensor], sharpness: float) -> None:
        channels = len(project[0])
        self._sizes = _Sizes(channels, bool(matchability), sharpness)
        weights = list(project)
        if matchability:
            own, pooled = matchability[0].split((channels, 2 * channels), 1)
            weights += [pooled, matchability[1], own, *matchability[2:]]
        self._weights = torch.cat([in_memory(values) for values in weights])

    def assign(
        self, source: Float[Tensor, "m c"], target: Float[Tensor, "n c"]
    ) -> tuple[Float[Tensor, "m n"], Float[Tensor, " m"], Float[Tensor, " n"]]:
        """Log-probabilities of matches, and logits of the matchabilities of both; neither map is empty."""
        features, counts = torch.cat([source, target]), (len(source), len(target))
        out, logits = features.new_empty(counts), features.new_empty(sum(counts))
        sizes, pointers = ctypes.addressof(self._sizes), (values.data_ptr() for values in (features, out, logits))
        if _assign_lines()(sizes, self._weights.data_ptr(), *counts, *pointers):
            raise MemoryError("probabilities of matches")
        return out, *logits.split(counts)
