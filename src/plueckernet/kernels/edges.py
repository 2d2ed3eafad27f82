"""The kernel of :mod:`plueckernet.models.edge_blocks`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from plueckernet.kernels.library import FLOAT, INTEGER, POINTER, function
from plueckernet.kernels.panels import padded, padded_vector, panels

_edge_channels = function("edge_channels", POINTER, POINTER, POINTER, POINTER, POINTER, result=ctypes.c_int32)
_FUNCTION_ROWS = 5 * 1024  # of the tables; the rows after them are the weights of the signed invariants


class _Sizes(ctypes.Structure):
    _fields_ = [(name, INTEGER) for name in ("n", "channels", "filters", "width", "radii", "is_signed")]


class _Weights(ctypes.Structure):
    _fields_ = [
        *((name, FLOAT) for name in ("lowest", "steps", "floor", "half_weight")),
        *((name, POINTER) for name in ("tables", "second", "second_bias", "head", "constants", "decay")),
    ]


class EdgeKernel:
    """The layers on edges, as the kernel reads them."""

    def __init__(
        self,
        tables: Float[Tensor, "rows e"],
        second: tuple[Float[Tensor, "e e"], Float[Tensor, " e"]],
        head: tuple[Float[Tensor, "c e"], Float[Tensor, " f"]],
        decay: Float[Tensor, " radii"],
        scalars: Mapping[str, float],
    ) -> None:
        matrix, constants = head
        self._edge, width = tables.shape[1], padded(tables.shape[1])
        wider = 0, width - self._edge
        self._tensors = {  # their memory is what the kernel reads
            "tables": pad(tables, wider),
            "second": panels(pad(second[0], wider)),
            "second_bias": padded_vector(second[1]),
            "head": panels(pad(matrix, wider)),
            "constants": padded_vector(pad(constants, (len(matrix) - len(constants), 0))),
            "decay": decay.contiguous(),
        }
        self._weights = _Weights(**scalars, **{name: values.data_ptr() for name, values in self._tensors.items()})
        self._sizes = 0, len(matrix), len(constants), width, len(decay), len(tables) > _FUNCTION_ROWS

    def channels_of_set(
        self, lines: Float[Tensor, "11 n"], out: Float[Tensor, "c n n"]
    ) -> Float[Tensor, "n averages"]:
        """Biases and filters between all lines, written to ``out``; returns averages around each line.

        ``lines`` has rows for the direction, the anchor, the moment, direction . anchor and anchor . anchor.
        """
        sizes, n, lines = _Sizes(*self._sizes), lines.shape[1], lines.contiguous()
        sizes.n = n
        pooled = out.new_empty(n, sizes.radii, sizes.width)
        pointers = ctypes.addressof(sizes), ctypes.addressof(self._weights)
        if _edge_channels()(*pointers, lines.data_ptr(), out.data_ptr(), pooled.data_ptr()):
            raise MemoryError("edges of lines")
        return pooled[..., : self._edge].flatten(1)
