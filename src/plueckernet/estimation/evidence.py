"""What speaks for and against the best pose: the facts that the confidence is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import Matches
from plueckernet.estimation.refinement import RefinedCandidate
from plueckernet.estimation.scoring import RowScorer
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.pose import Pose


@dataclass(frozen=True)
class Evidence:
    """Facts about the best pose."""

    inliers: int  # pairs of lines that coincide
    normalized_score: float  # verification score divided by the number of lines of the smaller map
    runner_up_ratio: float | None  # score of the best other pose over that of this one; None: no other pose was found
    size_ratio: float  # lines of the smaller map over those of the larger
    explained_fraction: float  # explained lines over those expected to be, both maps
    lateral_support: float  # inliers across the direction that most of them are parallel to
    matcher_agreement: float  # fraction of the matcher's probability on pairs that coincide

    @classmethod
    def nothing(cls, counts: tuple[int, int]) -> Evidence:
        """The evidence when no pose was found."""
        return Evidence(0, 0.0, None, min(counts) / max(1, *counts), 0.0, 0.0, 0.0)


def gather_evidence(
    refined: Sequence[RefinedCandidate],
    maps: MapPair,
    matches: Matches,
    match_scorer: RowScorer,
    map_scorer: MapScorer,
) -> Evidence:
    """The evidence for the first of the refined candidates."""
    if not refined:
        return Evidence.nothing(maps.core_counts)
    best, counts = refined[0], maps.core_counts
    pose = Pose(best.refinement.pose.rotation[None], best.refinement.pose.translation[None])
    explained, expected = map_scorer.explained(pose)
    matched_probability = float(match_scorer.scores(pose, matches.probability))
    return Evidence(
        inliers=len(best.refinement.matches),
        normalized_score=min(1.0, best.score / min(counts)),
        runner_up_ratio=refined[1].score / max(best.score, 1e-9) if len(refined) > 1 else None,
        size_ratio=min(counts) / max(counts),
        explained_fraction=float(explained / expected.clamp_min(1e-6)),
        lateral_support=lateral_support(maps.all_target.lines.direction[best.refinement.matches[:, 1]]),
        matcher_agreement=matched_probability / max(float(matches.probability.sum()), 1e-12),
    )


def lateral_support(directions: Float[Tensor, "k 3"]) -> float:
    """The number of lines that resist a shift in the direction of least resistance, each by its squared sine."""
    along = directions.mT @ directions
    return max(0.0, len(directions) - float(torch.linalg.eigvalsh(along)[-1]))
