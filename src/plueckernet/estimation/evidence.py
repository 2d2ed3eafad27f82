"""What speaks for and against a candidate: the facts that its probability is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.refinement import RefinedCandidate
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.verification import Explained, MapScorer
from plueckernet.geometry.pose import Pose, stacked


@dataclass(frozen=True)
class Evidence:
    """Facts about one pose."""

    inliers: int  # pairs of lines that coincide
    score: float  # verification score: explained lines times the explained fraction
    explained_fraction: float  # explained lines over those expected to be, both maps
    source_explained: float  # the same of the source
    target_explained: float  # the same of the target
    smaller_explained: float  # the same of the map with fewer lines
    stand_out: float  # score over that of the shifted pose, in standard deviations of the latter
    chance_lines: float  # lines that the shifted pose explains on average
    crowd_ratio: float  # mean score of many other hypotheses over that of this pose
    runner_up_ratio: float | None  # score of the best other pose over that of this one; None: no other pose was found
    deficit: float  # lines fewer than the fraction explained by the best score would be, in standard deviations
    lateral_support: float  # inliers across the direction that most of them are parallel to
    matcher_agreement: float  # fraction of the matcher's probability on pairs that coincide, of the maps or of parts

    @classmethod
    def nothing(cls) -> Evidence:
        """The evidence when no pose was found."""
        return Evidence(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None, 0.0, 0.0, 0.0)


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
    agreement = torch.stack([_agreement(poses, *entry) for entry in matches]).amax(0)
    scores = [candidate.score for candidate in refined]
    deficit = explained.deficit(float(explained.fraction[scores.index(max(scores))]))
    evidence = []
    agreements, deficits, fraction = agreement.tolist(), deficit.tolist(), explained.fraction.tolist()
    for row, (candidate, fractions, support) in enumerate(
        zip(refined, _fractions(explained), _lateral_supports(refined, maps), strict=True)
    ):
        others = scores[:row] + scores[row + 1 :]
        evidence.append(
            Evidence(
                inliers=len(candidate.refinement.matches),
                score=candidate.score,
                explained_fraction=fraction[row],
                source_explained=fractions[0],
                target_explained=fractions[1],
                smaller_explained=fractions[0] if maps.core_counts[0] < maps.core_counts[1] else fractions[1],
                stand_out=candidate.stand_out,
                chance_lines=candidate.chance_lines,
                crowd_ratio=crowd / max(candidate.score, 1e-9),
                runner_up_ratio=max(others) / max(candidate.score, 1e-9) if others else None,
                deficit=deficits[row],
                lateral_support=support,
                matcher_agreement=agreements[row],
            )
        )
    return evidence


def _agreement(poses: Pose, scorer: RowScorer, matches: Matches) -> Float[Tensor, " h"]:
    """The fraction of the probability of the matches that each pose explains."""
    return scorer.scores(poses, matches.probability) / matches.probability.sum().clamp_min(1e-12)


def lateral_support(directions: Float[Tensor, "k 3"]) -> float:
    """The number of lines that resist a shift in the direction of least resistance, each by its squared sine."""
    rows = directions.cpu().numpy()
    return max(0.0, len(rows) - float(np.linalg.eigvalsh(rows.T @ rows)[-1]))


def _lateral_supports(refined: Sequence[RefinedCandidate], maps: MapPair) -> list[float]:
    """Of the inliers of each candidate."""
    directions = maps.target.lines.direction
    return [lateral_support(directions[candidate.refinement.matches[:, 1]]) for candidate in refined]


def _fractions(explained: Explained) -> list[tuple[float, float]]:
    """The explained fraction of the source and of the target; half a line more is expected, so that few count less."""
    source = explained.source / (explained.expected_source + 0.5)
    target = explained.target / (explained.expected_target + 0.5)
    return list(zip(source.tolist(), target.tolist(), strict=True))
