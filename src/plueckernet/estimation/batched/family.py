"""Whether a pose has no exchangeable ones: the certificate that the family of the best pose has one member.

:mod:`plueckernet.estimation.pose_family` looks for all members. For most maps there are none, and that is told here for
many pairs at once: neither another candidate nor any symmetry of a map explains enough. What is checked includes all
that ``pose_family`` would check, so where nothing passes it would find nothing. Other pairs are registered by
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.close_pairs import PosedMaps
from plueckernet.estimation.batched.distinct import close_poses, poses_of
from plueckernet.estimation.batched.gauss_newton import gauss_newton_steps
from plueckernet.estimation.batched.lines import PaddedLines, max_entries
from plueckernet.estimation.batched.look import LookedAt
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.estimation.batched.residuals import Thresholds, pair_squares
from plueckernet.estimation.batched.symmetry import MapSymmetries, surviving_motions
from plueckernet.estimation.batched.verification import BatchedMapScorer
from plueckernet.estimation.noise import NoiseSettings
from plueckernet.estimation.pose_family import (
    MIN_SYMMETRY_FRACTION,
    PROMOTED_MEMBER,
    SYMMETRY_FRACTION_RATIO,
    FamilySettings,
)
from plueckernet.estimation.symmetry import PROMOTED
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import line_residuals, variances, whitened


@dataclass(frozen=True, eq=False)
class _OtherCandidates:
    """Other candidates of each pair of maps, compared with the best one."""

    poses: Pose  # (b, c)
    mask: Bool[Tensor, "b c"]


def has_no_family(
    looked_at: LookedAt,
    best: Int[Tensor, " b"],
    maps: BatchedMaps,
    scorer: BatchedMapScorer,
    settings: FamilySettings,
) -> Bool[Tensor, " b"]:
    """Whether no other pose explains the maps as well as the best candidate does; False where it may."""
    first = poses_of(looked_at.poses, best[:, None])
    columns = torch.arange(looked_at.mask.shape[1], device=best.device)
    others = _OtherCandidates(looked_at.poses, looked_at.mask & (columns != best[:, None]))
    lonely = ~_has_members(first, others, maps, scorer, settings)
    fraction = looked_at.explained_fraction.gather(1, best[:, None]).to(maps.unit.dtype)
    least = (
        (SYMMETRY_FRACTION_RATIO * fraction)
        .clamp_min(MIN_SYMMETRY_FRACTION)
        .clamp_max(settings.symmetry.min_explained_fraction)
    )
    back = first.inverse()
    for side, motions in enumerate((back @ others.poses, others.poses @ back)):
        candidates = surviving_motions(
            maps.sides[side].single, maps.distance, maps.angle, settings.symmetry, motions, others.mask
        )
        symmetric = _has_symmetries(candidates, maps.sides[side], maps, scorer.against_itself(side), least, settings)
        lonely &= ~(symmetric | candidates.unknown)
    return lonely


def _has_members(
    first: Pose, others: _OtherCandidates, maps: BatchedMaps, scorer: BatchedMapScorer, settings: FamilySettings
) -> Bool[Tensor, " b"]:
    """Whether another candidate is as good as the first, as it is or after a step."""
    explained = scorer.explained(first)
    score, fraction = scorer.score(explained).clamp_min(1e-6), explained.fraction

    def is_member(poses: Pose, ease: float) -> Bool[Tensor, "b c"]:
        explanation = scorer.explained(poses)
        enough = scorer.score(explanation) / score / ease >= settings.min_score_ratio
        return enough & (explanation.deficit(fraction) * ease <= settings.max_candidate_deficit)

    distinct = ~close_poses(others.poses, first, maps.distance, maps.angle)[..., 0]
    close = is_member(others.poses, PROMOTED_MEMBER) & others.mask & distinct
    if not bool(close.any()):
        return close.any(1)
    member = is_member(others.poses, 1.0) | is_member(_polished(others.poses, close, maps.sides, maps), 1.0)
    return (member & close).any(1)


def _has_symmetries(
    candidates: MapSymmetries,
    lines: PaddedLines,
    maps: BatchedMaps,
    scorer: BatchedMapScorer,
    least: Float[Tensor, "b 1"],
    settings: FamilySettings,
) -> Bool[Tensor, " b"]:
    """Whether a motion explains the map by itself, as it is or after a step."""
    if not bool(candidates.mask.any()):
        return torch.zeros_like(candidates.unknown)
    count = lines.count[:, None]

    def is_symmetry(poses: Pose, ease: float) -> Bool[Tensor, "b h"]:
        explained = scorer.explained(poses)
        enough = explained.lines / count >= ease * settings.symmetry.min_overlap
        return enough & (explained.lines >= ease * least * explained.expected)

    close = is_symmetry(candidates.poses, PROMOTED) & candidates.mask
    if not bool(close.any()):
        return close.any(1)
    poses = _polished(candidates.poses, close, (lines, lines), maps)
    identity = Pose.identity(len(maps), 1, device=str(maps.unit.device))
    still = close_poses(poses, identity, maps.distance, maps.angle)[..., 0]
    return (is_symmetry(poses, 1.0) & close & ~still).any(1)


def _polished(
    poses: Pose, where: Bool[Tensor, "b h"], sides: tuple[PaddedLines, PaddedLines], maps: BatchedMaps
) -> Pose:
    """One Gauss-Newton step of some poses on the pairs of lines that are closest to each other under each."""
    pair, column = where.nonzero().unbind(-1)
    chosen = Pose(poses.rotation[pair, column], poses.translation[pair, column])
    lines = sides[0].mask.shape[1] * sides[1].mask.shape[1]
    size, blocks = max(1, max_entries(pair.device) // (3 * lines)), []
    for start in range(0, len(pair), size):
        block, rows = chosen[start : start + size], pair[start : start + size]
        posed = PosedMaps(sides[0].maps(rows), sides[1].maps(rows))
        blocks.append(_stepped(block, posed, Thresholds.of(maps.distance[rows], maps.angle)))
    rotation, translation = poses.rotation.clone(), poses.translation.clone()
    rotation[pair, column] = torch.cat([block.rotation for block in blocks])
    translation[pair, column] = torch.cat([block.translation for block in blocks])
    return Pose(rotation, translation)


def _stepped(poses: Pose, maps: PosedMaps, threshold: Thresholds) -> Pose:
    source, target = maps.source, maps.target
    square = pair_squares(poses.to(torch.float32), source.single, target.single, threshold)
    square.masked_fill_(~(source.mask[:, :, None] & target.mask[:, None]), torch.inf)
    best, column = square.min(2)
    mutual = square.argmin(1).gather(1, column) == torch.arange(source.mask.shape[1], device=column.device)
    weight = ((best < 1) & mutual).to(poses.rotation.dtype)
    fixed = target.rows(column, source.mask)
    residuals = line_residuals(poses, source.lines, fixed.lines, source.anchor, fixed.anchor)
    fraction, like = NoiseSettings().initial_fraction, torch.ones_like(weight)
    sigma = like * fraction * threshold.distance[:, None], like * fraction * threshold.angle[:, None]
    step = gauss_newton_steps(*whitened(residuals, *variances(residuals, sigma, sigma)), weight)
    enough = (weight.sum(-1, keepdim=True) >= 3) & step.determined[:, None]
    return Pose.exp(torch.where(enough, step.xi, 0.0)) @ poses
