r"""Pose hypotheses of maps whose vertical is known: a turn about it and a translation, four numbers instead of six.

A match gives the turn by itself, up to half a turn, unless its lines are vertical. A turn keeps the height of every
point. So two matches can be true together only if they need the same turn and the same change of height, which cut ends
can have displaced by no more than their length. What remains is as in :mod:`plueckernet.estimation.hypotheses`, with
fewer draws; and where lines are segments, every single match gives poses by its middle and its ends. The round without
matches is the second and last: it has a few turns to try instead of dozens of rotations, and finds what matches of
parts of the maps would give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.estimation.consistency import MatchGraph, compatibility, second_order
from plueckernet.estimation.hypotheses import MAX_HYPOTHESES, HypothesisSettings, match_free_hypotheses, seed_pairs
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.parallel_hypotheses import is_nearly_parallel, parallel_poses
from plueckernet.estimation.ransac import Hypotheses, draw_pairs, solve_pairs
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer
from plueckernet.geometry.pose import Pose, joined
from plueckernet.geometry.upright import heading, nearest_turn, tilt_cosine, turn_about

_MIN_SLANT = 0.35  # sine of the angle to the vertical, from which on a line has a heading
_HEADING_TOLERANCE = 1.5  # inlier angles between the turns of two matches
_FEWER = 4  # times fewer draws than for six unknowns


def consistent_rows(
    source: Float[Tensor, "m 3"], target: Float[Tensor, "n 3"], up: Float[Tensor, "3"], angle: float
) -> Bool[Tensor, "m n"]:
    """Which directions have about the same angle to the vertical, signs ignored."""
    up = normalize(up, dim=0)
    first, second = ((side @ up).abs().clamp(max=1).acos() for side in (source, target))
    return (first[:, None] - second).abs() < angle


def propose_upright_poses(
    maps: MapPair,
    scorer: RowScorer,
    probability: Float[Tensor, " k"],
    up: Float[Tensor, "3"],
    settings: HypothesisSettings = HypothesisSettings(),
    seed: int = 0,
) -> Iterator[Hypotheses]:
    """Round after round, poses that turn about ``up`` only, in the way of ``propose_poses``."""
    fewer = replace(settings, draws=max(1, settings.draws // _FEWER), partners=max(1, settings.partners // 2))
    poses = _from_matches(maps, scorer, probability, up, fewer, seed)
    none = Hypotheses.none(MAX_HYPOTHESES, probability.device)
    yield none.merged(poses, scorer.scores(poses, probability), poses.rotation.shape[0])
    yield match_free_hypotheses(maps, up)


def _from_matches(
    maps: MapPair, scorer: RowScorer, probability: Tensor, up: Tensor, settings: HypothesisSettings, seed: int
) -> Pose:
    """Poses of pairs of matches and of single ones, in single precision."""
    compatible = compatibility(scorer.source, scorer.target, scorer.threshold)
    compatible *= same_turn_and_height(scorer.source, scorer.target, scorer.threshold, up)
    graph = MatchGraph(second_order(compatible), probability.to(compatible.dtype))
    pairs = torch.cat(
        [draw_pairs(graph.draw_weights(), settings.draws, seed), seed_pairs(graph, scorer, settings.partners)], -1
    )
    poses = made_upright(solve_pairs(scorer, pairs), scorer, up)
    if is_nearly_parallel(maps.source) or is_nearly_parallel(maps.target):
        poses = joined(poses, made_upright(parallel_poses(scorer, graph), scorer, up))
    return joined(poses, _from_single_matches(scorer, up))


def same_turn_and_height(
    source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold, up: Float[Tensor, "3"]
) -> Bool[Tensor, "k k"]:
    """Which two of the row matches need the same turn, up to half a turn, and the same change of height."""
    turn = 2 * (heading(target.lines.direction, up) - heading(source.lines.direction, up))
    vector = torch.stack([turn.cos(), turn.sin()], -1).float()
    limit = min(2 * _HEADING_TOLERANCE * threshold.angle, math.pi)
    vertical = ~_has_heading(source, up) | ~_has_heading(target, up)
    same = (vector @ vector.mT > math.cos(limit)) | vertical[:, None] | vertical
    rise = ((target.anchor - source.anchor) @ up).float()
    slope = torch.maximum(source.lines.direction @ up, target.lines.direction @ up).abs().float()
    if source.half_length is None or target.half_length is None:
        displaced = torch.where(slope < threshold.angle, 0.0, torch.inf)
    else:
        displaced = slope * (source.half_length - target.half_length).abs().float()
    return same & ((rise[:, None] - rise).abs() < threshold.distance + displaced[:, None] + displaced)


def made_upright(poses: Pose, scorer: RowScorer, up: Float[Tensor, "3"]) -> Pose:
    """The poses that tilt the vertical by no more than the inlier angle, without that tilt.

    The centre of the source lines that a pose explains must stay where it is: a tilt moves lines far from the origin.
    """
    vertical = up.to(poses.rotation)
    poses = poses[tilt_cosine(poses.rotation, vertical) > math.cos(scorer.threshold.angle)]
    if not poses.rotation.shape[0]:
        return poses
    rotation = nearest_turn(poses.rotation, vertical)
    fit = scorer.fit(poses).clamp_min_(0)
    weight = (fit / fit.sum(-1, keepdim=True).clamp_min(1e-9)).to(poses.rotation)
    centre = weight @ scorer.source.anchor.to(poses.rotation)  # (h, 3)
    moved = ((poses.rotation - rotation) @ centre[..., None])[..., 0]
    return Pose(rotation, poses.translation + moved)


def _from_single_matches(scorer: RowScorer, up: Float[Tensor, "3"]) -> Pose:
    """Every match with a heading, turned either way; segments aligned at their middle and at each end."""
    rows = (_has_heading(scorer.source, up) & _has_heading(scorer.target, up)).nonzero()[:, 0]
    source, target = scorer.source[rows], scorer.target[rows]
    if source.half_length is None or target.half_length is None or scorer.threshold.directed:
        return Pose.identity(0, dtype=torch.float32, device=str(up.device))
    turn = heading(target.lines.direction, up) - heading(source.lines.direction, up)
    rotation = turn_about(up, torch.stack([turn, turn + math.pi]))  # (2, k, 3, 3)
    middle = (rotation @ source.anchor[:, :, None])[..., 0]
    longer = target.half_length - source.half_length
    along = longer[:, None] * target.lines.direction
    translation = torch.stack([target.anchor - middle, target.anchor + along - middle, target.anchor - along - middle])
    rotation = rotation.expand(3, -1, -1, -1, -1)
    return Pose(rotation.flatten(0, 2).float(), translation.flatten(0, 2).float())


def _has_heading(lines: AnchoredLines, up: Float[Tensor, "3"]) -> Bool[Tensor, " n"]:
    return (lines.lines.direction @ up).abs() < math.sqrt(1 - _MIN_SLANT**2)
