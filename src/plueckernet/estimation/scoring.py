"""How well poses explain lines: thousands of hypotheses at once, as a handful of matrix products.

A pair of lines is compared by the angle between them and by the distance of each one's anchor from the other line,
both in units of a :class:`Tolerance`. A pair scores ``max(0, 1 - r^2)``, the truncated quadratic: 1 for a perfect
fit, 0 from the tolerance on.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose

# Entries of a temporary. Small blocks stay in the cache and below the size from which the allocator gives memory
# back to the system after every operation; larger ones were measured to be several times slower.
BLOCK = 25_000


@dataclass(frozen=True)
class Tolerance:
    """From where on two lines no longer are one."""

    position: float = 0.5  # in the unit of the map; the paper's inlier threshold
    angle: float = 0.175  # rad; 10 degrees
    directed: bool = False  # whether lines that point opposite ways differ
    slope: float = 0.0  # rad; by which `position` grows with the distance of the anchors along the line


@dataclass(frozen=True, eq=False)
class AnchoredLines:
    """Lines with the point of each that is compared, and half the length it extends to either side."""

    lines: LineSet
    anchor: Float[Tensor, "n 3"]
    reach: Float[Tensor, " n"] | None  # None for infinite lines

    @classmethod
    def of(cls, lines: LineSet, reference: Float[Tensor, "3"] | None = None) -> AnchoredLines:
        """Midpoints of segments; feet from ``reference`` (default: the centre) of infinite lines."""
        if lines.endpoints is None:
            return AnchoredLines(lines, lines.footpoints(lines.centre() if reference is None else reference), None)
        return AnchoredLines(lines, lines.midpoints(), lines.lengths() / 2)

    def to(self, where: torch.device | torch.dtype | str) -> AnchoredLines:
        """Move to a device or a dtype."""
        reach = None if self.reach is None else self.reach.to(where)
        return AnchoredLines(self.lines.to(where), self.anchor.to(where), reach)

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: Tensor) -> AnchoredLines:
        reach = None if self.reach is None else self.reach[index]
        return AnchoredLines(self.lines[index], self.anchor[index], reach)


class RowScorer:
    r"""Scores poses on lines matched row by row.

    With ``u = R^T (q - t)`` the target's anchor in the source frame and ``f`` the source line's foot from the
    origin, the squared distance is ``|u - f|^2 - (u . d)^2``. Both terms, and the cosine of the angle, are linear in
    the entries of ``(R, R^T t, t, |t|^2, 1)`` with products of line coordinates as coefficients. So ``h`` poses on
    ``k`` matches are one matrix product, and ``1 - r^2`` is ``(u . d)^2 + cos^2`` plus a linear part.
    """

    def __init__(self, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance) -> None:
        d, f, q, e = source.lines.direction, source.lines.footpoints(), target.anchor, target.lines.direction
        unit, count = 1 / tolerance.position, len(source)
        left, right = torch.cat([q, q, e]), torch.cat([2 * unit**2 * f, unit * d, d / tolerance.angle])
        rest = left.new_zeros(3 * count, 8)  # of R^T t, t, |t|^2 and 1
        rest[:count, :3], rest[:count, 3:6], rest[:count, 6] = -right[:count], 2 * unit**2 * q, -(unit**2)
        rest[:count, 7] = (1 - tolerance.angle**-2) - unit**2 * (q.square() + f.square()).sum(-1)
        rest[count : 2 * count, :3] = -right[count : 2 * count]
        outer = (left[:, :, None] * right[:, None, :]).flatten(1)
        # Single precision will do: distances are in tolerances, and the maps are centred.
        self._forms = torch.cat([outer, rest], -1).mT.float().contiguous()  # (17, 3 k)
        self.tolerance = tolerance

    def fit(self, poses: Pose) -> Float[Tensor, "h k"]:
        """``1 - r^2`` for squared residuals ``r^2`` in tolerances; positive for inliers."""
        return self._combined(_pose_entries(poses.to(torch.float32)) @ self._forms)

    def scores(self, poses: Pose, weight: Float[Tensor, " k"]) -> Float[Tensor, " h"]:
        """Weighted number of matches that each pose explains."""
        entries, weight = _pose_entries(poses.to(torch.float32)), weight.float()
        scores = weight.new_empty(len(entries))
        size = max(1, 8 * BLOCK // max(1, self._forms.shape[1]))
        forms = weight.new_empty(size, self._forms.shape[1])  # one piece of memory for all blocks
        for part, out in zip(entries.split(size), scores.split(size), strict=True):
            torch.mm(part, self._forms, out=forms[: len(part)])
            torch.mv(self._combined(forms[: len(part)]).relu_(), weight, out=out)
        return scores

    def _combined(self, forms: Tensor) -> Tensor:
        value, along, cosine = forms.chunk(3, -1)
        value.addcmul_(along, along).addcmul_(cosine, cosine)
        return value.masked_fill_(cosine < 0, -torch.inf) if self.tolerance.directed else value


def pair_residuals(
    poses: Pose, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance
) -> Float[Tensor, "h m n"]:
    """Squared residuals, in tolerances, of every source line against every target line under ``h`` poses.

    The two point-to-line distances are averaged. Segments must also come together along the line: the gap
    between their ends counts like a distance across.
    """
    d, e, q = source.lines.direction, target.lines.direction, target.anchor
    unit, moved = 1 / tolerance.position, poses.act(source.anchor)  # (h, m, 3)
    one, other = torch.ones_like(moved[..., :1]), torch.ones_like(q[..., :1])
    seen = poses.inverse().act(q)  # (h, n, 3)
    own = torch.cat([d, -_dot(d, source.anchor)], -1) * unit
    lever = own @ torch.cat([seen, torch.ones_like(seen[..., :1])], -1).mT  # target's anchor along the source line
    back = torch.cat([moved, one], -1) @ (torch.cat([e, -_dot(e, q)], -1) * unit).mT
    # |p - q|^2 by its binomial; the maps are centred, so little is lost. Both distances across lose from it.
    spread = torch.cat([-2 * moved, _dot(moved, moved), one], -1) @ (torch.cat([q, other, _dot(q, q)], -1) * unit**2).mT
    result = spread.addcmul_(lever, lever, value=-0.5).addcmul_(back, back, value=-0.5).clamp_min_(0)
    if tolerance.slope:
        result.div_((lever * tolerance.slope).square_().add_(1))
    cosine = (d @ poses.rotation.mT) @ (e / tolerance.angle).mT
    result.addcmul_(cosine, cosine, value=-1).add_(tolerance.angle**-2)
    if source.reach is not None and target.reach is not None:
        gap = lever.abs_().sub_((source.reach[:, None] + target.reach) * unit).clamp_min_(0)
        result.addcmul_(gap, gap)
    return result.masked_fill_(cosine < 0, torch.inf) if tolerance.directed else result


def line_spacing(lines: AnchoredLines, tolerance: Tolerance) -> float:
    """The usual distance of a line from its closest neighbour of about the same direction, in position tolerances."""
    single = lines.to(torch.float32)
    still = Pose.identity(1, dtype=torch.float32, device=str(lines.anchor.device))
    closest = []
    for rows in torch.arange(len(lines), device=lines.anchor.device).split(max(1, BLOCK // len(lines))):
        squares = pair_residuals(still, single[rows], single, tolerance)[0]
        squares[torch.arange(len(rows)), rows] = torch.inf
        closest.append(squares.amin(1))
    return float(torch.cat(closest).median().sqrt())


def _pose_entries(poses: Pose) -> Tensor:
    """``(h, 17)``: the entries of R row by row, R^T t, t, |t|^2, 1."""
    t = poses.translation[..., None, :]
    rotation = poses.rotation.flatten(-2)
    local, square = (t @ poses.rotation)[..., 0, :], (t @ t.mT)[..., 0]
    return torch.cat([rotation, local, poses.translation, square, torch.ones_like(square)], -1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)
