"""From thousands of hypotheses of each pair of maps to the few candidates that are refined, batched."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.batched.distinct import distinct_poses, poses_of
from plueckernet.estimation.batched.gauss_newton import gauss_newton_steps
from plueckernet.estimation.batched.hypotheses import BatchedHypotheses
from plueckernet.estimation.batched.lines import mean
from plueckernet.estimation.batched.scoring import BatchedRowScorer
from plueckernet.estimation.batched.verification import BatchedMapScorer
from plueckernet.estimation.candidates import CROWD, EQUAL_RATIO, POLISHED_RATIO, CandidateSettings
from plueckernet.estimation.refinement import RefinementSettings
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import line_residuals, variances, whitened


@dataclass(frozen=True, eq=False)
class BatchedCandidates:
    """Poses worth refining, best verification score first."""

    poses: Pose  # (b, c)
    mask: Bool[Tensor, "b c"]
    crowd: Float[Tensor, " b"]  # mean verification score of hypotheses that are not among the best few


def select_candidates(
    hypotheses: BatchedHypotheses,
    row_scorer: BatchedRowScorer,
    map_scorer: BatchedMapScorer,
    settings: CandidateSettings,
    refinement: RefinementSettings,
) -> BatchedCandidates:
    """The distinct hypotheses that explain most of both maps, best first."""
    maps = row_scorer.maps
    rows, mask = distinct_poses(
        hypotheses.poses, hypotheses.mask, maps.distance, maps.angle, settings.max_distinct, settings.distinctness
    )
    poses = poses_of(hypotheses.poses, rows)
    if mask.shape[1] > settings.max_verified:
        rough = map_scorer.rough_scores(poses).masked_fill_(~mask, -math.inf)
        rows = rough.topk(settings.max_verified, -1).indices
        poses, mask = poses_of(poses, rows), mask.gather(1, rows)
    scores = map_scorer.compared_scores(poses).masked_fill_(~mask, -math.inf)
    scores, order = scores.sort(dim=-1, descending=True, stable=True)
    crowd = _crowd(scores)
    order, scores = order[:, : settings.max_polished], scores[:, : settings.max_polished]
    poses, mask = poses_of(poses, order), mask.gather(1, order)
    certain = torch.arange(scores.shape[1], device=scores.device) < settings.certain_candidates
    mask = mask & (certain | (scores > POLISHED_RATIO * settings.min_candidate_score_ratio * scores[:, :1]))
    scores = scores.masked_fill(~mask, -math.inf)
    poses, scores = _improved(poses, scores, mask, polished(poses, row_scorer, refinement), map_scorer)
    count = min(settings.max_candidates, scores.shape[1])
    poses, scores = Pose(poses.rotation[:, :count], poses.translation[:, :count]), scores[:, :count]
    least = settings.min_candidate_score_ratio * scores[:, :1]
    kept = (scores > least) | certain[:count]
    return BatchedCandidates(poses, kept & (scores > -math.inf), crowd)


def _crowd(scores: Float[Tensor, "b h"]) -> Float[Tensor, " b"]:
    """The mean score of hypotheses that are neither among the best few nor as good as the best."""
    others = (scores < EQUAL_RATIO * scores[:, :1]) & (scores > -math.inf)
    rank = others.cumsum(-1) - 1
    enough = others.sum(-1, keepdim=True) > CROWD.start
    return mean(scores, torch.where(enough, others & (rank >= CROWD.start) & (rank < CROWD.stop), others)).double()


def polished(poses: Pose, scorer: BatchedRowScorer, settings: RefinementSettings) -> Pose:
    """One Gauss-Newton step of each pose on the matches that are its inliers: poses of two lines are rough."""
    source, target, maps = scorer.source, scorer.target, scorer.maps
    position, direction = maps.distance[:, None, None], torch.full_like(maps.distance, maps.angle)[:, None, None]
    sigma = tuple(
        settings.noise.initial_fraction * value.expand(-1, 1, source.mask.shape[1]) for value in (position, direction)
    )
    inlier = (scorer.fit(poses) > 0) & source.mask[:, None]
    lines = [LineSet(side.direction[:, None], side.moment[:, None]) for side in (source, target)]
    residuals = line_residuals(poses, lines[0], lines[1], source.anchor[:, None], target.anchor[:, None])
    value, jacobian = whitened(residuals, *variances(residuals, (sigma[0], sigma[1]), (sigma[0], sigma[1])))
    step = gauss_newton_steps(value, jacobian, inlier.to(value.dtype))
    return Pose.exp(step.xi) @ poses


def _improved(
    poses: Pose, scores: Float[Tensor, "b h"], mask: Bool[Tensor, "b h"], changed: Pose, scorer: BatchedMapScorer
) -> tuple[Pose, Float[Tensor, "b h"]]:
    """Each pose or its changed version, whichever explains more of both maps, best first with their scores."""
    changed_scores = scorer.compared_scores(changed).nan_to_num_(nan=-math.inf).masked_fill_(~mask, -math.inf)
    better = changed_scores > scores
    rotation = torch.where(better[..., None, None], changed.rotation, poses.rotation)
    translation = torch.where(better[..., None], changed.translation, poses.translation)
    scores, order = torch.maximum(scores, changed_scores).sort(dim=-1, descending=True, stable=True)
    return poses_of(Pose(rotation, translation), order), scores
