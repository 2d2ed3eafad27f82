"""The forward and backward pass of a step, and its recording as a CUDA graph.

A step of PlückerNet is about two thousand small kernels. To launch them one by one takes longer than to compute them,
so a GPU waits for most of a step. A graph launches all of them at once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from plueckernet.data.batches import PairBatch
from plueckernet.geometry import Pose
from plueckernet.training.objective import NetworkOutput

_WARM_UPS = 2  # passes before a recording, in which libraries allocate what they need


class Passes(NamedTuple):
    """What the passes of a step leave behind, beside the gradients of the parameters."""

    output: NetworkOutput  # without its gradient
    loss: Tensor
    norm: Tensor  # of the gradient before clipping


@dataclass(frozen=True, eq=False)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]  # that it reads
    gradients: list[Tensor | None]  # and the passes are what it writes
    passes: Passes


class RecordedPasses:
    """Passes as CUDA graphs, one for each shape of a batch; what cannot be recorded is run as it is.

    All graphs share their memory, so the results of a call are valid until the next one.
    """

    def __init__(self, passes: Callable[[PairBatch], Passes], network: nn.Module) -> None:
        self._passes, self._network = passes, network
        self._recordings: dict[tuple[torch.Size, ...], _Recording] = {}
        self._pool: Any = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream()
        self._possible = True

    def __call__(self, batch: PairBatch) -> Passes:
        """The passes of a batch; sets the gradients of the parameters."""
        inputs = batch_tensors(batch)
        shapes = tuple(tensor.shape for tensor in inputs)
        if shapes not in self._recordings and self._possible:
            self._try(shapes, batch)
        if shapes not in self._recordings:
            return self._passes(batch)
        recording = self._recordings[shapes]
        for own, new in zip(recording.inputs, inputs, strict=True):
            own.copy_(new)
        recording.graph.replay()
        for parameter, gradient in zip(self._network.parameters(), recording.gradients, strict=True):
            parameter.grad = gradient
        return recording.passes

    def _try(self, shapes: tuple[torch.Size, ...], batch: PairBatch) -> None:
        buffers = [buffer.clone() for buffer in self._network.buffers()]  # statistics that warming up changes
        try:
            self._recordings[shapes] = self._record(batch)
        except RuntimeError as error:
            self._possible = False
            warnings.warn(f"steps are not recorded as CUDA graphs: {error}", RuntimeWarning, stacklevel=2)
        for buffer, before in zip(self._network.buffers(), buffers, strict=True):
            buffer.copy_(before)

    def _record(self, batch: PairBatch) -> _Recording:
        batch = _copied(batch)
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for _ in range(_WARM_UPS):
                self._passes(batch)
        torch.cuda.current_stream().wait_stream(self._stream)
        self._network.zero_grad(set_to_none=True)  # so that the graph has gradients of its own
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            passes = self._passes(batch)
        return _Recording(graph, batch_tensors(batch), [p.grad for p in self._network.parameters()], passes)


def batch_tensors(batch: PairBatch) -> list[Tensor]:
    """All tensors of a batch, in a fixed order."""
    sides = [
        getattr(lines, name)
        for lines in (batch.source, batch.target)
        for name in ("direction", "moment", "endpoints", "mask")
    ]
    pose = batch.target_T_source
    return [*(side for side in sides if side is not None), batch.correspondence, pose.rotation, pose.translation]


def _copied(batch: PairBatch) -> PairBatch:
    pose = batch.target_T_source
    return PairBatch(
        batch.source.mapped(torch.clone),
        batch.target.mapped(torch.clone),
        batch.correspondence.clone(),
        Pose(pose.rotation.clone(), pose.translation.clone()),
    )
