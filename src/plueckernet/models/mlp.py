"""The MLP block of the networks (paper Sec. 3.2, "Basic block"), independent of padding.

Sets of lines are padded to one length for batching. A norm with statistics over lines must exclude the padding, because
otherwise batching would change the result. Every such norm therefore takes the mask of real lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest
from math import gcd
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Style = Literal["group-gelu", "batch-relu", "layer-gelu"]
"""Norm and activation of the hidden layers: of the paper, of its ablation, and of the invariant matcher."""

_GROUPS = 8  # not given in the paper; a layer with fewer channels has one group per channel
_EPSILON = 1e-5


class GroupNorm(nn.Module):
    """Group norm over the real lines of each set: one mean and variance per group of channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.groups = gcd(_GROUPS, channels)
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(
        self, x: Float[Tensor, "*batch n c"], mask: Bool[Tensor, "*batch n"] | None
    ) -> Float[Tensor, "*batch n c"]:
        """Normalise, with statistics in float32 or better."""
        wide = _wide(x)
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            grouped = [t.unflatten(-1, (self.groups, -1)) for t in (wide, self.weight, self.bias)]
            x = _TrainedGroupNorm.apply(grouped[0], _line_weights(wide, mask), *grouped[1:])  # type: ignore[no-untyped-call]
            return x.flatten(-2)
        centred = wide - _group_mean(_mean_line(wide, mask), self.groups)
        variance = _group_mean(_mean_line(centred.square(), mask), self.groups)  # (*batch, 1, c)
        return torch.addcmul(self.bias, centred, (variance + _EPSILON).rsqrt() * self.weight)


class _TrainedGroupNorm(torch.autograd.Function):
    """Group norm with its gradient in closed form, in half the operations that autograd would record.

    ``weights`` of the lines are those of their mean: zero for padding, summing to one. With ``x̂ = (x - mean) / σ``,
    ``y = γ x̂ + bias`` and the gradient ``g`` of ``y``:

        x̄ = γ g / σ - w (⟨Σ γ g⟩ / σ + x̂ ⟨Σ γ g x̂⟩ / σ)

    Sums are over lines, and ⟨ ⟩ is the mean over the channels of a group. All tensors are (*batch, n, g, c/g) here.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Tensor, gamma: Tensor, bias: Tensor) -> Tensor:
        shares = weights / x.shape[-1]  # of a line and a channel in the mean of a group
        centred = x - (x * shares).sum((-3, -1), keepdim=True)
        variance = (centred.square() * shares).sum((-3, -1), keepdim=True)  # (*batch, 1, g, 1)
        scale = (variance + _EPSILON).rsqrt()  # 1 / σ
        slope = scale * gamma  # (*batch, 1, g, c/g)
        ctx.save_for_backward(centred, scale, weights, slope)
        return torch.addcmul(bias, centred, slope)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor, Tensor]:
        (gradient,), (centred, scale, weights, slope) = gradients, ctx.saved_tensors
        total = gradient.sum(-3, keepdim=True)  # (*batch, 1, g, c/g)
        along = (gradient * centred).sum(-3, keepdim=True) * scale  # of x̂
        offset = (total * slope).mean(-1, keepdim=True)
        factor = (along * slope).mean(-1, keepdim=True) * scale
        to_input = torch.addcmul(gradient * slope, torch.addcmul(offset, centred, factor), weights, value=-1)
        return to_input, None, along.flatten(0, -3).sum(0), total.flatten(0, -3).sum(0)


class BatchNorm(nn.Module):
    """Batch norm over the real lines of all sets, with running statistics for inference (ablation)."""

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, channels: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_variance", torch.ones(channels))

    def forward(
        self, x: Float[Tensor, "*batch n c"], mask: Bool[Tensor, "*batch n"] | None
    ) -> Float[Tensor, "*batch n c"]:
        """Normalise; in training with the statistics of this batch."""
        wide = _wide(x)
        mean, variance = self.running_mean, self.running_variance
        if self.training:
            lines = wide.flatten(0, -2)  # (batch * n, c)
            real = None if mask is None else mask.flatten()
            mean = _mean_line(lines, real)[0]  # (c,)
            variance = _mean_line((lines - mean).square(), real)[0]
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_variance.lerp_(variance, self.momentum)
        return torch.addcmul(self.bias, wide - mean, (variance + _EPSILON).rsqrt() * self.weight)


class LayerNorm(nn.LayerNorm):
    """Layer norm of each line separately; the mask is unused and only keeps the interface of the other norms."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Normalise each line."""
        return super().forward(x)


class MLP(nn.Module):
    """Linear layers of the given sizes, with norm and activation after all but the last.

    ``sizes`` begins with the size of the input. In the paper, MLP(128, 128) is a perceptron of two layers of that size,
    so that MLP(a, b, c) is ``MLP((input, a, b, c))`` here. The trunk and the matchability read the paper's first
    number as the input, of which it is the size in each case: MLP(384, 256, 256, 128, 1) has 3 x 128 input channels.
    The regression head has all its layers.
    """

    def __init__(self, sizes: Sequence[int], style: Style = "group-gelu") -> None:
        super().__init__()
        self.linear = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        norm = {"group-gelu": GroupNorm, "batch-relu": BatchNorm, "layer-gelu": LayerNorm}[style]
        self.norm = nn.ModuleList(norm(size) for size in sizes[1:-1])
        self.activation: nn.Module = nn.ReLU() if style == "batch-relu" else nn.GELU()

    def forward(
        self, x: Float[Tensor, "*batch n c"], mask: Bool[Tensor, "*batch n"] | None = None
    ) -> Float[Tensor, "*batch n out"]:
        """Apply to each line; padding is excluded from the norms."""
        for linear, norm in zip(self.linear, self.norm, strict=False):
            x = self.activation(norm(linear(x), mask))  # (*batch, n, size)
        return self.linear[-1](x)

    def weights(self) -> list[Tensor]:
        """Weight and bias of every layer and norm, in the order of their use."""
        layers = [layer for pair in zip_longest(self.linear, self.norm) for layer in pair if layer is not None]
        return [values for layer in layers for values in layer.parameters()]


def _wide(x: Tensor) -> Tensor:
    """Float32 or better, as statistics require."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _group_mean(channels: Float[Tensor, "*batch 1 c"], groups: int) -> Float[Tensor, "*batch 1 c"]:
    grouped = channels.unflatten(-1, (groups, -1))  # (*batch, 1, g, c/g)
    return grouped.mean(-1, keepdim=True).expand_as(grouped).flatten(-2)


def _line_weights(
    x: Float[Tensor, "*batch n c"], mask: Bool[Tensor, "*batch n"] | None
) -> Float[Tensor, "*batch n 1 1"]:
    """Weights of the lines in their mean."""
    if mask is None:
        return x.new_full((*x.shape[:-1], 1, 1), 1 / max(1, x.shape[-2]))
    real = mask.to(x.dtype)
    return (real / real.sum(-1, keepdim=True).clamp_min(1))[..., None, None]


def _mean_line(x: Float[Tensor, "*batch n c"], mask: Bool[Tensor, "*batch n"] | None) -> Float[Tensor, "*batch 1 c"]:
    """Mean over the real lines; zero if there are none."""
    if mask is None:
        return x.mean(-2, keepdim=True)
    weight = mask[..., None].to(x.dtype)  # (*batch, n, 1)
    return (x * weight).sum(-2, keepdim=True) / weight.sum(-2, keepdim=True).clamp_min(1)
