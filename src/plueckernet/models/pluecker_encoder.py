"""Subspace coding of the paper (Sec. 3.2): separate networks for directions and moments, then a joint one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from plueckernet.geometry import LineSet
from plueckernet.models.mlp import MLP, Style
from plueckernet.models.neighbours import gather_lines, nearest_neighbours


@dataclass(frozen=True)
class PlueckerEncoderConfig:
    """Settings of :class:`PlueckerEncoder`; the defaults are the paper's."""

    neighbours: int = 10  # k of Eq. (2), the line itself among them
    subspace_coding: bool = True  # False: one MLP on all six numbers (ablation)
    hemisphere: bool = False  # flip each line so that its first component is positive (Sec. 3.1)
    style: Style = "group-gelu"
    orthogonal: bool = False  # Gram-Schmidt on the features of the two subspaces (ablation)


class PlueckerEncoder(nn.Module):
    """Encodes Plücker lines ``(v, m)`` in 128 channels."""

    channels = 128

    def __init__(self, config: PlueckerEncoderConfig) -> None:
        super().__init__()
        self.config = config
        style = config.style
        if config.subspace_coding:
            self.direction = Subspace(config.neighbours, style, angular=True)
            self.moment = Subspace(config.neighbours, style, angular=False)
        else:
            self.plain = MLP((6, 16, 32, 64, 128), style)
        self.joint = MLP((128, 128, 128), style)

    def forward(self, lines: LineSet) -> Float[Tensor, "s n 128"]:
        """Encode ``s`` sets of ``n`` lines in their original frame; the result depends on it."""
        if self.config.hemisphere:
            lines = lines.on_hemisphere()
        dtype = next(self.parameters()).dtype
        v, m, mask = lines.direction.to(dtype), lines.moment.to(dtype), lines.mask
        if self.config.subspace_coding:
            v, m = self.direction(v, mask), self.moment(m, mask)  # (s, n, 64) each
            if self.config.orthogonal:
                along = (m * v).sum(-1, keepdim=True) / v.square().sum(-1, keepdim=True).clamp_min(1e-6)
                m = m - along * v
            x = torch.cat([v, m], -1)  # (s, n, 128)
        else:
            x = self.plain(torch.cat([v, m], -1), mask)  # (s, n, 128)
        return self.joint(x, mask)


class Subspace(nn.Module):
    """Eq. (2) and the MLP(8, 16, 32, 64) that lifts it, for directions or for moments.

    Eq. (2) is the layer of size 8; three more follow.
    """

    def __init__(self, neighbours: int, style: Style, *, angular: bool) -> None:
        super().__init__()
        self.neighbours = neighbours
        self.angular = angular
        self.theta = nn.Linear(3, 8, bias=False)
        self.phi = nn.Linear(3, 8)
        self.lift = MLP((8, 16, 32, 64), style)

    def forward(self, o: Float[Tensor, "s n 3"], mask: Bool[Tensor, "s n"] | None) -> Float[Tensor, "s n 64"]:
        """Line features from directions or moments ``o``."""
        # Eq. (2): avg_k(θ (o_k - o_i) + φ o_i). θ and φ are linear, so averaging the neighbours first gives
        # the same result with 1 of k products.
        edge = self.mean_of_neighbours(o, mask) - o  # (s, n, 3)
        return self.lift(self.theta(edge) + self.phi(o), mask)

    def mean_of_neighbours(self, o: Float[Tensor, "s n 3"], mask: Bool[Tensor, "s n"] | None) -> Float[Tensor, "s n 3"]:
        """Average of the k nearest neighbours (or all, if there are fewer), by angle or by L2 distance."""
        nearest = nearest_neighbours(normalize(o, dim=-1) if self.angular else o, self.neighbours, mask)
        values = gather_lines(o, nearest)  # (s, n, k, 3)
        if mask is None:
            return values.mean(-2)
        real = gather_lines(mask, nearest)[..., None].to(o.dtype)  # (s, n, k, 1)
        return (values * real).sum(-2) / real.sum(-2).clamp_min(1)
