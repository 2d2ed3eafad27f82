"""What speaks for and against a candidate: the facts that its probability is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.hull import VOLUME_EVIDENCE
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.refinement import RefinedCandidate
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.verification import MIN_DEVIATION, Explained, MapScorer, missing_lines, shifted_poses
from plueckernet.geometry.pose import Pose, stacked

_PRIOR_MATCHES = 10.0  # that are added to those of the matcher: matches of less than a few lines say little
_PRIOR_AGREEMENT = 0.03  # the fraction of them that coincides
_WHOLE_FRACTION = 0.1  # of the longer of two segments, by which their ends may differ if they coincide as a whole
_WHOLE_DISTANCES = 2.0  # the same in inlier distances


@dataclass(frozen=True)
class Evidence:
    """Facts about one pose."""

    inliers: int  # pairs of lines that coincide
    score: float  # verification score: explained lines times the explained fraction
    explained_fraction: float  # explained lines over those expected to be, both maps
    source_explained: float  # the same of the source
    target_explained: float  # the same of the target
    smaller_explained: float  # the same of the map with fewer lines
    smaller_expected: float  # lines of that map that are expected to be explained
    stand_out: float  # score over that of the shifted pose, in standard deviations of the latter
    chance_lines: float  # lines that the shifted pose explains on average
    crowd_ratio: float  # mean score of many other hypotheses over that of this pose
    runner_up_ratio: float | None  # score of the best other pose over that of this one; None: no other pose was found
    deficit: float  # lines of the smaller map that are explained fewer than if the fraction were that of the best
    # score, in standard deviations
    lateral_support: float  # inliers across the direction that most of them are parallel to
    whole_lines: int  # inliers that coincide from end to end; none of lines without ends
    volume_lines: float  # of both maps in the volume that both fill, each by its length over the mean of its map; none
    # of lines without ends
    volume_explained: float  # of these
    volume_covered: float  # of these, too, where the other map has lines near by
    rotation_deviation: float  # rad; standard deviation of the rotation about the axis that the inliers hold least
    matcher_agreement: float  # fraction of the matcher's probability on pairs that coincide, less than that of few
    # matches; of all that were made, of the maps or of parts, those count that stand out most from the shifted pose
    matched_lines: float  # matches that coincide, each by its probability; of the first ones that were made
    chance_matches: float  # matches that coincide in the shifted pose, on average; of those that stand out most

    @classmethod
    def nothing(cls) -> Evidence:
        """The evidence when no pose was found."""
        before, after = (0.0,) * 9, (0.0,) * 7
        return Evidence(0, *before, None, 0.0, 0.0, 0, *after)


def gather_evidence(
    refined: Sequence[RefinedCandidate],
    crowd: float,
    maps: MapPair,
    matches: Sequence[tuple[RowScorer, Matches]],
    map_scorer: MapScorer,
) -> list[Evidence]:
    """The evidence for each of the refined candidates, from the matches of the maps and of parts of them."""
    if not refined:
        return []
    poses = stacked([candidate.refinement.pose for candidate in refined])
    explained = map_scorer.explained(poses)
    support = _match_support(poses, matches)
    smaller = int(maps.core_counts[0] >= maps.core_counts[1])
    expected = (explained.expected_source, explained.expected_target)[smaller].tolist()
    deviations = rotation_deviation(torch.stack([candidate.refinement.covariance for candidate in refined])).tolist()
    volume = map_scorer.shared_volume(poses)
    support |= {name: getattr(volume, name).tolist() for name in VOLUME_EVIDENCE}
    evidence, fraction = [], explained.fraction.tolist()
    supports, whole = _lateral_supports(refined, maps), [_whole_lines(candidate, maps) for candidate in refined]
    for row, (candidate, fractions) in enumerate(zip(refined, _fractions(explained), strict=True)):
        evidence.append(
            Evidence(
                inliers=len(candidate.refinement.matches),
                score=candidate.score,
                explained_fraction=fraction[row],
                source_explained=fractions[0],
                target_explained=fractions[1],
                smaller_explained=fractions[smaller],
                smaller_expected=expected[row],
                stand_out=candidate.stand_out,
                chance_lines=candidate.chance_lines,
                crowd_ratio=0.0,
                runner_up_ratio=None,
                deficit=0.0,
                lateral_support=supports[row],
                whole_lines=whole[row],
                rotation_deviation=deviations[row],
                **{name: values[row] for name, values in support.items()},
            )
        )
    return compared(evidence, crowd)


def compared(evidence: Sequence[Evidence], crowd: float) -> list[Evidence]:
    """The evidence of candidates with what compares each with the others, and with the score of a crowd of poses.

    The deficit is of the smaller map: most lines of a dense map have no partner in a sparse one, whatever the pose.
    """
    scores = [entry.score for entry in evidence]
    most = min(evidence[scores.index(max(scores))].smaller_explained, 1.0) if evidence else 0.0
    entries = []
    for row, entry in enumerate(evidence):
        own, others = max(entry.score, 1e-9), scores[:row] + scores[row + 1 :]
        runner_up = max(others) / own if others else None
        deficit = missing_lines(most, entry.smaller_explained, entry.smaller_expected)
        entries.append(replace(entry, crowd_ratio=crowd / own, runner_up_ratio=runner_up, deficit=deficit))
    return entries


def _match_support(poses: Pose, matches: Sequence[tuple[RowScorer, Matches]]) -> dict[str, list[float]]:
    """What the matches say about each pose, by the names of the evidence."""
    shifted = shifted_poses(poses)
    flat = Pose(shifted.rotation.flatten(0, 1), shifted.translation.flatten(0, 1))
    scores = [scorer.scores(flat, entry.probability).view(len(poses.translation), -1) for scorer, entry in matches]
    totals = torch.stack([entry.probability.sum() for _, entry in matches])
    support = MatchSupport.of(torch.stack(scores), totals[:, None])
    return {name: getattr(support, name).tolist() for name in MATCH_EVIDENCE}


@dataclass(frozen=True, eq=False)
class MatchSupport:
    """What matches say about poses."""

    matcher_agreement: Float[Tensor, " *h"]
    matched_lines: Float[Tensor, " *h"]
    chance_matches: Float[Tensor, " *h"]

    @classmethod
    def of(cls, scores: Float[Tensor, "m *h s"], totals: Float[Tensor, "m *#h"]) -> MatchSupport:
        """From the probability that coincides in each pose and in shifts of it, for several sets of matches."""
        own, chance = scores[..., 0], scores[..., 1:].mean(-1)
        stand_out = (own - chance) / (scores[..., 1:].std(-1) + MIN_DEVIATION)
        chosen = stand_out.argmax(0, keepdim=True)
        agreement = (own + _PRIOR_AGREEMENT * _PRIOR_MATCHES) / (totals.to(own) + _PRIOR_MATCHES)
        return MatchSupport(agreement.gather(0, chosen)[0], own[0], chance.gather(0, chosen)[0])


MATCH_EVIDENCE = tuple(field.name for field in fields(MatchSupport))


def lateral_support(directions: Float[Tensor, "k 3"]) -> float:
    """The number of lines that resist a shift in the direction of least resistance, each by its squared sine."""
    rows = directions.cpu().numpy()
    return max(0.0, len(rows) - float(np.linalg.eigvalsh(rows.T @ rows)[-1]))


def _lateral_supports(refined: Sequence[RefinedCandidate], maps: MapPair) -> list[float]:
    """Of the inliers of each candidate."""
    directions = maps.target.lines.direction
    return [lateral_support(directions[candidate.refinement.matches[:, 1]]) for candidate in refined]


def _whole_lines(candidate: RefinedCandidate, maps: MapPair) -> int:
    """Inliers of a candidate that coincide from end to end."""
    if maps.are_infinite:
        return 0
    rows, target = candidate.refinement.matches.mT, maps.target
    shift = target.anchor[rows[1]] - candidate.refinement.pose @ maps.source.anchor[rows[0]]
    along = (shift * target.lines.direction[rows[1]]).sum(-1)
    halves = maps.source.segment_half_length[rows[0]], target.segment_half_length[rows[1]]
    return int(coincide_whole(along, *halves, maps.threshold.distance).sum())


def coincide_whole(
    along: Float[Tensor, " *k"],
    source_half: Float[Tensor, " *k"],
    target_half: Float[Tensor, " *k"],
    distance: float | Float[Tensor, " *#k"],
) -> Bool[Tensor, " *k"]:
    """Whether both ends of two segments on one line coincide, from their half lengths and the shift of their midpoints.

    Houses of a row have edges on common lines, but these rarely end at the same places.
    """
    apart = along.abs() + (source_half - target_half).abs()  # of the ends that are farther apart
    near = apart <= 2 * _WHOLE_FRACTION * torch.maximum(source_half, target_half)
    return near & (apart <= _WHOLE_DISTANCES * distance)


def rotation_deviation(covariance: Float[Tensor, "*h 6 6"]) -> Float[Tensor, " *h"]:
    """The standard deviation of rotations about the axis that the inliers hold least."""
    return torch.linalg.eigvalsh(covariance[..., :3, :3])[..., -1].clamp_min(0).sqrt()


def _fractions(explained: Explained) -> list[tuple[float, float]]:
    """The explained fraction of the source and of the target; half a line more is expected, so that few count less."""
    source = explained.source / (explained.expected_source + 0.5)
    target = explained.target / (explained.expected_target + 0.5)
    return list(zip(source.tolist(), target.tolist(), strict=True))
