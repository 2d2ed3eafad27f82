"""The kernel of :mod:`plueckernet.models.packed`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.kernels.library import INTEGER, POINTER, function
from plueckernet.kernels.panels import in_memory

_pass_messages = function("pass_messages", POINTER, POINTER, POINTER, POINTER, POINTER, result=ctypes.c_int32)


class _Sizes(ctypes.Structure):
    _fields_ = [(name, INTEGER) for name in ("channels", "heads", "filters", "layers", "cross", "sets")]


class MessageKernel:
    """The layers of a network, as the kernel reads them.

    Every layer has the matrix of queries, keys and values, the first matrix of the update with its bias, the weight
    and bias of its norm, and the second matrix with its bias.
    """

    def __init__(
        self, layers: Sequence[Sequence[Tensor]], channels: int, heads: int, filters: int, *, cross_attention: bool
    ) -> None:
        self._sizes = channels, heads, filters, len(layers), cross_attention
        self._weights = torch.cat([in_memory(values) for layer in layers for values in layer])

    def pass_messages(
        self, x: Float[Tensor, "t c"], ends: Sequence[int], edges: Sequence[Float[Tensor, "channels _ _"]]
    ) -> Float[Tensor, "t c"]:
        """The lines of all sets after all layers; set ``s`` has the lines from ``ends[s]`` on."""
        sizes, x = _Sizes(*self._sizes, len(edges)), x.clone(memory_format=torch.contiguous_format)
        limits = (ctypes.c_int64 * len(ends))(*ends)
        pointers = (ctypes.c_void_p * len(edges))(*(channels.data_ptr() for channels in edges))
        arguments = (ctypes.addressof(values) for values in (limits, pointers))
        if _pass_messages()(ctypes.addressof(sizes), self._weights.data_ptr(), *arguments, x.data_ptr()):
            raise MemoryError("messages between lines")
        return x
