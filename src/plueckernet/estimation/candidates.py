"""From thousands of hypotheses to the few candidates that are refined."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.distinct import Distinctness, distinct_poses
from plueckernet.estimation.gauss_newton import gauss_newton_step
from plueckernet.estimation.paired_lines import LineColumns
from plueckernet.estimation.ransac import Hypotheses
from plueckernet.estimation.refinement import RefinementSettings
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel, line_residuals, variances, whitened
from plueckernet.kernels.library import compiled
from plueckernet.kernels.refining import Model, polished_poses
from plueckernet.settings import check_at_least, check_fraction

CROWD = slice(5, 30)  # ranks of the verified hypotheses whose mean score says what wrong poses reach
EQUAL_RATIO = 0.9  # of the best score; poses above it repeat the best one, in a symmetric place, and are no crowd

_NORMAL = 1e30  # degrees of freedom with which Student's t is a normal distribution
POLISHED_RATIO = 0.4  # of the least score of a candidate, that a pose must reach before it is polished


@dataclass(frozen=True)
class CandidateSettings:
    """How many poses pass each step from hypotheses to candidates."""

    max_distinct: int = 1500  # distinct hypotheses that are screened on some lines of both maps
    max_verified: int = 48  # screened poses that are verified on all lines
    max_polished: int = 12  # verified poses that are improved on their matches and verified again
    max_candidates: int = 8  # polished poses that are refined
    min_candidate_score_ratio: float = 0.4  # of the best verification score, from some candidate on
    certain_candidates: int = 2  # that are refined whatever their score
    by_shared_volume: bool = False  # whether half of those polished and refined are chosen by what they explain of the
    # volume that both maps fill: where this is small, a right pose explains fewer lines than many wrong ones
    distinctness: Distinctness = field(default_factory=Distinctness)

    def __post_init__(self) -> None:
        check_at_least(self, 1, "max_distinct", "max_verified", "max_polished", "max_candidates", "certain_candidates")
        check_fraction(self, "min_candidate_score_ratio")


@dataclass(frozen=True, eq=False)
class Candidates:
    """Poses worth refining, best verification score first."""

    poses: tuple[Pose, ...]
    crowd: float = 0.0  # mean verification score of hypotheses that are not among the best few


def select_candidates(
    hypotheses: Hypotheses,
    match_scorer: RowScorer,
    map_scorer: MapScorer,
    settings: CandidateSettings = CandidateSettings(),
    refinement: RefinementSettings = RefinementSettings(),
) -> Candidates:
    """The distinct hypotheses that explain most of both maps, best first."""
    if not len(hypotheses.scores):
        return Candidates(())
    rows = distinct_poses(
        hypotheses.poses, hypotheses.scores, match_scorer.threshold, settings.max_distinct, settings.distinctness
    )
    if not len(rows):  # no hypothesis explains any match
        return Candidates(())
    poses = hypotheses.poses[rows]
    rows, scores = map_scorer.best(poses, settings.max_verified)
    poses, crowd = poses[rows], _crowd(scores)
    # A step does not improve a pose by much more than twofold.
    ratio = settings.min_candidate_score_ratio
    rows = _leading(poses, scores, map_scorer, (settings.max_polished, POLISHED_RATIO * ratio), settings)
    poses, scores = poses[rows], scores[rows]
    poses, scores = _improved(poses, scores, polished(poses, match_scorer, refinement), map_scorer)
    rows = _leading(poses, scores, map_scorer, (settings.max_candidates, ratio), settings)
    return Candidates(tuple(poses[row] for row in rows.tolist()), crowd)


def _leading(
    poses: Pose,
    scores: Float[Tensor, " h"],
    map_scorer: MapScorer,
    limits: tuple[int, float],
    settings: CandidateSettings,
) -> Int[Tensor, " k"]:
    """Rows of at most so many poses that go on; those chosen by their score reach some fraction of the first."""
    count, ratio = limits
    rows = torch.arange(len(scores), device=scores.device)
    leading = (rows < settings.certain_candidates) | (scores > ratio * scores[0])
    fractions = map_scorer.shared_fractions(poses) if settings.by_shared_volume else None
    if fractions is None:
        return rows[:count][leading[:count]]
    by_fraction = fractions.argsort(descending=True, stable=True)[: count // 2]
    leading[count - count // 2 :] = False
    leading[by_fraction] = True
    return rows[leading]


def _crowd(scores: Float[Tensor, " h"]) -> float:
    """The mean score of hypotheses that are neither among the best few nor as good as the best."""
    others = scores[scores < EQUAL_RATIO * scores[0]]
    others = others[CROWD] if len(others) > CROWD.start else others
    return float(others.mean()) if len(others) else 0.0


def polished(poses: Pose, scorer: RowScorer, settings: RefinementSettings = RefinementSettings()) -> Pose:
    """One Gauss-Newton step of each pose on the matches that are its inliers: poses of two lines are rough."""
    source, target = scorer.source, scorer.target
    model = settings.noise.initial(scorer.threshold)
    if compiled(poses.rotation, source.anchor) and settings.up is None:
        return _compiled_polished(poses, scorer, model)
    sigma = model.sigmas(source.lines), model.sigmas(target.lines)
    inlier = scorer.fit(poses) > 0
    residuals = line_residuals(poses, source.lines, target.lines, source.anchor, target.anchor)
    value, jacobian = whitened(residuals, *variances(residuals, *sigma))
    xi, _ = gauss_newton_step(value, settings.allowed(jacobian), inlier.to(poses.rotation.dtype))
    return Pose.exp(xi) @ poses


def _compiled_polished(poses: Pose, scorer: RowScorer, noise: NoiseModel) -> Pose:
    """The same by a kernel."""
    first, second = (LineColumns.of(replace(side, noise_factor=None)).values for side in (scorer.source, scorer.target))
    model = Model(
        noise=(noise.position, noise.direction, noise.endpoint),
        degrees_of_freedom=_NORMAL,
        distance=scorer.threshold.distance,
        angle=scorer.threshold.angle,
    )
    numbers = poses.rotation.numpy(), poses.translation.numpy()
    stepped = polished_poses(numbers, first, second, model, scorer.threshold.directed)
    return Pose(*(torch.from_numpy(value).to(poses.rotation) for value in stepped))


def _improved(
    poses: Pose, scores: Float[Tensor, " h"], changed: Pose, scorer: MapScorer
) -> tuple[Pose, Float[Tensor, " h"]]:
    """Each pose or its changed version, whichever explains more of both maps, best first with their scores."""
    changed_scores = scorer.compared_scores(changed)
    better = changed_scores > scores
    poses = Pose(
        torch.where(better[:, None, None], changed.rotation, poses.rotation),
        torch.where(better[:, None], changed.translation, poses.translation),
    )
    scores, order = torch.maximum(scores, changed_scores).sort(descending=True, stable=True)
    return poses[order], scores
