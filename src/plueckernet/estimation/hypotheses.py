"""Pose hypotheses, round after round, until one of them settles the matter.

1. Random pairs of matches, by probability and support, and every match with the few partners that support it most.
   Nearly all random pairs come from the largest group of matches that agree. Where a place repeats itself, that may be
   a wrong one; the partners give each consistent group its hypotheses.
2. The same for the matches of every part of a map with every part of the other, for maps that have little in common.
3. No matches at all: the dominant directions of both maps give rotations, and their lines vote for translations. Maps
   of one direction are turned about it.

Two parallel lines give no pose by the two-line solver. Maps of poles or posts have one of their own, which takes the
position along the lines from the ends of segments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.consistency import MatchGraph
from plueckernet.estimation.direction_search import match_free_poses
from plueckernet.estimation.distinct import distinct_poses
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.parallel_hypotheses import is_nearly_parallel, parallel_poses
from plueckernet.estimation.ransac import Hypotheses, draw_pairs, solve_pairs
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.turn_search import turned_poses
from plueckernet.geometry.pose import Pose, joined
from plueckernet.kernels.drawing import seed_pairs as compiled_pairs
from plueckernet.kernels.library import compiled
from plueckernet.settings import check_at_least

MAX_HYPOTHESES = 20_000  # more than are ever solved
_POSES_OF_PARTS = 100  # distinct ones of two parts, that explain most of their matches


@dataclass(frozen=True)
class HypothesisSettings:
    """How many pairs of matches are solved."""

    draws: int = 1000  # random pairs
    partners: int = 6  # of every match

    def __post_init__(self) -> None:
        check_at_least(self, 1, "draws", "partners")


def propose_poses(
    maps: MapPair,
    scorer: RowScorer,
    probability: Float[Tensor, " k"],
    settings: HypothesisSettings = HypothesisSettings(),
    seed: int = 0,
    parts: Iterable[tuple[RowScorer, Matches]] = (),
) -> Iterator[Hypotheses]:
    """Round after round, poses ``target_T_source``: from matches, those that explain most of them first.

    ``parts`` are the matches of parts of the maps. They are asked for when the second round begins.
    """
    graph = MatchGraph.of(scorer, probability)
    drawn = solve_pairs(scorer, draw_pairs(graph.draw_weights(), settings.draws, seed))
    parallel = is_nearly_parallel(maps.source) or is_nearly_parallel(maps.target)
    poses = joined(drawn, _seeded(scorer, graph, settings, parallel))
    none = Hypotheses.none(MAX_HYPOTHESES, probability.device)
    yield none.merged(poses, scorer.scores(poses, probability), poses.rotation.shape[0])
    yield from _from_parts(maps, parts, settings, parallel)
    yield match_free_hypotheses(maps)


def match_free_hypotheses(maps: MapPair, up: Float[Tensor, "3"] | None = None) -> Hypotheses:
    """Poses without matches; where the vertical ``up`` is known, they turn about it only."""
    sides = maps.source, maps.target, maps.threshold
    poses = joined(turned_poses(*sides, up=up), match_free_poses(*sides, up=up))
    count = poses.rotation.shape[0]
    rank = torch.arange(count, 0, -1, device=poses.rotation.device).float()
    return Hypotheses(poses, rank, count, MAX_HYPOTHESES)


def _seeded(scorer: RowScorer, graph: MatchGraph, settings: HypothesisSettings, parallel: bool) -> Pose:
    """Poses of every match with its partners; ``parallel`` tells whether the lines of a map nearly are."""
    poses = solve_pairs(scorer, seed_pairs(graph, scorer, settings.partners))
    return joined(poses, parallel_poses(scorer, graph)) if parallel else poses


def _from_parts(
    maps: MapPair, parts: Iterable[tuple[RowScorer, Matches]], settings: HypothesisSettings, parallel: bool
) -> Iterator[Hypotheses]:
    """The best poses of every pair of parts, together; nothing without parts."""
    hypotheses = Hypotheses.none(MAX_HYPOTHESES, maps.source.anchor.device)
    for scorer, matches in parts:
        poses = _seeded(scorer, MatchGraph.of(scorer, matches.probability), settings, parallel)
        scores = scorer.scores(poses, matches.probability)
        rows = distinct_poses(poses, scores, maps.threshold, _POSES_OF_PARTS)
        hypotheses = hypotheses.merged(poses[rows], scores[rows], poses.rotation.shape[0])
    if hypotheses.drawn:
        yield hypotheses


def seed_pairs(graph: MatchGraph, scorer: RowScorer, partners: int) -> Int[Tensor, "2 s"]:
    """Every match with the partners that support it most; nearly parallel lines have no solution and are left out."""
    count, limit = len(graph.probability), math.cos(scorer.threshold.angle)
    if compiled(graph.support):
        directions = scorer.source.lines.direction, scorer.target.lines.direction
        return compiled_pairs(graph.support, graph.probability.sqrt(), directions, limit, partners)
    weight = graph.support * graph.probability.sqrt()
    for side in (scorer.source, scorer.target):
        direction = side.lines.direction.float()
        weight.mul_((direction @ direction.mT).abs_().le_(limit))
    support, partner = weight.topk(min(partners, count), -1)
    match = torch.arange(count, device=weight.device)[:, None].expand_as(partner)
    rows = torch.stack([torch.minimum(match, partner), torch.maximum(match, partner)])[:, support > 0]
    places = (rows[0] * count + rows[1]).unique()
    return torch.stack([places // count, places % count])
