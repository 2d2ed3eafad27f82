"""Putative matches without any learned weights, from what lines share with all others of their map.

Each line is described by soft histograms of its invariants with every other line: how many lie parallel, oblique or
square to it, at which distance, how far along. Descriptors of both maps are whitened together, so that what is
common in the place counts little and what is rare counts much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.scoring import BLOCK, AnchoredLines
from plueckernet.geometry.invariants import pairwise_invariants

# Exponent from which a bin counts as empty: products of three such stay above the subnormal numbers, on which
# processors are ten times slower.
_FAR = 28.0


@dataclass(frozen=True)
class DescriptorSettings:
    """Bins in units of the map's radius."""

    angles: tuple[float, ...] = (0.0, math.pi / 4, math.pi / 2)  # rad; parallel, oblique, square
    angle_width: float = 0.25  # rad
    fine: int = 13  # bins of a distance up to `farthest`
    farthest: float = 1.5
    neighbourhood: float = 1.5  # Gaussian weight of other lines by the distance of their anchors
    dimensions: int = 48  # kept by the whitening
    temperature: float = 0.1  # of the cosine similarity


@dataclass(frozen=True, eq=False)
class Matches:
    """Pairs of lines that may be one, with their probabilities, most probable first."""

    source: Int[Tensor, " k"]
    target: Int[Tensor, " k"]
    probability: Float[Tensor, " k"]

    def __len__(self) -> int:
        return len(self.source)


def match_log_probability(
    source: AnchoredLines, target: AnchoredLines, settings: DescriptorSettings = DescriptorSettings()
) -> Float[Tensor, "m n"]:
    """Log-probability that two lines are each other's match; maps are centred and of radius about one."""
    first, second = whiten(describe(source, settings), describe(target, settings), settings.dimensions)
    similarity = first @ second.mT / settings.temperature
    return similarity.log_softmax(0) + similarity.log_softmax(1)


def top_matches(log_probability: Float[Tensor, "m n"], limit: int) -> Matches:
    """The ``limit`` most probable pairs."""
    value, index = log_probability.flatten().topk(min(limit, log_probability.numel()))
    columns = max(1, log_probability.shape[1])
    return Matches(index // columns, index % columns, value.exp().double())


def describe(lines: AnchoredLines, settings: DescriptorSettings) -> Float[Tensor, "n d"]:
    """Soft histograms of each line's invariants with all others, as square roots (Hellinger's distance)."""
    single = lines.to(torch.float32)
    rows = max(1, BLOCK // max(1, len(lines)))
    blocks = [_histograms(single, slice(i, i + rows), settings) for i in range(0, len(lines), rows)]
    width = 2 * len(settings.angles) * settings.fine * ((settings.fine + 1) // 2)
    return torch.cat(blocks).sqrt() if blocks else lines.anchor.new_zeros(0, width).float()


def whiten(
    first: Float[Tensor, "m d"], second: Float[Tensor, "n d"], dimensions: int
) -> tuple[Float[Tensor, "m k"], Float[Tensor, "n k"]]:
    """Both sets of descriptors in the common principal directions, each scaled to unit variance and length."""
    together = torch.cat([first, second])
    mean = together.mean(0)
    _, singular, axes = torch.linalg.svd(together - mean, full_matrices=False)
    keep = singular[:dimensions] > 1e-6 * singular[:1].clamp_min(1e-30)
    basis = axes[: len(keep)][keep].mT / singular[: len(keep)][keep]
    return normalize((first - mean) @ basis, dim=-1), normalize((second - mean) @ basis, dim=-1)


def _histograms(lines: AnchoredLines, rows: slice, settings: DescriptorSettings) -> Tensor:
    invariants = pairwise_invariants(lines.lines, lines.anchor, rows)
    device = lines.anchor.device
    fine = torch.linspace(0, settings.farthest, settings.fine, device=device)
    coarse, width = fine[::2], 0.7 * float(fine[1] - fine[0])
    angles = torch.tensor(settings.angles, device=device)
    kind = _bins(invariants.cosine.acos(), angles, settings.angle_width)
    near = (invariants.span * (math.sqrt(0.5) / settings.neighbourhood)).square_().neg_().exp_()
    near.diagonal(rows.start).zero_()
    kind = kind / kind.sum(-1, keepdim=True) * near[..., None]  # (r, n, angles)
    across = _bins(invariants.distance, fine, width), _bins(invariants.along, coarse, 2 * width)
    around = _bins(invariants.span, fine, width), _bins(invariants.anchor_distance, coarse, 2 * width)
    return torch.cat([_joint(kind, *across), _joint(kind, *around)], -1)


def _joint(kind: Tensor, fine: Tensor, coarse: Tensor) -> Tensor:
    """``(r, angles * fine * coarse)``: how many of the ``n`` lines are in each bin of all three."""
    both = (kind[..., None] * fine[..., None, :]).flatten(2)  # (r, n, angles * fine)
    return (both.mT @ coarse).flatten(1)


def _bins(value: Tensor, centres: Tensor, width: float) -> Tensor:
    scale = math.sqrt(0.5) / width
    exponent = ((value * scale)[..., None] - centres * scale).square_().clamp_max_(_FAR)
    return exponent.neg_().exp_()
