"""Segments under many poses, coordinate by coordinate: an operation on one coordinate of all lines is fast."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry.pose import Pose


class MovedLines(NamedTuple):
    """``m`` segments under each of ``h`` poses."""

    point: Float[Tensor, "3 h m"]  # the anchors
    direction: Float[Tensor, "3 h m"]
    half_length: Float[Tensor, " m"]

    @classmethod
    def of(cls, poses: Pose, lines: AnchoredLines) -> MovedLines:
        """Lines of one map under poses."""
        by_axis = poses.rotation.transpose(0, 1).flatten(0, 1)  # (3 h, 3)
        shape = 3, poses.rotation.shape[0], len(lines)
        point = (by_axis @ lines.anchor.mT).view(shape).add_(poses.translation.mT[..., None])
        return MovedLines(point, (by_axis @ lines.lines.direction.mT).view(shape), lines.segment_half_length)
