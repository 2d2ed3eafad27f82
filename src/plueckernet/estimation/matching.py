"""Putative matches without learned weights, from the invariants of each line with all others of its map.

Each line is described by soft histograms of its invariants with every other line: how many are parallel, oblique or
perpendicular to it, at which distance and at which position along it. The descriptors of both maps are whitened
together, so that common structure counts little and rare structure counts much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines
from plueckernet.geometry.invariants import pairwise_invariants
from plueckernet.kernels.library import compiled
from plueckernet.kernels.matching import largest_entries
from plueckernet.settings import check_at_least, check_positive

# Largest exponent of a bin. The product of three such bins stays above the subnormal numbers, which are ten times
# slower on a CPU.
_MAX_EXPONENT = 28.0


@dataclass(frozen=True)
class DescriptorSettings:
    """The histograms and how they are compared; lengths are in radii of the map."""

    angles: tuple[float, ...] = (0.0, math.pi / 4, math.pi / 2)  # rad; parallel, oblique, perpendicular
    angle_width: float = 0.25  # rad, one sigma of a bin
    distance_bins: int = 13  # up to `max_distance`
    max_distance: float = 1.5
    bin_overlap: float = 0.7  # sigma of a distance bin over the bin spacing
    neighbourhood: float = 1.5  # sigma of the Gaussian weight of other segments by the distance of their anchors
    infinite_neighbourhood: float = 5.0  # the same for infinite lines, whose anchors are arbitrary
    dimensions: int = 48  # kept by the whitening
    temperature: float = 0.1  # of the cosine similarity

    def __post_init__(self) -> None:
        check_positive(self, "angle_width", "max_distance", "bin_overlap", "neighbourhood", "infinite_neighbourhood")
        check_positive(self, "temperature")
        check_at_least(self, 2, "distance_bins")
        check_at_least(self, 1, "dimensions")


@dataclass(frozen=True, eq=False)
class Matches:
    """Putative matches with their probabilities, most probable first."""

    source: Int[Tensor, " k"]
    target: Int[Tensor, " k"]
    probability: Float[Tensor, " k"]

    @classmethod
    def none(cls) -> Matches:
        """No matches."""
        rows = torch.zeros(0, dtype=torch.long)
        return Matches(rows, rows, torch.zeros(0, dtype=torch.float64))

    def __len__(self) -> int:
        return len(self.source)

    def first(self, count: int) -> Matches:
        """The most probable ones."""
        return Matches(self.source[:count], self.target[:count], self.probability[:count])

    def of_rows(self, rows: Int[Tensor, " l"]) -> Matches:
        """Some of them."""
        return Matches(self.source[rows], self.target[rows], self.probability[rows])


def match_log_probability(
    source: AnchoredLines, target: AnchoredLines, settings: DescriptorSettings = DescriptorSettings()
) -> Float[Tensor, "m n"]:
    """Log-probability that two lines match; the maps are centred and have a radius of about one."""
    first, second = whiten(describe(source, settings), describe(target, settings), settings.dimensions)
    similarity = first @ second.mT / settings.temperature
    return similarity.log_softmax(0) + similarity.log_softmax(1)


def putative_matches(log_probability: Float[Tensor, "m n"], limit: int) -> Matches:
    """The ``limit`` most probable pairs; what a matcher could not compute is no match."""
    if log_probability.dtype == torch.float32 and log_probability.numel() < 2**31 and compiled(log_probability):
        value, source, target = largest_entries(log_probability.detach(), limit)
        return Matches(source, target, value.exp().double())
    log_probability = log_probability.nan_to_num(nan=-math.inf, posinf=-math.inf, neginf=-math.inf)
    value, index = log_probability.flatten().topk(min(limit, log_probability.numel()))
    columns = max(1, log_probability.shape[1])
    return Matches(index // columns, index % columns, value.exp().double())


def describe(lines: AnchoredLines, settings: DescriptorSettings) -> Float[Tensor, "n d"]:
    """Soft histograms of each line's invariants with all others, as square roots (Hellinger's distance)."""
    single = lines.to(torch.float32)
    rows = max(1, BLOCK_ENTRIES // max(1, len(lines)))
    blocks = [_histograms(single, slice(i, i + rows), settings) for i in range(0, len(lines), rows)]
    width = 2 * len(settings.angles) * settings.distance_bins * ((settings.distance_bins + 1) // 2)
    return torch.cat(blocks).sqrt() if blocks else lines.anchor.new_zeros(0, width).float()


def whiten(
    first: Float[Tensor, "m d"], second: Float[Tensor, "n d"], dimensions: int
) -> tuple[Float[Tensor, "m k"], Float[Tensor, "n k"]]:
    """Both sets of descriptors in their common principal directions, scaled to unit variance and unit length."""
    together = torch.cat([first, second])
    mean = together.mean(0)
    _, singular, axes = torch.linalg.svd(together - mean, full_matrices=False)
    keep = singular[:dimensions] > 1e-6 * singular[:1].clamp_min(1e-30)
    basis = axes[: len(keep)][keep].mT / singular[: len(keep)][keep]
    return normalize((first - mean) @ basis, dim=-1), normalize((second - mean) @ basis, dim=-1)


def _histograms(lines: AnchoredLines, rows: slice, settings: DescriptorSettings) -> Tensor:
    invariants = pairwise_invariants(lines.lines, lines.anchor, rows)
    device = lines.anchor.device
    fine = torch.linspace(0, settings.max_distance, settings.distance_bins, device=device)
    coarse, width = fine[::2], settings.bin_overlap * float(fine[1] - fine[0])
    angles = torch.tensor(settings.angles, device=device)
    kind = _bins(invariants.cosine.acos(), angles, settings.angle_width)
    sigma = settings.infinite_neighbourhood if lines.half_length is None else settings.neighbourhood
    nearness = (invariants.span * (math.sqrt(0.5) / sigma)).square_().neg_().exp_()
    nearness.diagonal(rows.start).zero_()
    kind = kind / kind.sum(-1, keepdim=True) * nearness[..., None]  # (r, n, angles)
    across = _bins(invariants.distance, fine, width), _bins(invariants.along, coarse, 2 * width)
    around = _bins(invariants.span, fine, width), _bins(invariants.anchor_distance, coarse, 2 * width)
    return torch.cat([_joint(kind, *across), _joint(kind, *around)], -1)


def _joint(kind: Tensor, fine: Tensor, coarse: Tensor) -> Tensor:
    """``(r, angles * fine * coarse)``: the number of the ``n`` lines in each joint bin."""
    joint = (kind[..., None] * fine[..., None, :]).flatten(2)  # (r, n, angles * fine)
    return (joint.mT @ coarse).flatten(1)


def _bins(value: Tensor, centres: Tensor, width: float) -> Tensor:
    scale = math.sqrt(0.5) / width
    exponent = ((value * scale)[..., None] - centres * scale).square_().clamp_max_(_MAX_EXPONENT)
    return exponent.neg_().exp_()
