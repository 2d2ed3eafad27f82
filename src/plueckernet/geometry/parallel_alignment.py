r"""Poses from two matches of parallel segments, such as poles or window posts, for which two-line solvers fail.

Two parallel lines determine their direction ``u`` and, across it, the unit vector ``n`` from the first to the second.
The frames ``(u, n, u x n)`` of both sides give the rotation; ``-u`` gives another. Across the lines, the middle
between them gives the translation. Along them, infinite lines say nothing, but segments have midpoints and ends: any
of the ends may be cut off, so that each of the three is a choice of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose

_MIN_SEPARATION = 4.0  # of two parallel lines that give a rotation, in tolerated differences of their distance


def parallel_line_poses(source: LineSet, target: LineSet) -> Pose:
    """Poses ``(s, k)`` that map ``s`` pairs of parallel lines, ``(s, 2)``, onto pairs of parallel lines.

    For segments ``k`` is 6: the positions along the lines by midpoints, lower ends and upper ends, first with the
    direction of the first target line, then with the opposite direction. For infinite lines ``k`` is 2 and the feet of
    the origin coincide in the mean. Lines that coincide give non-finite numbers; see :func:`parallel_line_agreement`.
    """
    from_pair, to_pair = _ParallelPairs.of(source), _ParallelPairs.of(target)
    rotation = to_pair.frames()[:, :, None] @ from_pair.frames()[:, :1, None].mT  # (s, 2, 1, 3, 3)
    from_middle = _middle(from_pair.middle, from_pair.direction, from_pair.positions(False))  # (s, 1, p, 3)
    to_middle = _middle(to_pair.middle, to_pair.direction, to_pair.positions(True))  # (s, 2, p, 3)
    translation = to_middle - (rotation @ from_middle[..., None])[..., 0]
    rotation = rotation.expand(*translation.shape, 3)
    return Pose(rotation.flatten(1, 2), translation.flatten(1, 2))


def parallel_line_agreement(source: LineSet, target: LineSet, angle: float, distance: float) -> Bool[Tensor, "s k"]:
    """Which poses of :func:`parallel_line_poses` are consistent with a rigid motion.

    Both pairs must be parallel to ``angle`` (radians), their distances must agree to ``distance`` and be several times
    as large. Matched segments must overlap along the lines, except for ``distance``.
    """
    from_pair, to_pair = _ParallelPairs.of(source), _ParallelPairs.of(target)
    parallel = torch.minimum(from_pair.cosine, to_pair.cosine) > math.cos(angle)
    least = torch.minimum(from_pair.separation, to_pair.separation)
    agreed = parallel & (least > _MIN_SEPARATION * distance)
    agreed &= (from_pair.separation - to_pair.separation).abs() < distance
    if from_pair.ends is None or to_pair.ends is None:
        return agreed[:, None].expand(-1, 2)
    from_ends, to_ends = from_pair.ends[:, None], torch.stack([to_pair.ends, -to_pair.ends.flip(-1)], 1)
    shift = (to_pair.positions(True) - from_pair.positions(False))[..., None]  # (s, 2, 3, 1)
    lower = torch.maximum(from_ends[:, :, None, :, 0] + shift, to_ends[:, :, None, :, 0])
    upper = torch.minimum(from_ends[:, :, None, :, 1] + shift, to_ends[:, :, None, :, 1])  # (s, 2, 3, line)
    return agreed[:, None] & (upper - lower > -distance).all(-1).flatten(1)


@dataclass(frozen=True, eq=False)
class _ParallelPairs:
    """Pairs of nearly parallel lines by their common direction; positions along it are from the origin."""

    direction: Float[Tensor, "s 3"]
    normal: Float[Tensor, "s 3"]  # unit vector from the first line to the second
    separation: Float[Tensor, " s"]
    middle: Float[Tensor, "s 3"]  # between the lines, without its part along them
    cosine: Float[Tensor, " s"]  # of the angle between the lines
    anchor: Float[Tensor, " s"]  # mean position of the anchors
    ends: Float[Tensor, "s 2 2"] | None  # (line, lower and upper) positions of the ends

    @classmethod
    def of(cls, lines: LineSet) -> _ParallelPairs:
        first, second = lines.direction.unbind(-2)
        cosine = (first * second).sum(-1)
        direction = normalize(first + torch.where(cosine < 0, -1.0, 1.0)[:, None] * second, dim=-1)
        anchors = lines.anchors()
        along = (anchors @ direction[:, :, None])[..., 0]  # (s, line)
        # Both lines at one position along them: lines that are not quite parallel have one distance there.
        slope = (lines.direction @ direction[:, :, None])[..., 0]
        points = anchors + ((along.mean(-1, keepdim=True) - along) / slope)[..., None] * lines.direction
        across = points - (points @ direction[:, :, None]) * direction[:, None]
        offset = across[:, 1] - across[:, 0]
        separation = offset.norm(dim=-1)
        ends = None
        if lines.endpoints is not None:
            ends = (lines.endpoints @ direction[:, None, :, None])[..., 0].sort(-1).values
        normal = offset / separation[:, None]
        return cls(direction, normal, separation, across.mean(1), cosine.abs(), along.mean(-1), ends)

    def frames(self) -> Float[Tensor, "s 2 3 3"]:
        """Orthonormal frames of both signs of the direction."""
        third = torch.linalg.cross(self.direction, self.normal)
        frame = torch.stack([self.direction, self.normal, third], -1)
        return torch.stack([frame, frame * frame.new_tensor([-1, 1, -1])], 1)

    def positions(self, signed: bool) -> Float[Tensor, "s g p"]:
        """Mean positions of the midpoints, lower ends and upper ends, or of the anchors; for one or both signs."""
        choices = self.anchor[:, None]
        if self.ends is not None:
            lower, upper = self.ends.mean(1).unbind(-1)
            choices = torch.stack([(lower + upper) / 2, lower, upper], -1)
        if not signed:
            return choices[:, None]
        opposite = choices if self.ends is None else choices[:, [0, 2, 1]]  # the upper end is then the lower
        return torch.stack([choices, -opposite], 1)


def _middle(
    across: Float[Tensor, "s 3"], direction: Float[Tensor, "s 3"], positions: Float[Tensor, "s g p"]
) -> Float[Tensor, "s g p 3"]:
    """Points between the lines at positions along the direction, whose sign is that of the group."""
    sign = positions.new_tensor([1, -1])[: positions.shape[1], None]
    return across[:, None, None] + (sign * positions)[..., None] * direction[:, None, None]
