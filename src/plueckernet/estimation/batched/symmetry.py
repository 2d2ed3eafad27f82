"""Motions under which many maps may explain themselves: the candidates of :mod:`plueckernet.estimation.symmetry`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.distinct import close_poses, compacted, distinct_poses, poses_of
from plueckernet.estimation.batched.lines import PaddedLines, max_entries, take_rows
from plueckernet.estimation.batched.partners import InfinitePartners
from plueckernet.estimation.batched.residuals import Thresholds, pair_squares
from plueckernet.estimation.symmetric_motions import (
    CHECKS,
    DIRECTIONS,
    MAX_COMPARED,
    MAX_LENGTH_RATIO,
    MAX_ROTATIONS,
    MIN_HITS,
    MIN_SECOND_DIRECTION,
    PROMINENT_LINES,
    SymmetrySettings,
)
from plueckernet.estimation.symmetry import MAX_VERIFIED_PAIRS, MIN_VERIFIED
from plueckernet.geometry.alignment import two_line_agreement, two_line_poses
from plueckernet.geometry.invariants import PairInvariants, pairwise_invariants
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose


@dataclass(frozen=True, eq=False)
class MapSymmetries:
    """Motions of each map that pass the checks."""

    poses: Pose  # (b, h), double precision
    mask: Bool[Tensor, "b h"]
    unknown: Bool[Tensor, " b"]  # True: most lines are parallel, and motions come from other pairs


@dataclass(frozen=True, eq=False)
class _Counterparts:
    """Pairs of lines with the invariants of a reference pair, as rows of the map."""

    given: Int[Tensor, "b p 2"]
    images: Int[Tensor, "b p 2"]
    mask: Bool[Tensor, "b p"]


def surviving_motions(
    lines: PaddedLines,
    distance: Float[Tensor, " b"],
    angle: float,
    settings: SymmetrySettings,
    proposed: Pose,
    proposed_mask: Bool[Tensor, "b c"],
) -> MapSymmetries:
    """Motions under which most of the prominent lines of a map coincide with lines of it; single precision lines."""
    order = _by_prominence(lines)
    poses, mask, is_parallel = _candidates(_most_prominent(lines, order), distance, angle, settings)
    identity = Pose.identity(len(distance), 1, dtype=torch.float32, device=str(distance.device))
    mask &= ~close_poses(poses, identity, distance, angle)[..., 0]
    proposed = proposed.to(torch.float32)
    poses = Pose(
        torch.cat([poses.rotation, proposed.rotation], 1), torch.cat([poses.translation, proposed.translation], 1)
    )
    poses, mask = _checked(poses, torch.cat([mask, proposed_mask], 1), lines, order, (distance, angle))
    return MapSymmetries(poses.to(torch.float64), mask, is_parallel)


def _most_prominent(lines: PaddedLines, order: Int[Tensor, "b n"]) -> PaddedLines:
    """Some of the lines, in their order."""
    if order.shape[1] <= PROMINENT_LINES:
        return lines
    rows = order[:, :PROMINENT_LINES].sort(1).values  # padding has the last rows
    return lines.rows(rows, lines.mask.gather(1, rows))


def _candidates(
    lines: PaddedLines, distance: Float[Tensor, " b"], angle: float, settings: SymmetrySettings
) -> tuple[Pose, Bool[Tensor, "b h"], Bool[Tensor, " b"]]:
    """Motions that take a reference pair to a pair with the same invariants, and whether most lines are parallel."""
    order, invariants = (
        _by_prominence(lines)[:, : settings.reference_pairs],
        pairwise_invariants(lines.lines, lines.anchor),
    )
    partner, is_parallel = _partners(lines, order, invariants, angle)
    pairs = _counterparts(lines, invariants, order, partner, (distance, angle, settings))
    return *_crossing_poses(lines, pairs, distance, angle), is_parallel


def _size(lines: PaddedLines) -> Float[Tensor, "b n"]:
    return torch.ones_like(lines.anchor[..., 0]) if lines.half_length is None else lines.half_length


def _by_prominence(lines: PaddedLines) -> Int[Tensor, "b n"]:
    """Rows of long lines near the centre first, padding last."""
    prominence = (_size(lines) / (1 + lines.anchor.square().sum(-1))).masked_fill(~lines.mask, -1.0)
    return prominence.argsort(dim=-1, descending=True, stable=True)


def _rows(values: Float[Tensor, "b n n"], rows: Int[Tensor, "b r"]) -> Float[Tensor, "b r n"]:
    return take_rows(values, rows)


def _partners(
    lines: PaddedLines, order: Int[Tensor, "b r"], invariants: PairInvariants, angle: float
) -> tuple[Int[Tensor, "b r"], Bool[Tensor, " b"]]:
    """A partner of each reference line at an angle, and whether most have none."""
    preference = _size(lines)[:, None] / (0.1 + _rows(invariants.span, order).square())
    sine = _rows(invariants.sine, order).scatter(2, order[..., None], 0.0)
    crossing = preference * torch.where(sine > 2 * math.sin(angle), sine, 0.0) * lines.mask[:, None]
    best, partner = crossing.max(2)
    return partner, 2 * (best > 0).sum(1) < order.shape[1]


def _counterparts(
    lines: PaddedLines,
    invariants: PairInvariants,
    rows: Int[Tensor, "b r"],
    columns: Int[Tensor, "b r"],
    limits: tuple[Tensor, float, SymmetrySettings],
) -> _Counterparts:
    """Of the reference pairs with the fewest counterparts, the closest counterparts of each."""
    settings = limits[2]
    same = torch.stack(
        [_same(lines, invariants, rows[:, r], columns[:, r], limits[:2]) for r in range(rows.shape[1])], 1
    )  # (b, r, n, n)
    count = same.flatten(2).sum(-1)
    repeated = count > 1  # each pair has itself as a counterpart
    chosen = torch.where(repeated, count, same[0, 0].numel() + 1).argsort(dim=1, stable=True)[
        :, : settings.solved_pairs
    ]
    use = repeated.gather(1, chosen) & (2 * repeated.sum(1, keepdim=True) >= rows.shape[1])
    row, column = rows.gather(1, chosen), columns.gather(1, chosen)
    apart = torch.cdist(take_rows(lines.anchor, row), lines.anchor)  # (b, s, n)
    rank = apart.argsort(dim=-1, stable=True).argsort(dim=-1).float()
    n = lines.mask.shape[1]
    key = rank[..., None] * n + torch.arange(n, device=rank.device)
    picked = same[torch.arange(len(rows), device=rows.device)[:, None], chosen]
    key = key.masked_fill_(~picked, math.inf).flatten(2)
    value, place = key.topk(min(settings.max_counterparts, key.shape[-1]), -1, largest=False, sorted=True)
    mask = (value < math.inf) & use[..., None]
    given = torch.stack([row, column], -1)[:, :, None].expand(*place.shape, 2)
    return _Counterparts(given.flatten(1, 2), torch.stack([place // n, place % n], -1).flatten(1, 2), mask.flatten(1))


def _same(
    lines: PaddedLines,
    invariants: PairInvariants,
    row: Int[Tensor, " b"],
    column: Int[Tensor, " b"],
    limits: tuple[Tensor, float],
) -> Bool[Tensor, "b n n"]:
    """Which pairs of lines have the invariants of one pair."""
    place, distance = torch.arange(len(row), device=row.device), limits[0].float()[:, None, None]

    def own(values: Float[Tensor, "b n n"]) -> Float[Tensor, "b 1 1"]:
        return values[place, row, column][:, None, None]

    turn = invariants.cosine * own(invariants.cosine) + invariants.sine * own(invariants.sine)
    same = (turn > math.cos(limits[1])) & ((invariants.distance - own(invariants.distance)).abs_() < distance)
    same &= lines.mask[:, :, None] & lines.mask[:, None]
    if lines.half_length is None:
        return same
    half, ends = lines.half_length, [lines.half_length[place, index][:, None] for index in (row, column)]
    cut = [(half - end).abs() for end in ends]
    like = [
        ((half < MAX_LENGTH_RATIO * end) & (end < MAX_LENGTH_RATIO * half)) | (cut_end < 2 * distance[..., 0])
        for cut_end, end in zip(cut, ends, strict=True)
    ]
    same &= like[0][:, :, None] & like[1][:, None]
    apart = (invariants.span - own(invariants.span)).abs_()
    return same & (apart < cut[0][:, :, None] + cut[1][:, None] + 2 * distance)


def _crossing_poses(
    lines: PaddedLines, pairs: _Counterparts, distance: Float[Tensor, " b"], angle: float
) -> tuple[Pose, Bool[Tensor, "b h"]]:
    """Motions that take two lines at an angle to two others."""

    def lines_of(rows: Int[Tensor, "b p 2"], unit: Tensor | float = 1.0) -> LineSet:
        direction, moment = (
            take_rows(values, rows.flatten(1)).unflatten(1, (-1, 2)) for values in (lines.direction, lines.moment)
        )
        return LineSet(direction, moment / unit)

    unit = distance.float()[:, None, None, None]
    valid = two_line_agreement(lines_of(pairs.given, unit), lines_of(pairs.images, unit), angle, 1.0)
    valid &= pairs.mask[..., None]
    solved = two_line_poses(lines_of(pairs.given), lines_of(pairs.images))
    middle = take_rows(lines.anchor, pairs.given.flatten(1)).unflatten(1, (-1, 2)).mean(2)  # (b, p, 3)
    points = middle[:, :, None].expand_as(solved.translation).flatten(1, 2)
    poses, mask, order = compacted(
        Pose(solved.rotation.flatten(1, 2), solved.translation.flatten(1, 2)), valid.flatten(1)
    )
    return _with_common_rotations(poses, mask, take_rows(points, order), lines, angle), mask


def _with_common_rotations(
    poses: Pose, mask: Bool[Tensor, "b h"], points: Float[Tensor, "b h 3"], lines: PaddedLines, angle: float
) -> Pose:
    """The poses with rotations that agree with the directions of many lines; a point of each moves as before."""
    entries = poses.rotation.flatten(2)
    group, rows = torch.full_like(mask, -1, dtype=torch.long), []
    free = mask
    for number in range(MAX_ROTATIONS):
        row = free.to(torch.uint8).argmax(1, keepdim=True)
        leader = take_rows(entries, row)
        like = free & (((entries @ leader.mT)[..., 0] - 1) / 2 > math.cos(angle))
        group, free = torch.where(like, number, group), free & ~like
        rows.append(row)
        if number % 8 == 7 and not bool(free.any()):
            break
    common = _agreeing(poses_of(poses, torch.cat(rows, 1)).rotation, lines, angle)
    own = take_rows(common.flatten(2), group.clamp_min(0)).unflatten(2, (3, 3))
    rotation = torch.where((group < 0)[..., None, None], poses.rotation, own)
    moved = ((poses.rotation - rotation) @ points[..., None])[..., 0]
    return Pose(rotation, poses.translation + moved)


def _agreeing(rotation: Float[Tensor, "b c 3 3"], lines: PaddedLines, angle: float) -> Float[Tensor, "b c 3 3"]:
    """The rotations after a step that aligns the directions of lines with the closest directions of lines."""
    step = 1 + lines.count[:, None] // DIRECTIONS
    place = torch.arange(DIRECTIONS, device=step.device) * step
    real = place < lines.count[:, None]
    sample = take_rows(lines.direction, torch.where(real, place, 0))  # (b, s, 3)
    cosine = (sample[:, None] @ rotation.mT) @ lines.direction[:, None].mT  # (b, c, s, n)
    best, column = cosine.abs().max(-1)
    sign = cosine.gather(-1, column[..., None]).sign()
    near = ((best > math.cos(angle)) & real[:, None]).to(sample.dtype)[..., None]
    image = take_rows(lines.direction, column.flatten(1)).unflatten(1, column.shape[1:]) * sign * near
    u, singular, vt = torch.linalg.svd(image.mT @ sample[:, None])
    flip = torch.ones_like(singular)
    x, y, z = (u @ vt).unbind(-1)
    flip[..., 2] = (torch.linalg.cross(x, y) * z).sum(-1).sign()
    determined = singular[..., 1] > MIN_SECOND_DIRECTION * singular[..., 0]
    return torch.where(determined[..., None, None], (u * flip[..., None, :]) @ vt, rotation)


def _checked(
    poses: Pose,
    mask: Bool[Tensor, "b h"],
    lines: PaddedLines,
    order: Int[Tensor, "b n"],
    threshold: tuple[Float[Tensor, " b"], float],
) -> tuple[Pose, Bool[Tensor, "b k"]]:
    """Distinct candidates under which most of the first lines of ``order`` coincide with lines, after every check."""
    half = None if lines.half_length is None else lines.half_length / 2  # a segment may not coincide with its extension
    short = PaddedLines(lines.direction, lines.moment, lines.anchor, half, lines.mask)
    poses, mask, _ = compacted(poses, mask)
    sums, start = torch.zeros(*mask.shape, 2, device=mask.device), 0  # fit and hits
    for stop, count in CHECKS:
        rows = order[:, start:stop]
        if not rows.shape[1] or not bool(mask.any()):
            break
        checked = short.rows(rows, lines.mask.gather(1, rows))
        fits = (1 - _misfit(poses, checked, short, threshold)).clamp_min_(0) * checked.mask[:, None]
        sums, start = sums + torch.stack([fits.sum(-1), (fits > 0).sum(-1)], -1), stop
        mask = mask & (sums[..., 1] >= MIN_HITS * lines.count.clamp_max(stop)[:, None])
        best = sums[..., 0].masked_fill(~mask, -1.0).argsort(dim=1, descending=True, stable=True)
        best = best[:, : min(MAX_COMPARED, max(1, int(mask.sum(1).max())))]
        chosen, real = distinct_poses(poses_of(poses, best), mask.gather(1, best), *threshold, count)
        kept = best.gather(1, chosen)
        poses, mask, sums = poses_of(poses, kept), real, take_rows(sums, kept)
    limit = (MAX_VERIFIED_PAIRS // lines.count.square()).clamp_min(MIN_VERIFIED)[:, None]
    poses, mask, _ = compacted(poses, mask & (torch.arange(mask.shape[1], device=mask.device) < limit))
    return poses, mask


def _misfit(
    poses: Pose, checked: PaddedLines, lines: PaddedLines, threshold: tuple[Float[Tensor, " b"], float]
) -> Float[Tensor, "b h m"]:
    """The squared residual of each moved line and its best partner, in thresholds."""
    if lines.half_length is None:
        return InfinitePartners(lines, *threshold).misfit(poses, checked)
    count, poses_each = poses.rotation.shape[:2]
    lines_each = checked.mask.shape[1] * lines.mask.shape[1]
    size, blocks = max(1, max_entries(lines.mask.device) // (2 * count * lines_each)), []
    for start in range(0, poses_each, size):
        rotation, translation = (values[:, start : start + size] for values in (poses.rotation, poses.translation))
        index = torch.arange(count, device=rotation.device).repeat_interleave(rotation.shape[1])
        every = lines.maps(index)
        block, limits = Pose(rotation.flatten(0, 1), translation.flatten(0, 1)), Thresholds.of(*threshold)
        squares = pair_squares(block, checked.maps(index), every, limits.poses(index))
        squares.masked_fill_(~every.mask[:, None], math.inf)
        blocks.append(squares.amin(2).unflatten(0, (count, -1)))
    return torch.cat(blocks, 1)
