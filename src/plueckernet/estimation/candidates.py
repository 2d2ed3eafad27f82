"""From hypotheses to candidates: distinct poses, screened and polished, that explain most of both maps."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.distinct import Distinctness, distinct_poses
from plueckernet.estimation.gauss_newton import gauss_newton_step
from plueckernet.estimation.noise import NoiseSettings
from plueckernet.estimation.ransac import Hypotheses
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import line_residuals, variances, whitened
from plueckernet.settings import check_at_least, check_fraction


@dataclass(frozen=True)
class CandidateSettings:
    """How many poses pass each step from hypotheses to candidates."""

    max_distinct: int = 150  # distinct hypotheses that are screened
    max_verified: int = 24  # screened poses that are verified on all lines
    max_candidates: int = 5  # verified poses that are refined
    min_hypothesis_score_ratio: float = 0.2  # of the best match score, for a hypothesis to be kept
    min_candidate_score_ratio: float = 0.4  # of the best verification score, from the third candidate on
    distinctness: Distinctness = field(default_factory=Distinctness)

    def __post_init__(self) -> None:
        check_at_least(self, 1, "max_distinct", "max_verified", "max_candidates")
        check_fraction(self, "min_hypothesis_score_ratio", "min_candidate_score_ratio")


def select_candidates(
    hypotheses: Hypotheses,
    probability: Float[Tensor, " k"],
    match_scorer: RowScorer,
    map_scorer: MapScorer,
    settings: CandidateSettings = CandidateSettings(),
    noise: NoiseSettings = NoiseSettings(),
) -> list[Pose]:
    """The distinct hypotheses that explain most of both maps, best first; the first two always take part."""
    if not len(hypotheses.scores):
        return []
    best = polished(hypotheses.poses[:1], match_scorer, noise)
    hypotheses = hypotheses.merged(best, match_scorer.scores(best, probability))
    chosen = distinct_poses(
        hypotheses.poses, hypotheses.scores, match_scorer.threshold,
        settings.max_distinct, settings.min_hypothesis_score_ratio, settings.distinctness,
    )  # fmt: skip
    if not len(chosen):  # no hypothesis explains any match
        return []
    poses = map_scorer.screened(hypotheses.poses[chosen], settings.max_verified)
    poses = _improved(poses, polished(poses, match_scorer, noise), probability, match_scorer)
    scores, order = map_scorer.scores(poses).topk(min(settings.max_candidates, poses.rotation.shape[0]))
    least = settings.min_candidate_score_ratio * scores[0]
    return [poses[index] for rank, index in enumerate(order) if rank < 2 or scores[rank] > least]


def polished(poses: Pose, scorer: RowScorer, noise: NoiseSettings = NoiseSettings()) -> Pose:
    """One Gauss-Newton step of each pose on the matches that are its inliers: poses of two lines are rough."""
    source, target = scorer.source, scorer.target
    model = noise.initial(scorer.threshold)
    sigma = model.sigmas(source.lines), model.sigmas(target.lines)
    inlier = scorer.fit(poses) > 0
    residuals = line_residuals(poses, source.lines, target.lines, source.anchor, target.anchor)
    whitened_residuals = whitened(residuals, *variances(residuals, *sigma))
    xi, _ = gauss_newton_step(*whitened_residuals, inlier.to(poses.rotation.dtype))
    return Pose.exp(xi) @ poses


def _improved(poses: Pose, changed: Pose, probability: Tensor, scorer: RowScorer) -> Pose:
    """Each pose or its changed version, whichever explains more of the matches."""
    better = scorer.scores(changed, probability) > scorer.scores(poses, probability)
    return Pose(
        torch.where(better[:, None, None], changed.rotation, poses.rotation),
        torch.where(better[:, None], changed.translation, poses.translation),
    )
