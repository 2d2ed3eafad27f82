r"""The search for a similarity: candidate scales, a rigid search at each, and the scale refined with the pose.

1. Each map has a unit of its own, the median distance of its lines from their centre. At the ratio of these units the
   lines are matched, and pairs of matches vote for the scale. Maps that cover different parts of a place have other
   ratios: that of the spacing and that of the lengths of segments are tried after it.
2. At each scale with many votes, the first round of the rigid search proposes, verifies, refines and weighs poses.
3. Pose and scale of the best are refined together. At that scale the whole rigid search runs.

The scale is one more freedom by which maps of different places may agree by chance. The odds of the presence are
therefore divided by the number of independent scales that were tried.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from plueckernet.errors import InputError
from plueckernet.estimation.assessment import Assessment
from plueckernet.estimation.extents import size_ratios, unit_names
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.search import Matching, PoseSearch, RegisteredMaps
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.similarity.joint import JointStep, joint_step, refine_similarity
from plueckernet.estimation.similarity.scale_votes import vote_for_scales
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.stages import StageClock

MAX_SCALE = 1e6  # of what is searched for, and its inverse
_PEAKS = 2  # scales tried at each ratio of units
_DISTINCT = 0.03  # between the log scales that are tried
_NARROW = 2.0  # ratio of the limits of a range within which matches at its middle are good enough
_SMALL_STEP = 0.2  # of the scale, in its standard deviations: the search was at the right scale
_AT_LIMIT = 1e-6  # of the logarithm of the scale
_MIN_REPORTED = 0.005  # difference of the logarithm of a scale from zero that is worth a warning
_MAX_SEARCHES = 3  # whole searches: the best pose of the last may have another scale


@dataclass(frozen=True)
class ScaleRange:
    """The scales ``target / source`` that are searched for."""

    low: float = 1 / MAX_SCALE
    high: float = MAX_SCALE

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high < math.inf:
            raise InputError(f"scale: expected 0 < low <= high, got {self.low:g} and {self.high:g}")

    @property
    def is_open(self) -> bool:
        """Whether any scale is searched for."""
        return self == ScaleRange()

    def clamped(self, scale: float) -> float:
        """The nearest scale of the range."""
        return min(max(scale, self.low), self.high)

    def contains(self, scale: float) -> bool:
        """Whether a scale is in the range, but for rounding."""
        return self.low * (1 - 1e-9) <= scale <= self.high * (1 + 1e-9)


ScaleChoice = Literal["unknown"] | tuple[float, float] | None
"""The scale between two maps: the same unit, unknown, or in a range."""


def scale_range(scale: object) -> ScaleRange | None:
    """The range of a :data:`ScaleChoice`; anything else raises :class:`InputError`."""
    if scale is None:
        return None
    if scale == "unknown":
        return ScaleRange()
    if isinstance(scale, Sequence) and len(scale) == 2 and all(isinstance(limit, int | float) for limit in scale):
        return ScaleRange(float(scale[0]), float(scale[1]))
    raise InputError(f'scale: expected None, "unknown" or the two limits of a range, got {scale!r}')


def search_similarity(
    lines: tuple[LineSet, LineSet],
    matching: Matching,
    settings: RegistrationSettings,
    stage: StageClock,
    seed: int,
    scales: ScaleRange = ScaleRange(),
) -> RegisteredMaps:
    """Pose and scale of two maps."""
    return SimilaritySearch(lines, matching, settings, stage).run(scales, seed)


def similarity_around(
    lines: tuple[LineSet, LineSet],
    matching: Matching,
    settings: RegistrationSettings,
    stage: StageClock,
    motion: Similarity,
) -> RegisteredMaps:
    """A given similarity, refined, among the candidates of one round at its scale."""
    search = SimilaritySearch(lines, matching, settings, stage)
    motion = refine_similarity(motion, search.maps_at, settings.known_noise, settings.constrained_refinement)
    return search.around(motion)


class SimilaritySearch:
    """Registers two maps whose scale is unknown, by rigid searches at several scales."""

    def __init__(
        self,
        lines: tuple[LineSet, LineSet],
        matching: Matching,
        settings: RegistrationSettings = RegistrationSettings(),
        stage: StageClock | None = None,
    ) -> None:
        self._source, self._target = lines
        self._matching, self._settings, self._stage = matching, settings, stage or StageClock()
        self._tried: list[float] = []  # log scales

    def run(self, scales: ScaleRange = ScaleRange(), seed: int = 0) -> RegisteredMaps:
        """The most probable pose and scale."""
        scale = self._best_scale(scales, seed)
        for attempt in range(_MAX_SEARCHES):
            search, maps = self._search_at(scale)
            assessment = search.run(seed)
            if not assessment.candidates:
                return replace(search.registered(assessment), scale=scale)
            step = self._step(maps, assessment)
            small = step is None or step.deviations < _SMALL_STEP
            if small or attempt == _MAX_SEARCHES - 1:
                break
            scale = scales.clamped(self._refined(maps, assessment.candidates[0].refinement.pose, scale))
        assessment = replace(assessment, weighing=assessment.weighing.among(max(1, len(self._tried))))
        covariance = None if step is None else step.original_covariance(maps)
        said = _warnings(scale, covariance, scales)
        return replace(search.registered(assessment), scale=scale, covariance=covariance, warnings=said)

    def around(self, motion: Similarity) -> RegisteredMaps:
        """A similarity among the poses of one round at its scale."""
        scale = float(motion.scale)
        search, maps = self._search_at(scale)
        assessment = search.around(maps.normalized_pose(motion.pose))
        step = self._step(maps, assessment) if assessment.candidates else None
        covariance = None if step is None else step.original_covariance(maps)
        return replace(search.registered(assessment), scale=scale, covariance=covariance)

    def _step(self, maps: MapPair, assessment: Assessment) -> JointStep | None:
        """From the best pose to the most likely pose and scale."""
        estimated = not self._settings.known_noise(maps).complete
        best = assessment.candidates[0].refinement
        with self._stage("refine"):
            return joint_step(best, maps, self._settings.constrained_refinement, estimated)

    def maps_at(self, scale: float) -> MapPair:
        """Both maps, the source scaled."""
        grow = Similarity.from_pose(Pose.identity(device=str(self._source.direction.device)), scale)
        return self._settings.normalize(grow @ self._source, self._target)

    def _best_scale(self, scales: ScaleRange, seed: int) -> float:
        """The scale of the most probable pose of the first rounds, refined with the pose."""
        best, confidence = self._ratios(scales)[0], -1.0
        for scale in self._candidates(scales):
            self._tried.append(math.log(scale))
            search, maps = self._search_at(scale)
            assessment = search.first(seed)
            if assessment.candidates and assessment.weighing.presence > confidence:
                confidence = assessment.weighing.presence
                best = self._refined(maps, assessment.candidates[0].refinement.pose, scale)
            if confidence >= self._settings.judgement.clear_confidence:
                break
        return scales.clamped(best)

    def _candidates(self, scales: ScaleRange) -> Iterator[float]:
        """Scales by their votes, at one ratio of the units after the other; each is asked for when it is needed."""
        for ratio in self._ratios(scales):
            maps = self.maps_at(ratio)
            with self._stage("match"):
                matches = self._matching.match(maps)
            with self._stage("estimate"):
                peaks = vote_for_scales(maps, matches, _PEAKS)
            for peak in peaks:
                scale = ratio * math.exp(peak.log_scale)
                close = any(abs(math.log(scale) - other) <= _DISTINCT for other in self._tried)
                if scales.contains(scale) and not close:
                    yield scale

    def _ratios(self, scales: ScaleRange) -> list[float]:
        """Scales at which matches are worth something: the middle of a narrow range, or the ratios of the sizes."""
        if scales.high <= _NARROW * scales.low:
            return [math.sqrt(scales.low * scales.high)]
        return [scales.clamped(ratio) for ratio in size_ratios(self._source, self._target)]

    def _search_at(self, scale: float) -> tuple[PoseSearch, MapPair]:
        with self._stage("prepare"):
            maps = self.maps_at(scale)
            return PoseSearch(maps, self._matching, self._settings, self._stage), maps

    def _refined(self, maps: MapPair, pose: Pose, scale: float) -> float:
        original = maps.original_pose(pose)
        motion = Similarity(torch.full_like(original.translation[0], scale), original.rotation, original.translation)
        with self._stage("refine"):
            refined = refine_similarity(
                motion, self.maps_at, self._settings.known_noise, self._settings.constrained_refinement
            )
        return float(refined.scale)


def _warnings(scale: float, covariance: Tensor | None, scales: ScaleRange) -> tuple[str, ...]:
    """What users of maps that are said to have the same unit want to know about the scale, in sentences."""
    if scales.is_open:
        units = unit_names(scale)
        return () if units is None else (f"The scale {scale:.6g} is that from {units[0]} to {units[1]}.",)
    if not math.log(scales.low) + _AT_LIMIT < math.log(scale) < math.log(scales.high) - _AT_LIMIT:
        return (f"The scale {scale:.6g} is at the limit of the range from {scales.low:g} to {scales.high:g}.",)
    sigma = 0.0 if covariance is None else math.sqrt(max(0.0, float(covariance[6, 6])))
    if abs(math.log(scale)) < max(_MIN_REPORTED, 3 * sigma):
        return ()
    return (f"The maps differ in scale: the source fits when it is multiplied by {scale:.5g} (± {scale * sigma:.2g}).",)
