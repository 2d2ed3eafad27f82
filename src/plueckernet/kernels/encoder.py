"""The kernel of :mod:`plueckernet.models.invariant_encoder`."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from plueckernet.kernels.library import FLOAT, INTEGER, POINTER, function
from plueckernet.kernels.panels import in_memory, padded

_FUNCTION_ROWS = 5 * 1024  # of the tables; the rows after them are the weights of the signed invariants
_KEPT_NUMBERS = 1 << 20  # of edges, whose memory is used again
_encode_lines = function(
    "encode_lines", POINTER, INTEGER, POINTER, INTEGER, POINTER, POINTER, POINTER, POINTER, result=ctypes.c_int32
)


class _Encoder(ctypes.Structure):
    """``Encoder`` of ``encoder.c``, with the two structures at its beginning."""

    _fields_ = [
        *((name, INTEGER) for name in ("n", "edge_channels", "filters", "width", "radii", "is_signed")),
        *((name, FLOAT) for name in ("lowest", "steps", "floor", "half_weight")),
        *((name, POINTER) for name in ("tables", "second", "second_bias", "head", "constants", "decay")),
        *((name, INTEGER) for name in ("channels", "radial", "is_segment", "is_joint")),
        ("spread", FLOAT),
        *((name, POINTER) for name in ("centres", "gain", "line")),
    ]


class EncoderKernel:
    """The layers on edges and lines, as the kernel reads them.

    ``edges`` are ``tables``, ``second``, ``second_bias``, ``head``, ``constants`` of the filters and ``decay``;
    ``scalars`` the numbers of the structure; ``unary`` the centres and gains of the radial functions of lines; ``line``
    the matrix and bias of the first layer on lines, weight and bias of its norm, matrix and bias of the second.
    """

    def __init__(
        self,
        edges: Mapping[str, Tensor],
        unary: tuple[Float[Tensor, " k"], Float[Tensor, "2 k"]],
        line: Sequence[Tensor],
        scalars: Mapping[str, float],
    ) -> None:
        edge, radii, (centres, gain) = edges["second"].shape[0], len(edges["decay"]), unary
        width = padded(edge)
        pooled, rest = line[0].tensor_split((radii * edge,), 1)
        pooled = pad(pooled.unflatten(1, (radii, edge)), (0, width - edge)).flatten(1)
        layers = [torch.cat([pooled, rest], 1), *line[1:]]
        self._kept = threading.local()
        self._channels, filters = len(edges["head"]), len(edges["constants"])
        self._tensors = {  # their memory is what the kernel reads
            "tables": pad(edges["tables"], (0, width - edge)),
            "second": in_memory(pad(edges["second"], (0, width - edge))),
            "second_bias": in_memory(edges["second_bias"]),
            "head": in_memory(pad(edges["head"], (0, width - edge))),
            "constants": in_memory(pad(edges["constants"], (self._channels - filters, 0))),
            "decay": edges["decay"].contiguous(),
            "centres": centres.contiguous(),
            "gain": gain.contiguous(),
            "line": torch.cat([in_memory(values) for values in layers]),
        }
        sizes = {"edge_channels": self._channels, "filters": filters, "width": width, "radii": radii}
        sizes |= {"is_signed": len(edges["tables"]) > _FUNCTION_ROWS, "channels": len(line[-1]), "radial": len(centres)}
        pointers = {name: values.data_ptr() for name, values in self._tensors.items()}
        self._encoder = _Encoder(**sizes, **scalars, **pointers)

    def encode(
        self,
        direction: Float[Tensor, "t 3"],
        points: Float[Tensor, "t *numbers"],
        ends: Sequence[int],
        padded_lines: int,
    ) -> tuple[Float[Tensor, "t c"], list[Float[Tensor, "channels _ _"]]]:
        """Features of the lines of all sets, of which ``s`` begins at ``ends[s]``, and the edges of each set.

        ``points`` are moments of infinite lines, or both ends of segments; sets are padded to ``padded_lines`` lines.
        The next call of the thread may write other edges to the same memory.
        """
        direction, points = (values.to(torch.float64).contiguous() for values in (direction, points))
        edges = self._planes([stop - start for start, stop in pairwise(ends)])
        x = torch.empty(len(direction), self._encoder.channels)
        limits = (ctypes.c_int64 * len(ends))(*ends)
        planes = (ctypes.c_void_p * len(edges))(*(channels.data_ptr() for channels in edges))
        sets = len(edges), ctypes.addressof(limits), padded_lines
        pointers = direction.data_ptr(), points.data_ptr(), ctypes.addressof(planes), x.data_ptr()
        if _encode_lines()(ctypes.addressof(self._encoder), *sets, *pointers):
            raise MemoryError("edges of lines")
        return x, edges

    def _planes(self, counts: Sequence[int]) -> list[Float[Tensor, "channels _ _"]]:
        """Memory for the edges of sets, which each thread keeps if it is little: new memory takes long to touch."""
        sizes = [self._channels * n * n for n in counts]
        if sum(sizes) > _KEPT_NUMBERS:
            return [torch.empty(self._channels, n, n) for n in counts]
        kept: Tensor | None = getattr(self._kept, "planes", None)
        if kept is None or len(kept) < sum(sizes):
            kept = self._kept.planes = torch.empty(sum(sizes))
        planes = kept[: sum(sizes)].split(sizes)
        return [values.view(self._channels, n, n) for values, n in zip(planes, counts, strict=True)]
