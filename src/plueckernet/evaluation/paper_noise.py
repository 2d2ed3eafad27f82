"""What the paper's protocol assumes and a user's maps do not have.

Its lines are infinite, directed alike in both maps, and their noise acts at their points nearest to the origin of their
own frame. :func:`register_told` registers with this knowledge.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import torch

from plueckernet.coincidence import pair_distances
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.refinement import Refinement, refine_pose
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose
from plueckernet.matchers import MatcherSource
from plueckernet.registration import register
from plueckernet.result import RegistrationResult


@dataclass(frozen=True)
class ToldSettings:
    """Registration with known line directions and known points at which the noise acts."""

    registration: RegistrationSettings = field(default_factory=lambda: RegistrationSettings(directed=True))


def register_told(
    source: LineSet, target: LineSet, matcher: MatcherSource, told: ToldSettings, device: str = "cpu"
) -> RegistrationResult:
    """Register lines with the paper's noise, then refine the best pose with anchors nearest to the origins."""
    settings = told.registration
    result = register(source, target, matcher=matcher, settings=settings, device=device)
    best = best_pose(result)
    if best is None or source.endpoints is not None or target.endpoints is not None:
        return result
    start = time.perf_counter()
    maps = settings.normalize(source, target)
    with torch.no_grad():
        refinement = _refined_about_origins(best, maps, settings)
    if refinement is None:
        return result
    seconds = result.timings["refine"] + time.perf_counter() - start
    return _replaced(replace(result, timings=result.timings | {"refine": seconds}), refinement, maps)


def best_pose(result: RegistrationResult) -> Pose | None:
    """The best pose of a result, accepted or not."""
    if result.rigid_pose is not None:
        return result.rigid_pose
    return result.alternatives[0].rigid_pose if result.alternatives else None


def _refined_about_origins(pose: Pose, maps: MapPair, settings: RegistrationSettings) -> Refinement | None:
    source = AnchoredLines.of(maps.source.lines, -maps.source_offset / maps.unit)
    target = AnchoredLines.of(maps.target.lines, -maps.target_offset / maps.unit)
    start, known = maps.normalized_pose(pose), settings.known_noise(maps)
    return refine_pose(start, source, target, maps.threshold, known, settings.refinement)


def _replaced(result: RegistrationResult, refinement: Refinement, maps: MapPair) -> RegistrationResult:
    """The result with another best pose; a failed result has it as its first alternative."""
    pose, inliers = maps.original_pose(refinement.pose), maps.core_rows(refinement.matches)
    if result.target_T_source is None:
        first = replace(result.alternatives[0], target_T_source=pose)
        return replace(result, alternatives=(first, *result.alternatives[1:]))
    return replace(
        result,
        target_T_source=pose,
        covariance=maps.original_covariance(refinement.covariance),
        inliers=inliers,
        residuals=pair_distances(refinement.pose, inliers, maps),
    )
