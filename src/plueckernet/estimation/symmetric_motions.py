"""Motions that may be symmetries of a map: from pairs of lines with the same invariants, checked on a few lines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.distinct import Distinctness, close_poses, distinct_poses
from plueckernet.estimation.infinite_lines import InfiniteLines
from plueckernet.estimation.masks import largest, places_above
from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.alignment import two_line_agreement, two_line_poses
from plueckernet.geometry.invariants import PairInvariants, pairwise_invariants
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, joined
from plueckernet.kernels import symmetry as kernels
from plueckernet.kernels.library import compiled
from plueckernet.settings import check_at_least, check_fraction, check_positive

PROMINENT_LINES = 200  # of a map, among which pairs of lines are compared
MAX_LENGTH_RATIO = 1.4  # of two segments that are counterparts
_SEPARATION = 3.0  # inlier distances between two parallel lines that fix the rotation about them
MAX_ROTATIONS = 48  # distinct rotations that are aligned with the directions of the map
DIRECTIONS = 64  # lines that they are aligned with
MIN_SECOND_DIRECTION = 0.03  # singular value over the largest, for the directions to determine a rotation
CHECKS = (
    (3, 400),
    (8, 160),
    (24, 60),
    (64, 40),
)  # lines on which candidates are checked, and how many candidates remain
MAX_COMPARED = 1000  # candidates that pass a check, of which the distinct ones remain
MIN_HITS = 0.6  # fraction of the checked lines that coincide with a line


@dataclass(frozen=True)
class SymmetrySettings:
    """Which motions are symmetries of a map."""

    reference_pairs: int = 8  # pairs of lines that are compared with all others
    solved_pairs: int = 4  # of them, those with the fewest counterparts, from which motions are computed
    max_counterparts: int = 120  # of each
    max_symmetries: int = 32
    min_explained_fraction: float = 0.8  # of the lines where the moved map overlaps the map
    min_overlap: float = 0.5  # explained lines over all lines, also by length

    def __post_init__(self) -> None:
        check_at_least(self, 1, "reference_pairs", "solved_pairs", "max_counterparts", "max_symmetries")
        check_fraction(self, "min_explained_fraction")
        check_positive(self, "min_overlap")


def surviving_motions(
    lines: AnchoredLines, threshold: InlierThreshold, settings: SymmetrySettings, proposed: Pose | None = None
) -> Pose:
    """Motions under which most of the prominent lines of a map coincide with lines of it, in single precision.

    The best come first. ``proposed`` are checked, too.
    """
    if compiled(lines.anchor):
        return _compiled_motions(lines, threshold, settings, proposed)
    single = lines.to(torch.float32)
    order = _by_prominence(single)
    candidates = _candidates(*_most_prominent(single, order), threshold, settings)
    if proposed is not None:
        candidates = joined(candidates, proposed.to(torch.float32))
    return _checked(candidates, _shortened(single), order, threshold)


def _compiled_motions(
    lines: AnchoredLines, threshold: InlierThreshold, settings: SymmetrySettings, proposed: Pose | None
) -> Pose:
    """The same by kernels."""
    inlier, close = kernel_threshold(threshold), _closeness_limits(threshold)
    counts = PROMINENT_LINES, settings.reference_pairs, settings.solved_pairs, settings.max_counterparts
    agreement = MAX_LENGTH_RATIO, _SEPARATION, MAX_ROTATIONS, DIRECTIONS, MIN_SECOND_DIRECTION
    motions, order = kernels.candidate_motions(
        kernel_lines(lines), kernels.CandidateLimits(inlier, *counts, *agreement, *close)
    )
    poses = Pose(*motions)
    if proposed is not None and proposed.rotation.shape[0]:
        poses = joined(poses, proposed.to(torch.float32))
    if not poses.rotation.shape[0]:
        return poses
    limits = kernels.CheckLimits(inlier, MIN_HITS, MAX_COMPARED, *close)
    motions = kernels.Motions.of(poses.rotation, poses.translation)
    return poses[kernels.checked_rows(motions, kernel_lines(_shortened(lines)), order, CHECKS, limits)]


def kernel_lines(lines: AnchoredLines) -> kernels.GivenLines:
    """The lines as kernels take them."""
    return kernels.GivenLines.of(lines.lines.direction, lines.lines.moment, lines.anchor, lines.half_length)


def kernel_threshold(threshold: InlierThreshold) -> kernels.Threshold:
    """The threshold as kernels take it."""
    return kernels.Threshold(threshold.distance, threshold.angle, threshold.slope, threshold.directed)


def _by_prominence(lines: AnchoredLines) -> Int[Tensor, " n"]:
    """Rows of long lines near the centre first: a shift of the map leaves them inside it."""
    size = torch.ones_like(lines.anchor[:, 0]) if lines.half_length is None else lines.half_length
    return (size / (1 + lines.anchor.square().sum(-1))).argsort(descending=True, stable=True)


def _most_prominent(lines: AnchoredLines, order: Int[Tensor, " n"]) -> tuple[AnchoredLines, Int[Tensor, " k"]]:
    """Some of the lines and their order, by prominence: a symmetry shows in the middle of a map, too."""
    if len(order) <= PROMINENT_LINES:
        return lines, order
    lines = lines[order[:PROMINENT_LINES].sort().values]
    return lines, _by_prominence(lines)


def _candidates(
    lines: AnchoredLines, order: Int[Tensor, " n"], threshold: InlierThreshold, settings: SymmetrySettings
) -> Pose:
    """Motions that take a reference pair to a pair with the same invariants, without the identity."""
    order = order[: settings.reference_pairs]
    invariants = pairwise_invariants(lines.lines, lines.anchor)
    partner, is_parallel = _partners(lines, order, invariants, threshold)
    references = zip(order.tolist(), partner.tolist(), strict=True)
    counterparts = [_Counterparts.of(lines, reference, invariants, threshold) for reference in references]
    repeated = sorted((entry for entry in counterparts if entry.count > 1), key=lambda entry: entry.count)
    if 2 * len(repeated) < len(counterparts):  # each has itself as a counterpart
        return Pose.identity(0, dtype=torch.float32, device=str(lines.anchor.device))
    solved = repeated[: settings.solved_pairs]
    pairs = torch.cat([entry.closest(settings.max_counterparts) for entry in solved])
    poses = _parallel_poses(lines, pairs) if is_parallel else _crossing_poses(lines, pairs, threshold)
    return poses[~is_identity(poses, threshold)]


def _closeness_limits(threshold: InlierThreshold) -> tuple[float, float]:
    """Trace of a rotation and squared distance of poses that are not distinct: above the one, below the other."""
    settings = Distinctness()
    return 1 + 2 * math.cos(settings.angle * threshold.angle), (settings.distance * threshold.distance) ** 2


def is_identity(poses: Pose, threshold: InlierThreshold) -> Bool[Tensor, " h"]:
    """Which motions move nothing by more than the inlier threshold can resolve."""
    identity = Pose.identity(1, dtype=poses.rotation.dtype, device=str(poses.rotation.device))
    return close_poses(poses, identity, threshold)[:, 0]


def _partners(
    lines: AnchoredLines, order: Int[Tensor, " r"], invariants: PairInvariants, threshold: InlierThreshold
) -> tuple[Int[Tensor, " r"], bool]:
    """A partner of each reference line, and whether all partners are parallel; invariants are of all lines.

    A partner is long, close and at a large angle; in a map of parallel lines, it is some distance away.
    """
    size = torch.ones_like(lines.anchor[:, 0]) if lines.half_length is None else lines.half_length
    preference = size / (0.1 + invariants.span[order].square())
    sine = invariants.sine[order]
    sine[torch.arange(len(order), device=order.device), order] = 0
    crossing = preference * torch.where(sine > 2 * math.sin(threshold.angle), sine, 0.0)
    if 2 * int((crossing.amax(1) > 0).sum()) >= len(order):
        return crossing.argmax(1), False
    separate = invariants.anchor_distance[order] > _SEPARATION * threshold.distance
    return (preference * separate).argmax(1), True


@dataclass(frozen=True, eq=False)
class _Counterparts:
    """The pairs of lines of a map that have the invariants of a reference, itself among them."""

    lines: AnchoredLines
    reference: tuple[int, int]  # rows of its lines
    like: Float[Tensor, "n n"]  # one for counterparts, zero for other pairs
    count: int

    @classmethod
    def of(
        cls, lines: AnchoredLines, reference: tuple[int, int], pairs: PairInvariants, threshold: InlierThreshold
    ) -> _Counterparts:
        """Pairs with the same angle and distance; of segments, those of about the same lengths and span."""
        values = (pairs.cosine, pairs.sine, pairs.distance, pairs.span)
        cosine, sine, distance, span = (float(value[reference]) for value in values)
        # Numbers instead of masks, which are several times slower on a CPU: positive where the pairs are alike.
        margin = (pairs.cosine * cosine).add_(pairs.sine, alpha=sine).sub_(math.cos(threshold.angle))
        margin = torch.minimum(margin, (pairs.distance - distance).abs_().neg_().add_(threshold.distance))
        if lines.half_length is not None:
            rows, columns = (_length_margin(lines.half_length, row, threshold) for row in reference)
            margin = torch.minimum(margin, torch.minimum(rows[:, None], columns))
            # The ends of a segment may be cut; its midpoint then moves by half of that.
            cuts = [(lines.half_length - lines.half_length[row]).abs() for row in reference]
            apart = (pairs.span - span).abs_().sub_(cuts[0][:, None]).sub_(cuts[1])
            margin = torch.minimum(margin, apart.neg_().add_(2 * threshold.distance))
        like = margin.gt_(0)
        return _Counterparts(lines, reference, like, int(like.sum()))

    def closest(self, count: int) -> Int[Tensor, "k 4"]:
        """The reference and its counterparts, ``(row, column, row', column')``, at most ``count``, closest first."""
        anchor = self.lines.anchor
        order = (anchor - anchor[self.reference[0]]).norm(dim=-1).argsort(stable=True)
        places = places_above(self.like[order], 0.0)[:count]
        pairs = torch.stack([order[places // len(order)], places % len(order)], -1)
        return torch.cat([pairs.new_tensor(self.reference).expand_as(pairs), pairs], -1)


def _length_margin(half_length: Float[Tensor, " n"], row: int, threshold: InlierThreshold) -> Float[Tensor, " n"]:
    """Positive for the lines about as long as one, itself among them."""
    own = half_length[row]
    like = torch.minimum(MAX_LENGTH_RATIO * own - half_length, MAX_LENGTH_RATIO * half_length - own)
    return torch.maximum(like, 2 * threshold.distance - (half_length - own).abs())


def _crossing_poses(lines: AnchoredLines, pairs: Int[Tensor, "p 4"], threshold: InlierThreshold) -> Pose:
    """Motions that take two lines at an angle to two others."""
    given, images = (
        LineSet(lines.lines.direction[rows], lines.lines.moment[rows]) for rows in (pairs[:, :2], pairs[:, 2:])
    )
    valid = two_line_agreement(given, images, threshold.angle, threshold.distance)
    poses = two_line_poses(given, images)
    points = lines.anchor[pairs[:, :2]].mean(1)[valid.nonzero()[:, 0]]
    return _with_common_rotations(Pose(poses.rotation[valid], poses.translation[valid]), points, lines, threshold)


def _with_common_rotations(
    poses: Pose, points: Float[Tensor, "h 3"], lines: AnchoredLines, threshold: InlierThreshold
) -> Pose:
    """The poses with rotations that agree with the directions of many lines; a point of each moves as before.

    Two short lines determine a rotation badly, but a symmetry takes all directions of a map to directions of it.
    """
    entries = poses.rotation.flatten(1).cpu().numpy()
    group, rows = np.full(len(entries), -1), np.arange(len(entries))
    representatives: list[int] = []
    while len(representatives) < MAX_ROTATIONS and len(rows):
        like = entries @ entries[0] > 1 + 2 * math.cos(threshold.angle)
        like[0] = True
        group[rows[like]] = len(representatives)
        representatives.append(int(rows[0]))
        entries, rows = entries[~like], rows[~like]
    if not representatives:
        return poses
    common = _agreeing(poses.rotation[representatives], lines, threshold)
    number = torch.from_numpy(group).to(common.device)
    rotation = torch.where((number < 0)[:, None, None], poses.rotation, common[number])
    moved = ((poses.rotation - rotation) @ points[..., None])[..., 0]
    return Pose(rotation, poses.translation + moved)


def _agreeing(
    rotation: Float[Tensor, "c 3 3"], lines: AnchoredLines, threshold: InlierThreshold
) -> Float[Tensor, "c 3 3"]:
    """The rotations after a step that aligns the directions of lines with the closest directions of lines."""
    direction = lines.lines.direction
    sample = direction[:: 1 + len(direction) // DIRECTIONS]
    columns, cosines = [], []
    for block in rotation.split(max(1, 4 * BLOCK_ENTRIES // max(1, len(sample) * len(direction)))):
        cosine = (sample @ block.mT) @ direction.mT  # (b, s, n)
        columns.append(largest(cosine.abs()))
        cosines.append(cosine.gather(-1, columns[-1][..., None]))
    column, best = torch.cat(columns), torch.cat(cosines)
    sign, near = best.sign(), (best.abs() > math.cos(threshold.angle)).to(direction.dtype)
    u, singular, vt = torch.linalg.svd((direction[column] * sign * near).mT @ sample)
    flip = torch.ones_like(singular)
    flip[:, 2] = torch.linalg.det(u @ vt).sign()
    determined = singular[:, 1] > MIN_SECOND_DIRECTION * singular[:, 0]
    return torch.where(determined[:, None, None], (u * flip[:, None]) @ vt, rotation)


def _parallel_poses(lines: AnchoredLines, pairs: Int[Tensor, "p 4"]) -> Pose:
    """Motions that take two parallel lines to two others; the anchors fix the shift along them."""
    anchor, direction = lines.anchor[pairs], lines.lines.direction[pairs]
    given = _parallel_frame(direction[:, 0], anchor[:, 1] - anchor[:, 0])
    images = [_parallel_frame(sign * direction[:, 2], anchor[:, 3] - anchor[:, 2]) for sign in (1, -1)]
    rotation = torch.stack([frame @ given.mT for frame in images], 1).flatten(0, 1)
    middle, image = (ends.mean(1).repeat_interleave(2, 0) for ends in (anchor[:, :2], anchor[:, 2:]))
    return Pose(rotation, image - (rotation @ middle[..., None])[..., 0])


def _parallel_frame(direction: Float[Tensor, "p 3"], across: Float[Tensor, "p 3"]) -> Float[Tensor, "p 3 3"]:
    across = normalize(across - (across * direction).sum(-1, keepdim=True) * direction, dim=-1)
    return torch.stack([direction, across, torch.linalg.cross(direction, across)], -1)


def _checked(
    poses: Pose,
    lines: AnchoredLines,
    order: Int[Tensor, " r"],
    threshold: InlierThreshold,
) -> Pose:
    """Distinct candidates under which most of the first lines of ``order`` coincide with lines."""
    fit = poses.translation.new_zeros(poses.rotation.shape[0])
    hits, start = torch.zeros_like(fit), 0
    infinite = None if lines.half_length is not None else InfiniteLines(lines, threshold)
    for stop, count in CHECKS:
        rows = order[start:stop]
        if not len(fit) or not len(rows):
            break
        misfit = (
            _misfit(poses, lines[rows], lines, threshold) if infinite is None else infinite.misfit(poses, lines[rows])
        )
        best = (1 - misfit).clamp_min_(0)
        fit, hits, start = fit + best.sum(1), hits + (best > 0).sum(1), stop
        kept = (hits >= MIN_HITS * min(stop, len(order))).nonzero()[:, 0]
        if len(kept) > count or stop >= min(len(order), CHECKS[-1][0]):  # too many, or the last check
            kept = kept[fit[kept].topk(min(MAX_COMPARED, len(kept))).indices]
            kept = kept[distinct_poses(poses[kept], fit[kept], threshold, count)]
        poses, fit, hits = poses[kept], fit[kept], hits[kept]
    return poses


def _shortened(lines: AnchoredLines) -> AnchoredLines:
    """The middle halves of segments, so that a segment does not coincide with one that continues it."""
    return lines if lines.half_length is None else replace(lines, half_length=lines.half_length / 2)


def _misfit(
    poses: Pose, checked: AnchoredLines, lines: AnchoredLines, threshold: InlierThreshold
) -> Float[Tensor, "h m"]:
    """The squared residual of each moved segment and its best partner, in thresholds."""
    count, size = poses.rotation.shape[0], max(1, 8 * BLOCK_ENTRIES // (len(lines) * max(1, len(checked))))
    blocks = [poses[start : start + size] for start in range(0, count, size)]
    return torch.cat([pair_residuals(block, checked, lines, threshold).amin(2) for block in blocks])
