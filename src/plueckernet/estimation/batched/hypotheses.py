"""Pose hypotheses of many pairs of maps: the first round of :mod:`plueckernet.estimation.hypotheses`, batched.

Draws are those of one pair at a time: the numbers of a seed are drawn once, and each pair of maps takes as many of them
as it has compatible pairs of matches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.batched.distinct import compacted, poses_of
from plueckernet.estimation.batched.lines import take_rows
from plueckernet.estimation.batched.scoring import BatchedRowScorer
from plueckernet.estimation.hypotheses import HypothesisSettings
from plueckernet.estimation.ransac import in_double
from plueckernet.geometry.alignment import two_line_agreement, two_line_poses
from plueckernet.geometry.invariants import pairwise_invariants
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose

_POWER_ITERATIONS = 4  # as in `match_support`


@dataclass(frozen=True, eq=False)
class BatchedHypotheses:
    """Poses of each pair of maps, best first, with the weighted number of matches that each explains."""

    poses: Pose  # (b, h), double precision
    scores: Float[Tensor, "b h"]
    mask: Bool[Tensor, "b h"]


def propose(scorer: BatchedRowScorer, settings: HypothesisSettings, seed: int) -> BatchedHypotheses:
    """Poses of random pairs of matches, by probability and support, and of every match with its partners."""
    support = _support(scorer)
    probability = scorer.matches.probability.to(support.dtype)
    drawn = _drawn_pairs(_draw_weights(support, probability), settings.draws, seed)
    seeded = _seed_pairs(support * probability.sqrt()[:, None], scorer, settings.partners)
    pairs, real = torch.cat([drawn[0], seeded[0]], -1), torch.cat([drawn[1], seeded[1]], -1)
    poses, valid = _solved(scorer, pairs, real)
    poses, valid, _ = compacted(poses, valid)  # those of parallel lines are not numbers
    scores = scorer.scores(poses).masked_fill_(~valid, -1.0)
    scores, order = scores.sort(-1, descending=True)
    return BatchedHypotheses(in_double(poses_of(poses, order)), scores, scores > 0)


def _support(scorer: BatchedRowScorer) -> Float[Tensor, "b k k"]:
    """For each compatible pair of matches, the number of matches compatible with both; zero for others."""
    source, target = scorer.source, scorer.target
    direction, moment, anchor = (
        torch.stack([getattr(side, name) for side in (source, target)]).double()
        for name in ("direction", "moment", "anchor")
    )
    pairs = pairwise_invariants(LineSet(direction, moment), anchor)
    threshold = scorer.maps.distance.double()[:, None, None]
    margin = (pairs.cosine[0] * pairs.cosine[1]).addcmul_(*pairs.sine).sub_(math.cos(scorer.maps.angle))
    margin = torch.minimum(margin, threshold - (pairs.distance[0] - pairs.distance[1]).abs_())
    if source.half_length is not None and target.half_length is not None:
        cut = (source.half_length - target.half_length).abs().double()
        apart = (pairs.span[0] - pairs.span[1]).abs_() - cut[:, :, None]
        margin = torch.minimum(margin, cut[:, None] + threshold - apart)
    other = torch.ones_like(margin, dtype=torch.bool)
    for rows in (scorer.matches.source, scorer.matches.target):
        other &= rows[:, :, None] != rows[:, None]
    mask = scorer.matches.mask
    upper = ((margin > 0) & other & mask[:, :, None] & mask[:, None]).triu_(1).float()
    compatible = upper + upper.mT
    return (compatible @ compatible).mul_(compatible)


def _draw_weights(support: Float[Tensor, "b k k"], probability: Float[Tensor, "b k"]) -> Float[Tensor, "b k k"]:
    """The weight of each pair in a random draw, as ``MatchGraph.draw_weights``."""
    scale = 1 / max(1, support.shape[-1]) ** 2
    weight = support.sum(-1, keepdim=True).mul_(scale)
    for _ in range(_POWER_ITERATIONS):
        weight = (support @ weight).mul_(scale)
    strength = weight / weight.norm(dim=1, keepdim=True).clamp_min(1e-30) * probability[..., None]
    return (support * strength).mul_(strength.mT)


def _drawn_pairs(
    weight: Float[Tensor, "b k k"], count: int, seed: int
) -> tuple[Int[Tensor, "b 2 s"], Bool[Tensor, "b s"]]:
    """At most ``count`` pairs of matches without replacement, by the weight of each pair."""
    matches = weight.shape[-1]
    weight = weight.triu(1).flatten(1)
    possible = weight > 0
    rank = (possible.cumsum(-1) - 1).clamp_min_(0)
    clock = _log_random(seed, matches * (matches - 1) // 2, str(weight.device))[rank].div_(weight)
    clock, places = clock.masked_fill_(~possible, -math.inf).topk(min(count, matches**2), -1)
    return torch.stack([places // matches, places % matches], 1), clock > -math.inf


@lru_cache(maxsize=8)
def _log_random(seed: int, count: int, device: str) -> Float[Tensor, " count"]:
    """Logarithms of the first numbers of a generator; fewer of them begin alike."""
    return torch.rand(max(1, count), generator=torch.Generator().manual_seed(seed)).log_().to(device)


def _seed_pairs(
    weight: Float[Tensor, "b k k"], scorer: BatchedRowScorer, partners: int
) -> tuple[Int[Tensor, "b 2 s"], Bool[Tensor, "b s"]]:
    """Every match with the partners that support it most; nearly parallel lines have no solution."""
    for side in (scorer.source, scorer.target):
        direction = side.direction.float()
        weight = weight.masked_fill_((direction @ direction.mT).abs_() > math.cos(scorer.maps.angle), 0)
    matches = weight.shape[-1]
    support, partner = weight.topk(min(partners, matches), -1)
    match = torch.arange(matches, device=weight.device)[:, None].expand_as(partner)
    pairs = torch.stack([torch.minimum(match, partner), torch.maximum(match, partner)], 1).flatten(2)
    return pairs, (support > 0).flatten(1)


def _solved(
    scorer: BatchedRowScorer, pairs: Int[Tensor, "b 2 s"], real: Bool[Tensor, "b s"]
) -> tuple[Pose, Bool[Tensor, "b h"]]:
    """Poses of pairs of matches for all choices of signs, in single precision, and which of them are possible."""
    sides = [_lines_of(side.single.lines, pairs) for side in (scorer.source, scorer.target)]
    unit = scorer.maps.distance.float()[:, None, None, None]
    scaled = [LineSet(side.direction, side.moment / unit) for side in sides]  # inlier distances
    valid = two_line_agreement(scaled[0], scaled[1], scorer.maps.angle, 1.0) & real[..., None]
    poses = two_line_poses(sides[0], sides[1])  # (b, s, 4)
    return Pose(poses.rotation.flatten(1, 2), poses.translation.flatten(1, 2)), valid.flatten(1)


def _lines_of(lines: LineSet, pairs: Int[Tensor, "b 2 s"]) -> LineSet:
    """Pairs of lines ``(b, s, 2)``."""
    rows = pairs.mT.flatten(1)
    direction, moment = (take_rows(values, rows).unflatten(1, (-1, 2)) for values in (lines.direction, lines.moment))
    return LineSet(direction, moment)
