"""Hypotheses for maps whose lines are nearly all parallel, from pairs of parallel matches."""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor

from plueckernet.estimation.consistency import MatchGraph
from plueckernet.estimation.scoring import AnchoredLines, RowScorer
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.parallel_alignment import parallel_line_agreement, parallel_line_poses
from plueckernet.geometry.pose import Pose
from plueckernet.kernels.drawing import largest_parallel_length
from plueckernet.kernels.library import compiled

_PARALLEL_ANGLE = 0.175  # rad; of lines in the dominant direction
_MAX_OTHER_FRACTION = 0.25  # of the total length, in other directions than the dominant one


def is_nearly_parallel(lines: AnchoredLines) -> bool:
    """Whether so few lines have other directions than the dominant one that pairs of skew lines are rare."""
    return other_direction_fraction(lines) < _MAX_OTHER_FRACTION


def other_direction_fraction(lines: AnchoredLines) -> float:
    """Fraction of the total length in other directions than the dominant one, that of the line with most parallels."""
    direction = lines.lines.direction
    if compiled(direction) and len(lines):
        total = len(lines) if lines.half_length is None else float(lines.half_length.sum())
        least = math.cos(_PARALLEL_ANGLE)
        return 1 - largest_parallel_length(direction, lines.half_length, least) / total
    length = torch.ones_like(direction[:, 0]) if lines.half_length is None else lines.half_length
    parallel = (direction @ direction.mT).abs_().gt_(math.cos(_PARALLEL_ANGLE))
    return 1 - float((parallel @ length).max() / length.sum())


def parallel_poses(scorer: RowScorer, graph: MatchGraph, partners: int = 8) -> Pose:
    """Poses of every match with several parallel matches, for all signs and positions along the lines.

    Partners are chosen by second-order support times the root of their probability, and by their distance up to one
    radius of the map: the rotation is the more accurate the further two lines are apart.
    """
    pairs = _partners(scorer, graph, partners)
    source, target = _pair_lines(scorer.source.lines, pairs), _pair_lines(scorer.target.lines, pairs)
    valid = parallel_line_agreement(source, target, scorer.threshold.angle, scorer.threshold.distance)
    poses = parallel_line_poses(source, target)
    return Pose(poses.rotation[valid], poses.translation[valid])


def _partners(scorer: RowScorer, graph: MatchGraph, partners: int) -> Int[Tensor, "2 s"]:
    weight = graph.support * graph.probability.sqrt()
    for side in (scorer.source, scorer.target):
        direction, anchor = side.lines.direction.float(), side.anchor.float()
        weight.mul_((direction @ direction.mT).abs_().ge_(math.cos(scorer.threshold.angle)))
    along = direction @ anchor.mT - (direction * anchor).sum(-1, keepdim=True)
    weight.mul_((torch.cdist(anchor, anchor).square_() - along.square_()).clamp_(0, 1).sqrt_())
    best, partner = weight.topk(min(partners, len(weight)), -1)
    seed = torch.arange(len(weight), device=weight.device)[:, None].expand_as(partner)
    low, high = torch.minimum(seed, partner)[best > 0], torch.maximum(seed, partner)[best > 0]
    places = (low * len(weight) + high).unique()
    return torch.stack([places // len(weight), places % len(weight)])


def _pair_lines(lines: LineSet, pairs: Int[Tensor, "2 s"]) -> LineSet:
    """Pairs of lines ``(s, 2)`` in single precision."""
    rows, endpoints = pairs.mT, lines.endpoints
    return LineSet(
        lines.direction[rows].float(),
        lines.moment[rows].float(),
        None if endpoints is None else endpoints[rows].float(),
    )
