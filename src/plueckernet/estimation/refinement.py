"""The most likely pose given all lines of both maps, and its covariance.

Under the current pose every close pair of lines is a match with some probability
(:mod:`plueckernet.estimation.correspondence`). The pose takes Gauss-Newton steps on the whitened residuals of
:mod:`plueckernet.geometry.residuals` with these weights. The noise is estimated from the residuals: from their medians
while the set of close pairs still changes, then from mean squares. In the mean squares, pairs with competitors count
little, because their weights depend on the assumed noise.

The covariance is the inverse of the information. Competing pairs contribute less information than the sum of their
weights: half of each of two lines says less about the pose than one certain match. The reduction was chosen so that
errors agree with covariances on synthetic maps (normalised squared error).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.close_pairs import NearbyPairs, limits_of
from plueckernet.estimation.correspondence import ClosePairs, CorrespondenceSettings
from plueckernet.estimation.distinct import Distinctness, close_to_any
from plueckernet.estimation.gauss_newton import determined_step, inverse_information, solved_step, weighted_information
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.masks import quantile
from plueckernet.estimation.noise import (
    MIN_DIRECTION_RATIO,
    KnownNoise,
    NoiseSettings,
    direction_variance_scale,
    fitted_noise,
    robust_noise,
    tail_density,
)
from plueckernet.estimation.paired_lines import PairedLines, PoseArrays, ResidualValues
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.pose import Pose, stacked
from plueckernet.geometry.residuals import NoiseModel
from plueckernet.geometry.upright import allowed_motions
from plueckernet.kernels.close_pairs import Limits
from plueckernet.kernels.library import compiled
from plueckernet.kernels.refining import FittedPairs, Model, Pairs
from plueckernet.kernels.refining_near import AWKWARD, DONE, ELSEWHERE, Course, State
from plueckernet.settings import check_at_least, check_fraction, check_positive

# Halving these or raising them by half changed no result of `python -m benchmarks.sensitivity_registration`. Its maps
# have no lines outside the core, so the study says nothing about the quantile and the iterations on all lines.
_LONG_LINE = math.sqrt(2)  # length of a line whose ends determine its direction, in radii of the map
_SHORT_QUANTILE = 0.1  # of segment lengths, that must still be paired when all lines take part
_ALL_LINES_ITERATIONS = 4  # on the lines outside the core, which start from the refined pose
_SAME_PAIRS_STEP = 0.2  # standard deviations of the pose; a smaller step leaves the set of close pairs as it is
_CLEARLY_MORE = 1.1  # times the score of a refined candidate: a pose beside it is refined, too
_SAME_THRESHOLD = 0.05  # relative change of the search threshold that leaves it as it is


@dataclass(frozen=True)
class SearchSettings:
    """How far apart two lines may be to be considered a pair, in sigmas of the estimated noise."""

    position_sigmas: float = 4.0  # while the pose approaches
    direction_sigmas: float = 5.0
    final_position_sigmas: float = 5.0  # in the last iterations
    final_direction_sigmas: float = 7.0
    slope_sigmas: float = 4.0  # of the direction, by which the distance grows along the line
    max_growth: float = 1.5  # limit of the search, in inlier thresholds: some right matches are outside

    def __post_init__(self) -> None:
        check_positive(self, "position_sigmas", "direction_sigmas", "final_position_sigmas", "final_direction_sigmas")
        check_positive(self, "slope_sigmas", "max_growth")

    @property
    def final(self) -> SearchSettings:
        """The settings of the last iterations."""
        return replace(
            self, position_sigmas=self.final_position_sigmas, direction_sigmas=self.final_direction_sigmas
        )  # fmt: skip


@dataclass(frozen=True)
class RefinementSettings:
    """Iterations, convergence and the models of noise and correspondence."""

    iterations: int = 20  # at most, until the set of close pairs is stable
    final_iterations: int = 4  # on the stable set
    candidate_iterations: int = 4  # the same two for candidates that are only compared
    candidate_final_iterations: int = 1
    converged_step: float = 0.03  # last change of the pose, in its standard deviations
    min_match_probability: float = 0.2  # of a reported inlier
    min_noise_probability: float = 0.02  # of the matches that the rough noise is estimated from
    search: SearchSettings = field(default_factory=SearchSettings)
    noise: NoiseSettings = field(default_factory=NoiseSettings)
    correspondence: CorrespondenceSettings = field(default_factory=CorrespondenceSettings)
    up: tuple[float, float, float] | None = None  # the vertical that the rotation keeps; set by `RegistrationSettings`

    def allowed(self, jacobian: Float[Tensor, "*batch 6"]) -> Float[Tensor, "*batch 6"]:
        """Derivatives by the pose, along the motions that are allowed."""
        return jacobian if self.up is None else allowed_motions(jacobian, jacobian.new_tensor(self.up))

    def allowed_design(self, design: Float[np.ndarray, "7 4 k"]) -> Float[np.ndarray, "7 4 k"]:
        """The same of derivatives and residuals as arrays, in place."""
        if self.up is not None:
            up = np.array(self.up)
            design[:3] = up[:, None, None] * np.tensordot(up, design[:3], 1)
        return design

    def course(self, limit: Limits, shortest: float, known: KnownNoise, infinite: bool) -> Course:
        """The same for a kernel."""
        search, unknown = self.search, math.nan
        return Course(
            *(self.iterations, self.final_iterations, not known.complete, infinite),
            *(self.converged_step, self.min_match_probability, self.min_noise_probability, self.noise.max_decrease),
            (search.position_sigmas, search.direction_sigmas),
            (search.final_position_sigmas, search.final_direction_sigmas),
            *(search.slope_sigmas, search.max_growth, shortest),
            limit,
            tuple(unknown if value is None else value for value in (known.position, known.direction)),
        )

    def __post_init__(self) -> None:
        check_at_least(self, 1, "iterations", "final_iterations", "candidate_iterations", "candidate_final_iterations")
        check_positive(self, "converged_step")
        check_fraction(self, "min_match_probability", "min_noise_probability")


@dataclass(frozen=True, eq=False)
class Refinement:
    """A refined pose and the matches that support it."""

    pose: Pose
    covariance: Float[Tensor, "6 6"]  # of xi = (omega, tau) in exp(xi) @ pose
    matches: Int[Tensor, "k 2"]  # (source, target) rows of the inliers
    noise: NoiseModel
    converged: bool


@dataclass(frozen=True, eq=False)
class RefinedCandidate:
    """A refinement and how well it explains both maps."""

    score: float  # of the verification
    stand_out: float  # score over that of the shifted pose, in standard deviations of the latter
    chance_lines: float  # lines that the shifted pose explains on average
    refinement: Refinement


def refine_candidates(
    candidates: Sequence[Pose],
    maps: MapPair,
    scorer: MapScorer,
    known: KnownNoise = KnownNoise(),
    settings: RefinementSettings = RefinementSettings(),
    distinctness: Distinctness = Distinctness(),
    earlier: Sequence[RefinedCandidate] = (),
) -> list[RefinedCandidate]:
    """Refine candidates briefly on the cores, beside those refined earlier; best verification score first.

    Candidates that end at the same pose count once, unless the later one explains clearly more: a refinement may end
    beside the pose that it should find.
    """
    brief = replace(
        settings, iterations=settings.candidate_iterations, final_iterations=settings.candidate_final_iterations
    )
    refined = list(earlier)

    def is_known(pose: Pose) -> bool:
        if not refined:
            return False
        others, batch = stacked([other.refinement.pose for other in refined]), stacked([pose])
        close = close_to_any(others, batch, maps.threshold, distinctness).tolist()
        scores = [other.score for other, is_close in zip(refined, close, strict=True) if is_close]
        return bool(scores) and float(scorer.compared_scores(batch)) <= _CLEARLY_MORE * max(scores)

    for candidate in candidates:
        if is_known(candidate):  # it would end at the same pose
            continue
        refinement = refine_near(candidate, maps.nearby_pairs, maps.threshold, known, brief)
        if refinement is not None and not is_known(refinement.pose):
            refined.append(RefinedCandidate(*scorer.stand_out(refinement.pose), refinement))
    return sorted(refined, key=lambda candidate: -candidate.score)


def complete_refinement(
    best: Refinement,
    maps: MapPair,
    known: KnownNoise = KnownNoise(),
    settings: RefinementSettings = RefinementSettings(),
) -> Refinement:
    """Refine to convergence on the cores, then on all lines, which the matches then refer to."""
    core = refine_near(best.pose, maps.nearby_pairs, maps.threshold, known, settings) or best
    core = replace(core, matches=maps.core_rows(core.matches))
    if not maps.has_lines_outside_core:
        return core
    shortest = short_length(maps.all_source, maps.all_target)
    narrow = search_threshold(core.noise, maps.threshold, shortest, settings.search)
    on_all = replace(settings, iterations=_ALL_LINES_ITERATIONS)
    return refine_pose(core.pose, maps.all_source, maps.all_target, narrow, known, on_all, shortest) or core


def refine_pose(
    pose: Pose,
    source: AnchoredLines,
    target: AnchoredLines,
    threshold: InlierThreshold,
    known: KnownNoise = KnownNoise(),
    settings: RefinementSettings = RefinementSettings(),
    shortest: float | None = None,
) -> Refinement | None:
    """Maximum likelihood on all lines of two maps, from a pose accurate to about the threshold.

    Unknown noise is estimated. ``shortest`` is the length of the shortest segments that must be paired; by default
    only long lines must be. Returns None if fewer than three lines support the pose. A motion that they leave
    undetermined stays as it is and has a large variance.
    """
    return refine_near(
        pose, NearbyPairs(source, target), threshold, known, settings, _LONG_LINE if shortest is None else shortest
    )


def refine_near(
    pose: Pose,
    nearby: NearbyPairs,
    threshold: InlierThreshold,
    known: KnownNoise = KnownNoise(),
    settings: RefinementSettings = RefinementSettings(),
    shortest: float = _LONG_LINE,
) -> Refinement | None:
    """The same from pairs of lines that may have been found already."""
    if compiled() and settings.up is None:
        outcome, refinement = _compiled_refinement(pose, nearby, threshold, known, settings, shortest)
        if outcome != AWKWARD:
            return refinement
    approach = _approach(PoseArrays.of(pose), nearby, threshold, known, settings, shortest)
    if approach is None:
        return None
    placed, model, stable = approach
    close = nearby.within(placed, search_threshold(model, threshold, shortest, settings.search.final))
    for _ in range(settings.final_iterations):
        fit = _fit(placed, *close, model, settings)
        if fit is None:
            return None
        placed = fit.pose
        if not known.complete:
            model = known.applied(_fine_noise(model, fit, *close))
    fit = _fit(placed, *close, model, settings)  # matches and covariance of the last pose
    if fit is None:
        return None
    converged = stable or fit.step < settings.converged_step
    inlier = close[0].mutual_best(fit.weight) & (fit.weight > settings.min_match_probability)
    information, lines = fit.information, float(fit.weight.sum())
    covariance = torch.from_numpy(_covariance(information, lines, estimated=not known.complete)).to(pose.rotation)
    covariance = settings.allowed(settings.allowed(covariance).mT)
    matches = close[0].rows[torch.from_numpy(inlier)].to(pose.rotation.device)
    return Refinement(placed.pose(like=pose), covariance, matches, model, converged)


def _compiled_refinement(
    pose: Pose,
    nearby: NearbyPairs,
    threshold: InlierThreshold,
    known: KnownNoise,
    settings: RefinementSettings,
    shortest: float,
) -> tuple[int, Refinement | None]:
    """The same by a kernel, with its outcome; it asks for other pairs where the pose leaves those it has."""
    placed, limits, noise = PoseArrays.of(pose), limits_of(threshold), known.applied(settings.noise.initial(threshold))
    state = State(model=_model(placed, threshold, noise, settings), search=limits)
    course, outcome = settings.course(limits, shortest, known, nearby.has_infinite_lines), ELSEWHERE
    while outcome == ELSEWHERE:
        numbers, search = np.array(state.model.pose), state.search
        placed = PoseArrays(numbers[:9].reshape(3, 3), numbers[9:])
        asked = InlierThreshold(search.distance, search.angle, bool(search.directed), search.slope)
        outcome, inliers = nearby.kernel(placed, asked).refine(course, state)
    if outcome != DONE:
        return outcome, None
    numbers, information = np.array(state.model.pose), np.array(state.information).reshape(6, 6)
    covariance = _covariance(information, state.matched, estimated=not known.complete)
    on_device = [torch.from_numpy(x).to(pose.rotation) for x in (numbers[:9].reshape(3, 3), numbers[9:], covariance)]
    matches = torch.from_numpy(inliers).to(pose.rotation.device)
    refined = Pose(*on_device[:2]), on_device[2], matches, NoiseModel(*state.model.noise), bool(state.converged)
    return outcome, Refinement(*refined)


def _approach(
    pose: PoseArrays,
    nearby: NearbyPairs,
    threshold: InlierThreshold,
    known: KnownNoise,
    settings: RefinementSettings,
    shortest: float,
) -> tuple[PoseArrays, NoiseModel, bool] | None:
    """Iterate until the set of close pairs is stable: the pose, the rough noise, and whether it became stable."""
    model, search, changed, accepted = known.applied(settings.noise.initial(threshold)), threshold, True, None
    for _ in range(settings.iterations):
        if changed:
            close = nearby.within(pose, search)
        fit = _fit(pose, *close, model, settings)
        if fit is None:  # with few lines, a chance agreement can make the noise look too small to keep three
            return None if accepted is None else (pose, accepted, False)
        pose, accepted = fit.pose, model
        if not known.complete:
            model = known.applied(_rough_noise(model, fit, close[1], settings))
        previous, search = search, search_threshold(model, threshold, shortest, settings.search)
        ratio = search.distance / previous.distance
        same = 1 - _SAME_THRESHOLD < ratio < 1 + _SAME_THRESHOLD
        changed = fit.step > _SAME_PAIRS_STEP or not same
        if fit.step < settings.converged_step and same:
            return pose, model, True
    return pose, model, False


def search_threshold(
    noise: NoiseModel, limit: InlierThreshold, shortest: float, settings: SearchSettings
) -> InlierThreshold:
    """The threshold for pairs: some sigmas of the difference of two lines, limited by the inlier threshold.

    The ends of a short segment determine its direction less well: ``shortest`` is the length that must be paired.
    """
    direction = math.hypot(noise.direction, math.sqrt(2) * noise.endpoint / shortest)
    distance = min(settings.position_sigmas * math.sqrt(2) * noise.position, settings.max_growth * limit.distance)
    angle = min(settings.direction_sigmas * math.sqrt(2) * direction, settings.max_growth * limit.angle)
    slope = min(settings.slope_sigmas * direction, limit.angle)
    return InlierThreshold(distance, angle, limit.directed, slope)


def short_length(source: AnchoredLines, target: AnchoredLines) -> float:
    """The length that one segment in ten falls short of; infinite lines are long."""
    lengths = [side.half_length for side in (source, target) if side.half_length is not None]
    if len(lengths) < 2:
        return _LONG_LINE
    return 2 * min(quantile(half_length, _SHORT_QUANTILE) for half_length in lengths)


@dataclass(frozen=True, eq=False)
class _Fit:
    pose: PoseArrays  # after the step
    residuals: ResidualValues  # before the step
    variance_scale: Float[np.ndarray, " k"]  # of the direction
    weight: Float[np.ndarray, " k"]  # probability that the pair is a match
    information: Float[np.ndarray, "6 6"]  # about the pose; competing pairs have reduced it
    step: float  # length of the step, in standard deviations of the pose
    kernel: FittedPairs | None = None  # which computed all this


def _fit(
    pose: PoseArrays, pairs: ClosePairs, lines: PairedLines, noise: NoiseModel, settings: RefinementSettings
) -> _Fit | None:
    """One Gauss-Newton step on the pairs, weighted by their probability; None if there are fewer than three."""
    if len(pairs) < 3:
        return None
    if lines.kernel is not None:
        return _compiled_fit(pose, lines.kernel, pairs.threshold, noise, settings)
    residuals = lines.residuals(pose)
    variances = lines.source.variances(noise), lines.target.variances(noise)
    turn, free = variances[0][1] + variances[1][1], settings.noise.degrees_of_freedom
    square = np.square(residuals.direction).sum(0) / turn
    scale = direction_variance_scale(square, free)
    design, shift = residuals.design(*variances, scale)
    design = settings.allowed_design(design)
    position = np.exp(np.square(design[6, :2]).sum(0) / -2) * (pairs.threshold.distance**2 / 2) / shift
    direction = tail_density(square, free) * (pairs.threshold.angle**2 / 2) / turn
    weight, exclusive = pairs.match_probability(position, direction, settings.correspondence)
    step = determined_step(design, weight)
    if step is None:
        return None
    information = weighted_information(design, exclusive * np.sqrt(weight))
    return _Fit(pose.stepped(step[0]), residuals, scale, weight, information, step[1])


def _compiled_fit(
    pose: PoseArrays, pairs: Pairs, threshold: InlierThreshold, noise: NoiseModel, settings: RefinementSettings
) -> _Fit | None:
    """The same by a kernel."""
    kernel = FittedPairs(pairs, _model(pose, threshold, noise, settings))
    if not kernel.outcome:
        return None
    if kernel.outcome == 1:
        length, stepped = kernel.step[1], PoseArrays(*kernel.pose)
    else:
        xi, length = solved_step(kernel.products)
        stepped = pose.stepped(xi)
    residuals = ResidualValues(kernel.position, kernel.direction, kernel.lever)
    return _Fit(stepped, residuals, kernel.variance_scale, kernel.weight, kernel.information, length, kernel)


def _model(pose: PoseArrays, threshold: InlierThreshold, noise: NoiseModel, settings: RefinementSettings) -> Model:
    return Model(
        pose.numbers(),
        (noise.position, noise.direction, noise.endpoint),
        settings.noise.degrees_of_freedom,
        threshold.distance,
        threshold.angle,
        settings.correspondence.unseen_competitors,
        settings.correspondence.iterations,
        settings.up is not None,
        settings.up or (0.0, 0.0, 0.0),
    )


def _covariance(information: Float[np.ndarray, "6 6"], lines: float, estimated: bool) -> Float[np.ndarray, "6 6"]:
    """Of the pose, which was fitted to so many lines."""
    covariance = inverse_information(information)
    if not estimated:
        return covariance
    # Six parameters were fitted to the residuals that the noise was estimated from. A line counts once although it has
    # four residuals: an error that makes one of them large makes the others large as well.
    return covariance * (lines / max(lines - 6, 1))


def _rough_noise(model: NoiseModel, fit: _Fit, lines: PairedLines, settings: RefinementSettings) -> NoiseModel:
    """The noise by medians, not much below the previous estimate: the pose has to follow.

    In a drawing most lines are exactly parallel, wrong pairs included; their residuals do not depend on the pose. Nor
    do lines that are upright to the last digit tell how far others are turned.
    """
    rows = np.flatnonzero(fit.weight > settings.min_noise_probability)
    if len(rows) < 3:
        rows = np.flatnonzero(fit.weight > 0)
    estimate = robust_noise(model, fit.residuals, lines, rows, fit.weight.take(rows), fit.kernel)
    limit = settings.noise.max_decrease
    position = max(estimate.position, model.position / limit)
    direction = max(estimate.direction, model.direction / limit, MIN_DIRECTION_RATIO * position)
    return replace(estimate, position=position, direction=direction)


def _fine_noise(model: NoiseModel, fit: _Fit, pairs: ClosePairs, lines: PairedLines) -> NoiseModel:
    """The noise by mean squares, mostly of pairs without competitors."""
    trust = fit.weight / np.square(1 + pairs.competitors)
    return fitted_noise(model, fit.residuals, lines, fit.variance_scale, trust, float(fit.weight.sum()), fit.kernel)
