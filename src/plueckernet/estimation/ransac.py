"""Poses from matches of which many are wrong: the paper's two-line RANSAC (Sec. 3.4), batched and sign-aware.

Pairs of matches are drawn by probability among those that a rigid motion can satisfy at all; every drawn pair is
solved for every choice of line signs, and all poses are scored on all matches at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.errors import InputError
from plueckernet.estimation.consistency import compatibility, match_support, second_order
from plueckernet.estimation.refinement import polish
from plueckernet.estimation.scoring import AnchoredLines, RowScorer, Tolerance
from plueckernet.geometry.alignment import two_line_agreement, two_line_poses
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose

_AGREED = 0.5  # chance of drawing two matches that the best pose explains, from which the search may end


@dataclass(frozen=True)
class RansacSettings:
    """The paper's iterations; its threshold is the default of :class:`Tolerance`."""

    iterations: int = 1000  # pairs of matches drawn
    rounds: int = 4  # between which it may stop early
    confidence: float = 0.9999  # of having seen the best pose, to stop early; 1 never stops
    polished: int = 1  # best hypotheses optimised locally
    returned: int = 400  # hypotheses handed on, best first


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Poses, best first, with the weighted number of matches that each explains."""

    poses: Pose  # (h,)
    scores: Float[Tensor, " h"]
    drawn: int  # pairs of matches that were tried


@torch.inference_mode()  # nothing here is differentiated, and operations are small
def ransac_pose(
    source: AnchoredLines,
    target: AnchoredLines,
    probability: Float[Tensor, " k"],
    tolerance: Tolerance = Tolerance(),
    settings: RansacSettings = RansacSettings(),
    seed: int = 0,
) -> Hypotheses:
    """Poses ``target_T_source`` that explain the row matches, best first; none if no two matches agree."""
    if not len(source) == len(target) == probability.shape[0]:
        raise InputError("source, target and probability must have one row a match")
    pairs, chance = _draw(source, target, probability, tolerance, settings, seed)
    scorer = RowScorer(source, target, tolerance)
    found = Hypotheses(Pose.identity(0, device=str(probability.device)), torch.zeros(0, device=probability.device), 0)
    for batch in pairs.split(max(1, math.ceil(settings.iterations / settings.rounds)), -1):
        poses = _solve(source.lines, target.lines, batch, tolerance)
        found = _merge(found, poses, scorer.scores(poses, probability), batch.shape[1], settings.returned)
        if _may_stop(found, scorer, chance, settings.confidence):
            break
    if not len(found.scores) or not settings.polished:
        return found
    better = polish(found.poses[: settings.polished], source, target, scorer)
    return _merge(found, better, scorer.scores(better, probability), 0, settings.returned)


def _draw(
    source: AnchoredLines,
    target: AnchoredLines,
    probability: Tensor,
    tolerance: Tolerance,
    settings: RansacSettings,
    seed: int,
) -> tuple[Int[Tensor, "2 s"], Float[Tensor, "k k"]]:
    """Pairs of matches without replacement, by probability and support; and how likely each pair is to be drawn."""
    support = second_order(compatibility(source, target, tolerance))
    strength = match_support(support) * probability.to(support.dtype)
    chance = support.mul_(strength[:, None]).mul_(strength)
    places = _nonzero((chance > 0).triu_(1))
    # The first arrivals of exponential clocks are a weighted draw without replacement.
    generator = torch.Generator(device=chance.device).manual_seed(seed)
    clock = torch.rand(len(places), device=chance.device, generator=generator).log_().div_(chance.flatten()[places])
    drawn = places[clock.topk(min(settings.iterations, len(places))).indices]
    return torch.stack([drawn // len(source), drawn % len(source)]), chance


def _solve(source: LineSet, target: LineSet, pairs: Int[Tensor, "2 s"], tolerance: Tolerance) -> Pose:
    """Poses of all drawn pairs and of all their sign choices that can be; in single precision, to be scored."""
    one, two = _drawn(source, pairs), _drawn(target, pairs)
    valid = two_line_agreement(one, two, tolerance.angle, tolerance.position)
    if tolerance.directed:
        valid[:, 1:] = False
    places = _nonzero(valid)
    poses = two_line_poses(one, two)
    pair, signs = places // 4, places % 4
    return Pose(poses.rotation[pair, signs], poses.translation[pair, signs])


def _drawn(lines: LineSet, pairs: Int[Tensor, "2 s"]) -> LineSet:
    """Pairs of lines ``(s, 2)``, in memory component by component as the solver reads them."""
    components = lines.pluecker().mT.float().contiguous().index_select(1, pairs.flatten())  # (6, 2 s)
    moment, direction = components.unflatten(1, (2, -1)).movedim((2, 1, 0), (0, 1, 2)).split(3, -1)
    return LineSet(direction, moment)


def _nonzero(mask: Bool[Tensor, "r c"]) -> Int[Tensor, " p"]:
    """Places of the true entries, row by row; on a CPU by NumPy, which is ten times faster."""
    if mask.device.type == "cpu":
        return torch.from_numpy(mask.numpy().ravel().nonzero()[0])
    return mask.flatten().nonzero()[:, 0]


def _merge(found: Hypotheses, poses: Pose, scores: Tensor, drawn: int, most: int) -> Hypotheses:
    """The best of what was found before and of new poses."""
    scores, order = scores.topk(min(most, len(scores)))
    poses = _in_double(poses[order])
    if not len(found.scores):
        return Hypotheses(poses, scores, found.drawn + drawn)
    scores, order = torch.cat([found.scores, scores]).topk(min(most, len(found.scores) + len(scores)))
    rotation = torch.cat([found.poses.rotation, poses.rotation])
    translation = torch.cat([found.poses.translation, poses.translation])
    return Hypotheses(Pose(rotation[order], translation[order]), scores, found.drawn + drawn)


def _in_double(poses: Pose) -> Pose:
    """Poses found in single precision as rotations that are orthonormal to the last digit."""
    x, y, _ = poses.rotation.double().unbind(-1)
    x = normalize(x, dim=-1)
    y = normalize(y - (x * y).sum(-1, keepdim=True) * x, dim=-1)
    return Pose(torch.stack([x, y, torch.linalg.cross(x, y)], -1), poses.translation.double())


def _may_stop(found: Hypotheses, scorer: RowScorer, chance: Tensor, confidence: float) -> bool:
    """Whether a pose as good as the best would have been drawn by now with the wanted confidence.

    Only asked of a best pose that most of the chance agrees with: where little is in common, the first that explains
    many matches is often wrong.
    """
    if confidence >= 1 or not len(found.scores):
        return False
    inlier = (scorer.fit(found.poses[:1])[0] > 0).to(chance.dtype)
    hit = float(inlier @ chance @ inlier / chance.sum())
    return hit > _AGREED and found.drawn * math.log1p(-min(hit, 1 - 1e-9)) < math.log1p(-confidence)
