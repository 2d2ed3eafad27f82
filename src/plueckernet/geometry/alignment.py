"""Closed-form pose from matched lines (paper Sec. 3.4), with a corrected rotation and explicit line signs.

Row ``i`` of ``source`` matches row ``i`` of ``target``. *Directed* functions assume that matched directions agree in
sign. The other functions do not, and return one pose per choice of signs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.errors import DegenerateError, ShapeError
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, Similarity, skew

_DEGENERATE = 1e-6  # relative size of a singular value below which the problem counts as degenerate


@dataclass(frozen=True, eq=False)
class AlignedPoses:
    """Poses that align the matched lines for some choice of signs, best first."""

    poses: Pose  # (k,)
    cost: Float[Tensor, " k"]  # mean squared direction error plus mean squared point-to-line distance


def align_directed(source: LineSet, target: LineSet, weight: Float[Tensor, "*batch n"] | None = None) -> Pose:
    """``target_T_source`` from two or more matches whose directions agree in sign.

    Rotation: ``v' = R v`` (Eq. 12). With ``M = sum w v' v^T = U S V^T``, ``R = U diag(1, 1, det(U V^T)) V^T``. Only
    the singular vector of the smallest singular value may change sign. The paper divides the whole matrix by its
    determinant instead, which gives a wrong rotation for every second pair of lines. Translation: least squares on
    ``m' = R m + t x R v`` (Eq. 11, in the form of Eq. 13). Parallel lines raise :class:`DegenerateError`.
    """
    pose, well_posed = fit_directed(source, target, weight)
    if not bool(well_posed.all()):
        raise DegenerateError("the lines are parallel or fewer than two: the pose is not determined")
    return pose


def align_similarity(source: LineSet, target: LineSet) -> Similarity:
    """Like :func:`align_directed` with unknown scale: ``m' = s R m + t x R v`` is linear in ``(s, t)``.

    Parallel lines, and lines through one point, raise :class:`DegenerateError`.
    """
    _check_rows(source, target)
    source_centre, target_centre = source.centre(), target.centre()
    source, target = source.shifted(source_centre), target.shifted(target_centre)
    rotation, well_posed = _fit_rotation(source, target, torch.ones_like(source.direction[..., 0]))
    moved = source.moved_by(Pose(rotation, torch.zeros_like(source_centre)))
    design = torch.cat([moved.moment[..., None], -skew(moved.direction)], -1).flatten(-3, -2)  # (*, 3n, 4)
    values = torch.linalg.svdvals(design)
    if not bool((well_posed & (values[..., -1] > _DEGENERATE * values[..., 0])).all()):
        raise DegenerateError("the lines are parallel or meet in one point: the scale is not determined")
    answer = torch.linalg.lstsq(design, target.moment.flatten(-2, -1)[..., None]).solution[..., 0]
    centred = Similarity(answer[..., 0], rotation, answer[..., 1:])
    back = (centred.act(-source_centre[..., None, :]))[..., 0, :] + target_centre
    return Similarity(answer[..., 0], rotation, back)


def align(source: LineSet, target: LineSet) -> AlignedPoses:
    """All poses consistent with two or more undirected matches, best first.

    The two matches closest to a right angle are solved for all four sign choices. Each solution determines the
    signs of all other lines and is then refitted to all of them. Two lines always leave at least two solutions,
    because a rotation by 180 degrees about their common perpendicular maps each line onto itself.
    """
    _check_rows(source, target)
    first, second = _widest_pair(source)
    rows = torch.stack([first, second])
    starts = two_line_poses(source[rows], target[rows])
    sign = torch.sign((source.direction @ starts.rotation.mT * target.direction).sum(-1))  # (4, n)
    flipped = [source.flipped(row < 0) for row in sign]
    fits = [fit_directed(signed, target) for signed in flipped]
    if not all(bool(ok) for _, ok in fits):
        raise DegenerateError("the lines are parallel or fewer than two: the pose is not determined")
    cost = torch.stack([_cost(pose @ signed, target) for (pose, _), signed in zip(fits, flipped, strict=True)])
    order = cost.argsort(stable=True)
    poses = Pose(
        torch.stack([pose.rotation for pose, _ in fits])[order],
        torch.stack([pose.translation for pose, _ in fits])[order],
    )
    return AlignedPoses(poses, cost[order])


def two_line_poses(source: LineSet, target: LineSet) -> Pose:
    """The minimal solver: poses ``(*batch, 4)`` that map two lines onto two lines, one for each choice of signs.

    No matrix decomposition is needed. ``v1 + v2``, ``v1 - v2`` and their cross product are orthogonal, so each side
    gives an orthonormal frame. The rotation maps one frame to the other, which splits the error of the angle evenly.
    Flipping signs permutes and negates the columns of the frame. The translation maps the midpoint of the source's
    common perpendicular to that of the target's, which is the least-squares solution. Sign choices are ordered
    ``(+,+), (-,-), (+,-), (-,+)``. Parallel lines give non-finite numbers; see :func:`two_line_agreement`.
    """
    direction, moment = _pairs(source.direction, target.direction), _pairs(source.moment, target.moment)
    plus, minus, normal = _frame(direction)  # each (3, side, *)
    kept = plus[:, None, 1] * plus[:, 0] + minus[:, None, 1] * minus[:, 0]  # axis by axis, a sum of outer products
    swapped = minus[:, None, 1] * plus[:, 0] + plus[:, None, 1] * minus[:, 0]  # flipping one line swaps plus and minus
    turned = normal[:, None, 1] * normal[:, 0]  # (3, 3, *)
    rotation = torch.stack([turned + kept, turned - kept, swapped - turned, -swapped - turned], 2)  # (3, 3, 4, *)
    from_point, to_point = _meeting_point(direction, moment).unbind(1)
    translation = to_point[:, None] - (rotation * from_point[:, None]).sum(1)  # (3, 4, *)
    return Pose(rotation.movedim((2, 0, 1), (-3, -2, -1)), translation.movedim((1, 0), (-2, -1)))


def two_line_agreement(source: LineSet, target: LineSet, angle: float, distance: float) -> Bool[Tensor, "*batch 4"]:
    """Which of the four sign choices of :func:`two_line_poses` are consistent with a rigid motion.

    A rigid motion preserves the angle between two directed lines and their signed distance along the common
    perpendicular. A choice is rejected if either differs by more than ``angle`` (radians) or ``distance``. All
    choices are rejected for nearly parallel lines.
    """
    direction, moment = _pairs(source.direction, target.direction), _pairs(source.moment, target.moment)
    cosines = (direction[:, 0] * direction[:, 1]).sum(0)  # (side, *)
    sines = (1 - cosines.square()).clamp_min_(0).sqrt_()  # (side, *)
    mutual = (direction * moment.flip(1)).sum((0, 1))  # d1 . m2 + d2 . m1
    gap, other_gap = mutual.div_(sines.clamp_min(1e-12)).unbind(0)
    sine, other_sine = sines.unbind(0)
    # cos(x - y) = cos x cos y + sin x sin y; flipping one line negates its cosine and its signed distance.
    cosine_product, sine_product = cosines[0] * cosines[1], sine * other_sine
    skewed = torch.minimum(sine, other_sine) > max(angle, 1e-3)
    sign = direction.new_tensor([1, 1, -1, -1])
    turned = sine_product[..., None] + cosine_product[..., None] * sign > math.cos(angle)
    shifted = (gap[..., None] - other_gap[..., None] * sign).abs_() < distance
    return skewed[..., None] & turned & shifted


def fit_directed(
    source: LineSet, target: LineSet, weight: Float[Tensor, "*batch n"] | None = None
) -> tuple[Pose, Bool[Tensor, "*batch"]]:
    """Batched :func:`align_directed` that returns which solutions are well posed instead of raising."""
    _check_rows(source, target)
    if weight is None:
        weight = torch.ones_like(source.direction[..., 0])
    rotation, well_posed = _fit_rotation(source, target, weight)
    moved = source.moved_by(Pose(rotation, torch.zeros_like(rotation[..., 0])))
    # Eq. (13), [Rv]x^T t = m' - Rm, stacked; its normal equations are sums of projectors orthogonal to the lines.
    design = skew(moved.direction).mT
    normal = (weight[..., None, None] * (design.mT @ design)).sum(-3)
    right = (weight[..., None] * (design.mT @ (target.moment - moved.moment)[..., None])[..., 0]).sum(-2)
    well_posed = well_posed & (torch.linalg.eigvalsh(normal)[..., 0] > _DEGENERATE * weight.sum(-1))
    eye = torch.eye(3, dtype=normal.dtype, device=normal.device)
    safe = torch.where(well_posed[..., None, None], normal, eye)
    return Pose(rotation, torch.linalg.solve(safe, right[..., None])[..., 0]), well_posed


def _fit_rotation(source: LineSet, target: LineSet, weight: Tensor) -> tuple[Tensor, Tensor]:
    correlation = (weight[..., None] * target.direction).mT @ source.direction
    u, singular, vt = torch.linalg.svd(correlation)
    sign = torch.ones_like(singular)
    sign[..., 2] = torch.linalg.det(u @ vt).sign()
    return (u * sign[..., None, :]) @ vt, singular[..., 1] > _DEGENERATE * weight.sum(-1)


def _pairs(source: Tensor, target: Tensor) -> Tensor:
    """Vectors ``(*batch, 2, 3)`` of pairs of lines as ``(3, line, side, *batch)``, which makes component sums fast."""
    return torch.stack([vectors.movedim((-1, -2), (0, 1)) for vectors in (source, target)], 2)


def _frame(direction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    first, second = direction.unbind(1)
    twice = 2 * (first * second).sum(0)
    plus, minus = (first + second) * (2 + twice).rsqrt_(), (first - second) * (2 - twice).rsqrt_()
    return plus, minus, torch.linalg.cross(plus, minus, dim=0)


def _meeting_point(direction: Tensor, moment: Tensor) -> Tensor:
    """Midpoint of the common perpendicular of two lines, ``(3, side, *)``.

    With ``c = d1 . d2`` and foot points ``f`` of the origin, the perpendicular meets line 1 at ``f1 + s1 d1``, where
    ``s1 = (f2 . d1 + c f1 . d2) / (1 - c^2)``. Line 2 is symmetric.
    """
    foot = torch.linalg.cross(direction, moment, dim=0)
    cosine = (direction[:, 0] * direction[:, 1]).sum(0)
    across = (foot.flip(1) * direction).sum(0)  # (line, side, *): f2 . d1, f1 . d2
    along = (across + cosine * across.flip(0)) / (1 - cosine.square())
    return (foot + along * direction).mean(1)


def _widest_pair(lines: LineSet) -> tuple[Tensor, Tensor]:
    if len(lines) < 2:
        raise DegenerateError("fewer than two lines do not determine the pose")
    cosine = (lines.direction @ lines.direction.mT).abs()
    smallest = cosine.argmin()
    return smallest // len(lines), smallest % len(lines)


def _cost(moved: LineSet, target: LineSet) -> Tensor:
    feet = target.footpoints(target.centre())
    off = torch.linalg.cross(feet, moved.direction) - moved.moment
    turn = moved.direction - target.direction
    return off.square().sum(-1).mean(-1) + turn.square().sum(-1).mean(-1)


def _check_rows(source: LineSet, target: LineSet) -> None:
    if source.direction.shape != target.direction.shape:
        raise ShapeError(
            "target, matched row by row with source",
            expected=tuple(source.direction.shape),
            actual=tuple(target.direction.shape),
        )
