"""The error that no method can be much better than: maximum likelihood where matches and noise are known.

The noise is taken to be normal. That of directions has heavier tails, so that a method can be a little better.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.data.protocols import LinePair
from plueckernet.estimation.match_refinement import refine_matches
from plueckernet.estimation.refinement import Refinement
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.evaluation.protocols import CentredPair
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel

PointPair = tuple[Float[Tensor, "3"], Float[Tensor, "3"]]


def oracle_refinement(pair: LinePair, noise: NoiseModel) -> Refinement | None:
    """The maximum-likelihood pose from the true matches, in frames about the points at which the noise acts."""
    (source_centre, target_centre), truth = noise_centres(pair), pair.target_T_source
    source = anchored(pair.source[pair.matches[:, 0]], source_centre)
    target = anchored(pair.target[pair.matches[:, 1]], target_centre)
    start = Pose(truth.rotation, truth.act(source_centre[None])[0] - target_centre)
    return refine_matches(start, source, target, noise)


def oracle_pose(pair: LinePair, noise: NoiseModel) -> Pose | None:
    """``target_T_source`` of :func:`oracle_refinement`; None where the matches do not determine a pose."""
    known, (source_centre, target_centre) = oracle_refinement(pair, noise), noise_centres(pair)
    if known is None:
        return None
    turn = known.pose.rotation
    return Pose(turn, target_centre + known.pose.translation - turn @ source_centre)


def noise_centres(pair: LinePair) -> PointPair:
    """The points in either frame from whose feet lines err: the origins, unless the pair says otherwise."""
    origin = torch.zeros(3, dtype=torch.float64)
    return (pair.source_centre, pair.target_centre) if isinstance(pair, CentredPair) else (origin, origin)


def anchored(lines: LineSet, centre: Float[Tensor, "3"]) -> AnchoredLines:
    """Lines in a frame about ``centre``, anchored at their feet from it."""
    return AnchoredLines.of(lines.replaced(ids=None).shifted(centre), torch.zeros_like(centre))
