"""Squared residuals of every line with every line of many pairs of maps, in thresholds of each pair."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines
from plueckernet.geometry.pose import Pose


@dataclass(frozen=True, eq=False)
class Thresholds:
    """An inlier threshold for each of ``q`` poses, as :class:`~plueckernet.estimation.scoring.InlierThreshold`."""

    distance: Float[Tensor, " q"]
    angle: Float[Tensor, " q"]
    slope: Float[Tensor, " q"] | None = None  # None: the distance does not grow along the line

    @classmethod
    def of(cls, distance: Float[Tensor, " q"], angle: float) -> Thresholds:
        """With the same angle for all."""
        return Thresholds(distance, torch.full_like(distance, angle))

    def replaced(self, where: Tensor, other: Thresholds) -> Thresholds:
        """Those of another where a mask says so."""
        slope = None
        if other.slope is not None:
            own = torch.zeros_like(self.distance) if self.slope is None else self.slope
            slope = torch.where(where, other.slope, own)
        distance, angle = torch.where(where, other.distance, self.distance), torch.where(where, other.angle, self.angle)
        return Thresholds(distance, angle, slope)

    def poses(self, index: Tensor | slice) -> Thresholds:
        """Those of some poses."""
        slope = None if self.slope is None else self.slope[index]
        return Thresholds(self.distance[index], self.angle[index], slope)


def pair_squares(
    poses: Pose, source: PaddedLines, target: PaddedLines, threshold: Thresholds
) -> Float[Tensor, "q m n"]:
    """The residuals of :func:`~plueckernet.estimation.scoring.pair_residuals`, a pair of maps for each pose."""
    dtype = source.direction.dtype
    unit, angle = (1 / value.to(dtype)[:, None, None] for value in (threshold.distance, threshold.angle))
    d, e, q = source.direction, target.direction, target.anchor
    moved, moved_back = poses.act(source.anchor), poses.inverse().act(q)
    source_ones, target_ones = torch.ones_like(moved[..., :1]), torch.ones_like(q[..., :1])
    own = torch.cat([d, -_dot(d, source.anchor)], -1) * unit
    lever = own @ torch.cat([moved_back, target_ones], -1).mT
    back = torch.cat([moved, source_ones], -1) @ (torch.cat([e, -_dot(e, q)], -1) * unit).mT
    from_source = torch.cat([-2 * moved, _dot(moved, moved), source_ones], -1)
    result = from_source @ (torch.cat([q, target_ones, _dot(q, q)], -1) * unit**2).mT
    result.addcmul_(lever, lever, value=-0.5).addcmul_(back, back, value=-0.5).clamp_min_(0)
    if threshold.slope is not None:
        result.div_((lever * threshold.slope.to(dtype)[:, None, None]).square_().add_(1))
    cosine = (d @ poses.rotation.mT) @ (e * angle).mT
    result.addcmul_(cosine, cosine, value=-1).add_(angle**2)
    if source.half_length is not None and target.half_length is not None:
        gap = lever.abs_().sub_((source.half_length[:, :, None] + target.half_length[:, None]) * unit).clamp_min_(0)
        result.addcmul_(gap, gap)
    return result


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)
