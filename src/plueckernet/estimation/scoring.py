"""How well poses explain lines: thousands of hypotheses at once, as a handful of matrix products.

A pair of lines is compared by the angle between them and by the distance of each one's anchor from the other line,
both in units of an :class:`InlierThreshold`. A pair scores ``max(0, 1 - r^2)``, the truncated quadratic: 1 for a
perfect fit, 0 at the threshold and outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel
from plueckernet.kernels.hypotheses import MatchedLines, row_scores
from plueckernet.kernels.library import compiled

# Entries of a temporary tensor. Small blocks stay in the cache and below the size at which the allocator returns memory
# to the system after every operation. Larger blocks were several times slower.
BLOCK_ENTRIES = 25_000


@dataclass(frozen=True)
class InlierThreshold:
    """The distance and the angle at which two lines stop being inliers of a pose."""

    distance: float = 0.5  # in the unit of the map; the default is the paper's threshold
    angle: float = 0.175  # rad; 10 degrees
    directed: bool = False  # whether lines that point in opposite directions differ
    slope: float = 0.0  # rad; growth of `distance` with the distance between the anchors along the line


@dataclass(frozen=True, eq=False)
class AnchoredLines:
    """Lines with one point of each, the anchor, at which positions are compared."""

    lines: LineSet
    anchor: Float[Tensor, "n 3"]
    half_length: Float[Tensor, " n"] | None  # of segments, about the anchor; None for infinite lines
    noise_factor: Float[Tensor, " n"] | None = None  # of each line, by which its noise differs from that of the maps

    @classmethod
    def of(cls, lines: LineSet, reference: Float[Tensor, "3"] | None = None) -> AnchoredLines:
        """Anchor segments at their midpoints, infinite lines at their points nearest to ``reference``.

        The default reference is the centre of the lines.
        """
        if lines.endpoints is None:
            return AnchoredLines(lines, lines.footpoints(lines.centre() if reference is None else reference), None)
        return AnchoredLines(lines, lines.midpoints(), lines.lengths() / 2)

    def to(self, where: torch.device | torch.dtype | str) -> AnchoredLines:
        """Move to a device or a dtype."""
        half_length = None if self.half_length is None else self.half_length.to(where)
        factor = None if self.noise_factor is None else self.noise_factor.to(where)
        return AnchoredLines(self.lines.to(where), self.anchor.to(where), half_length, factor)

    @property
    def segment_half_length(self) -> Float[Tensor, " n"]:
        """The half length, where only segments make sense."""
        if self.half_length is None:
            raise InputError("expected segments, got infinite lines")
        return self.half_length

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: Tensor) -> AnchoredLines:
        half_length = None if self.half_length is None else self.half_length[index]
        factor = None if self.noise_factor is None else self.noise_factor[index]
        return AnchoredLines(self.lines[index], self.anchor[index], half_length, factor)

    def sigmas(self, noise: NoiseModel) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        """Position and direction sigma of each line."""
        position, direction = noise.sigmas(self.lines)
        if self.noise_factor is None:
            return position, direction
        return position * self.noise_factor, direction * self.noise_factor


class RowScorer:
    r"""Scores poses on lines matched row by row.

    With ``u = R^T (q - t)`` the target's anchor in the source frame and ``f`` the source line's foot from the
    origin, the squared distance is ``|u - f|^2 - (u . d)^2``. Both terms, and the cosine of the angle, are linear in
    the entries of ``(R, R^T t, t, |t|^2, 1)`` with products of line coordinates as coefficients. So ``h`` poses on
    ``k`` matches are one matrix product, and ``1 - r^2`` is ``(u . d)^2 + cos^2`` plus a linear part.
    """

    def __init__(self, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold) -> None:
        if len(source) != len(target):
            raise InputError(f"row matches need as many source as target lines, got {len(source)} and {len(target)}")
        self.source, self.target, self.threshold = source, target, threshold

    @cached_property
    def _forms(self) -> Float[Tensor, "17 k3"]:
        """Coefficients of ``1 - r^2``, of the coordinate along the line and of the cosine, match by match."""
        source, target, threshold = self.source, self.target, self.threshold
        d, f, q, e = source.lines.direction, source.lines.footpoints(), target.anchor, target.lines.direction
        unit, count = 1 / threshold.distance, len(source)
        left, right = torch.cat([q, q, e]), torch.cat([2 * unit**2 * f, unit * d, d / threshold.angle])
        rest = left.new_zeros(3 * count, 8)  # of R^T t, t, |t|^2 and 1
        rest[:count, :3], rest[:count, 3:6], rest[:count, 6] = -right[:count], 2 * unit**2 * q, -(unit**2)
        rest[:count, 7] = (1 - threshold.angle**-2) - unit**2 * (q.square() + f.square()).sum(-1)
        rest[count : 2 * count, :3] = -right[count : 2 * count]
        outer = (left[:, :, None] * right[:, None, :]).flatten(1)
        # Single precision suffices: distances are in thresholds, and the maps are centred.
        return torch.cat([outer, rest], -1).mT.float().contiguous()  # (17, 3 k)

    @cached_property
    def compiled_lines(self) -> tuple[MatchedLines, MatchedLines]:
        """The matched lines of both maps for kernels."""
        source, target = (
            MatchedLines(side.lines.direction, side.lines.moment, side.anchor, side.lines.ids)
            for side in (self.source, self.target)
        )
        return source, target

    @cached_property
    def _columns(self) -> Float[Tensor, "12 k"]:
        """Directions and feet of the source, anchors and directions of the target, in single precision."""
        source, target = self.source.lines, self.target.lines
        columns = [source.direction, source.footpoints(), self.target.anchor, target.direction]
        return torch.cat(columns, -1).mT.float().contiguous()

    def fit(self, poses: Pose) -> Float[Tensor, "h k"]:
        """``1 - r^2`` for squared residuals ``r^2`` in thresholds; positive for inliers."""
        return self._combined(_pose_entries(poses.to(torch.float32)) @ self._forms)

    def scores(self, poses: Pose, weight: Float[Tensor, " k"]) -> Float[Tensor, " h"]:
        """Weighted number of matches that each pose explains."""
        if compiled(poses.rotation, weight):
            limits, directed = (self.threshold.distance, self.threshold.angle), self.threshold.directed
            return row_scores((poses.rotation, poses.translation), self._columns, weight, limits, directed)
        entries, weight = _pose_entries(poses.to(torch.float32)), weight.float()
        scores = weight.new_empty(len(entries))
        size = max(1, 8 * BLOCK_ENTRIES // max(1, self._forms.shape[1]))
        forms = weight.new_empty(size, self._forms.shape[1])  # one buffer for all blocks
        for block, out in zip(entries.split(size), scores.split(size), strict=True):
            torch.mm(block, self._forms, out=forms[: len(block)])
            torch.mv(self._combined(forms[: len(block)]).relu_(), weight, out=out)
        return scores

    def _combined(self, forms: Tensor) -> Tensor:
        value, along, cosine = forms.chunk(3, -1)
        value.addcmul_(along, along).addcmul_(cosine, cosine)
        return value.masked_fill_(cosine < 0, -torch.inf) if self.threshold.directed else value


def pair_residuals(
    poses: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold
) -> Float[Tensor, "h m n"]:
    """Squared residuals, in thresholds, of every source line against every target line under ``h`` poses.

    The two point-to-line distances are averaged. For segments, the gap between their ends along the line counts like
    a distance across it.
    """
    e, q, unit = target.lines.direction, target.anchor, 1 / threshold.distance
    # Lines of all poses are the rows of one matrix: products of few rows for each pose would take several times longer.
    moved, turned = poses.act(source.anchor).flatten(0, 1), (source.lines.direction @ poses.rotation.mT).flatten(0, 1)
    source_ones, target_ones = torch.ones_like(moved[:, :1]), torch.ones_like(q[:, :1])
    # The coordinate of the target's anchor along the source line, and the reverse.
    lever = (torch.cat([turned, -_dot(turned, moved)], -1) * unit) @ torch.cat([q, target_ones], -1).mT
    back = torch.cat([moved, source_ones], -1) @ (torch.cat([e, -_dot(e, q)], -1) * unit).mT
    # |p - q|^2 expanded: the maps are centred, so little precision is lost. Both distances are subtracted from it.
    from_source = torch.cat([-2 * moved, _dot(moved, moved), source_ones], -1)
    spread = from_source @ (torch.cat([q, target_ones, _dot(q, q)], -1) * unit**2).mT
    result = spread.addcmul_(lever, lever, value=-0.5).addcmul_(back, back, value=-0.5).clamp_min_(0)
    if threshold.slope:
        result.div_((lever * threshold.slope).square_().add_(1))
    cosine = turned @ (e / threshold.angle).mT
    result.addcmul_(cosine, cosine, value=-1).add_(threshold.angle**-2)
    if source.half_length is not None and target.half_length is not None:
        half_length = source.half_length.repeat(poses.rotation.shape[0])[:, None]
        gap = lever.abs_().sub_((half_length + target.half_length) * unit).clamp_min_(0)
        result.addcmul_(gap, gap)
    result = result.masked_fill_(cosine < 0, torch.inf) if threshold.directed else result
    return result.view(poses.rotation.shape[0], len(source), len(target))


def row_squares(
    directions: tuple[Float[Tensor, "*batch n 3"], Float[Tensor, "*batch n 3"]],
    offset: Float[Tensor, "*batch n 3"],
    half_length: Float[Tensor, "*batch n"] | None,
    threshold: InlierThreshold,
) -> Float[Tensor, "*batch n"]:
    """The residuals of :func:`pair_residuals` of lines compared row by row, from the offset between their anchors.

    ``half_length`` is the sum of those of both segments; None for infinite lines.
    """
    offset = offset / threshold.distance
    lever, back = ((offset * direction).sum(-1) for direction in directions)
    square = (offset.square().sum(-1) - 0.5 * lever.square() - 0.5 * back.square()).clamp_min(0)
    turn = torch.linalg.cross(*directions).square().sum(-1) / threshold.angle**2
    if half_length is None:
        return square + turn
    gap = (lever.abs() - half_length / threshold.distance).clamp_min(0)
    return square + turn + gap.square()


def _pose_entries(poses: Pose) -> Tensor:
    """``(h, 17)``: the entries of R row by row, R^T t, t, |t|^2, 1."""
    t = poses.translation[..., None, :]
    rotation = poses.rotation.flatten(-2)
    local, square = (t @ poses.rotation)[..., 0, :], (t @ t.mT)[..., 0]
    return torch.cat([rotation, local, poses.translation, square, torch.ones_like(square)], -1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)
