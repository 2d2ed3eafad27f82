"""Pose hypotheses from matches of which many are wrong: the paper's two-line RANSAC (Sec. 3.4), batched, sign-aware.

Pairs of matches are drawn by probability among those that a rigid motion can satisfy. Every drawn pair is solved for
every choice of line signs, and all poses are scored on all matches at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.consistency import MatchGraph
from plueckernet.estimation.masks import places_above, places_of
from plueckernet.estimation.scoring import RowScorer
from plueckernet.geometry.alignment import two_line_agreement, two_line_poses
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.kernels.drawing import largest_pairs, poses_in_double, positive_places
from plueckernet.kernels.hypotheses import solved_poses
from plueckernet.kernels.library import compiled
from plueckernet.settings import check_at_least, check_fraction


@dataclass(frozen=True)
class RansacSettings:
    """The defaults are the paper's; its threshold is the default of ``InlierThreshold``."""

    iterations: int = 1000  # pairs of matches drawn
    rounds: int = 4  # after each of which the search may stop early
    confidence: float = 0.9999  # of having drawn the best pose, to stop early; 1 never stops
    min_hit_probability: float = 0.5  # of a draw that supports the best pose, to stop early
    max_hypotheses: int = 400  # returned, best first

    def __post_init__(self) -> None:
        check_at_least(self, 1, "iterations", "rounds", "max_hypotheses")
        check_fraction(self, "confidence", "min_hit_probability")


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Poses, best first, with the weighted number of matches that each explains."""

    poses: Pose  # (h,)
    scores: Float[Tensor, " h"]
    drawn: int  # pairs of matches that were solved
    limit: int  # of the number of poses

    @classmethod
    def none(cls, limit: int, device: torch.device | str = "cpu") -> Hypotheses:
        """No poses yet."""
        return Hypotheses(Pose.identity(0, device=str(device)), torch.zeros(0, device=device), 0, limit)

    def merged(self, poses: Pose, scores: Float[Tensor, " n"], drawn: int = 0) -> Hypotheses:
        """The best of these and of new poses."""
        scores, order = scores.topk(min(self.limit, len(scores)))
        if poses.rotation.dtype == torch.float32 and compiled(poses.rotation):
            poses = Pose(*poses_in_double(order, poses.rotation, poses.translation))
        else:
            poses = in_double(poses[order])
        if not len(self.scores):
            return Hypotheses(poses, scores, self.drawn + drawn, self.limit)
        total = len(self.scores) + len(scores)
        scores, order = torch.cat([self.scores, scores]).topk(min(self.limit, total))
        rotation = torch.cat([self.poses.rotation, poses.rotation])
        translation = torch.cat([self.poses.translation, poses.translation])
        return Hypotheses(Pose(rotation[order], translation[order]), scores, self.drawn + drawn, self.limit)


def ransac_pose(
    scorer: RowScorer,
    probability: Float[Tensor, " k"],
    settings: RansacSettings = RansacSettings(),
    seed: int = 0,
) -> Hypotheses:
    """Poses ``target_T_source`` that explain the row matches of ``scorer``, best first.

    There are none if no two matches are compatible.
    """
    chance = MatchGraph.of(scorer, probability).draw_weights()
    pairs = draw_pairs(chance, settings.iterations, seed)
    hypotheses = Hypotheses.none(settings.max_hypotheses, probability.device)
    for batch in pairs.split(max(1, math.ceil(settings.iterations / settings.rounds)), -1):
        poses = solve_pairs(scorer, batch)
        hypotheses = hypotheses.merged(poses, scorer.scores(poses, probability), batch.shape[1])
        if _may_stop(hypotheses, scorer, chance, settings):
            break
    return hypotheses


def draw_pairs(weight: Float[Tensor, "k k"], count: int, seed: int) -> Int[Tensor, "2 s"]:
    """At most ``count`` pairs of matches without replacement, by the weight of each pair."""
    fast = compiled(weight)
    if fast:
        places, chance = positive_places(weight)
    else:
        places = places_above(weight.triu(1), 0.0)
        chance = weight.flatten()[places]
    # The first arrivals of exponential clocks are a weighted draw without replacement.
    random = torch.rand(len(places), generator=torch.Generator().manual_seed(seed)).to(weight.device)  # on any device
    clock = random.log_().div_(chance)
    if fast:
        return largest_pairs(clock, places, len(weight), count)
    drawn = places[clock.topk(min(count, len(places))).indices]
    return torch.stack([drawn // len(weight), drawn % len(weight)])


def solve_pairs(scorer: RowScorer, pairs: Int[Tensor, "2 s"]) -> Pose:
    """Poses of pairs of row matches for all possible sign choices, in single precision."""
    source, target, threshold = scorer.source.lines, scorer.target.lines, scorer.threshold
    if compiled(pairs, source.direction):
        limits = threshold.angle, threshold.distance
        return Pose(*solved_poses(*scorer.compiled_lines, pairs, limits, threshold.directed))
    source_pairs, target_pairs = _drawn(source, pairs), _drawn(target, pairs)
    valid = two_line_agreement(source_pairs, target_pairs, threshold.angle, threshold.distance)
    if threshold.directed:
        valid[:, 1:] = False
    places = places_of(valid)
    poses = two_line_poses(source_pairs, target_pairs)
    pair, signs = places // 4, places % 4
    return Pose(poses.rotation[pair, signs], poses.translation[pair, signs])


def _drawn(lines: LineSet, pairs: Int[Tensor, "2 s"]) -> LineSet:
    """Pairs of lines ``(s, 2)``, stored component by component as the solver reads them."""
    components = lines.pluecker().mT.float().contiguous().index_select(1, pairs.flatten())  # (6, 2 s)
    moment, direction = components.unflatten(1, (2, -1)).movedim((2, 1, 0), (0, 1, 2)).split(3, -1)
    return LineSet(direction, moment)


def in_double(poses: Pose) -> Pose:
    """Poses of single precision with rotations made orthonormal in double precision."""
    x, y, _ = poses.rotation.double().unbind(-1)
    x = normalize(x, dim=-1)
    y = normalize(y - (x * y).sum(-1, keepdim=True) * x, dim=-1)
    return Pose(torch.stack([x, y, torch.linalg.cross(x, y)], -1), poses.translation.double())


def _may_stop(hypotheses: Hypotheses, scorer: RowScorer, chance: Tensor, settings: RansacSettings) -> bool:
    """Whether a pose as good as the best would have been drawn by now with the wanted confidence.

    This applies only to a best pose that most draws support: with little overlap, the first pose that explains many
    matches is often wrong.
    """
    if settings.confidence >= 1 or not len(hypotheses.scores):
        return False
    inlier = (scorer.fit(hypotheses.poses[:1])[0] > 0).to(chance.dtype)
    hit = float(inlier @ chance @ inlier / chance.sum())
    if hit <= settings.min_hit_probability:
        return False
    return hypotheses.drawn * math.log1p(-min(hit, 1 - 1e-9)) < math.log1p(-settings.confidence)
