"""The most likely pose given all lines of both maps, and how far off it may be.

Under the current pose every close pair of lines is a match with some probability
(:mod:`plueckernet.estimation.correspondence`). The pose takes Gauss-Newton steps on the whitened residuals of
:mod:`plueckernet.geometry.residuals` so weighted, and the noise is read off the residuals: off their medians as long
as it is being found out which lines are close, then off mean squares. In these, pairs with rivals count for little,
because which of the rivals is believed depends on the noise that was thought to be there.

The covariance is the inverse of the information gathered, in which rivals count less than their weights add up to: half
of each of two lines says less about the pose than one sure match. How much less was chosen so that errors agree with
covariances on synthetic maps (``benchmarks``: normalised squared error).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.correspondence import ClosePairs
from plueckernet.estimation.noise import fitted_noise, robust_noise, slack, tail_density
from plueckernet.estimation.scoring import AnchoredLines, RowScorer, Tolerance, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel, Residuals, line_residuals, variances, whitened

_GATE = 18.47  # chi-square of four degrees of freedom, 99.9 %
_PEAK = _GATE**2 / 8  # density of a right match at its centre over that of a wrong one, uniform within the gate
_PROBABLE = 0.2  # from which a match is reported
_BEYOND = 1.5  # tolerances in which matches are looked for once the noise is known: some right ones are off by more
_NEAR, _FAR = (4.0, 5.0), (5.0, 7.0)  # sigmas of position and direction within which they are looked for
_SHRINKS = 6.0  # times at most that the noise falls from one step to the next
_STILL = 0.2  # standard deviations of the pose below which a step does not change what is close
_LONG = math.sqrt(2)  # length of a long line, in radii of the map
_COARSE = 1e-3  # tolerance of position above which single precision tells near from far
_BLOCK = 250_000  # entries of a residual matrix, small enough for a processor's cache


@dataclass(frozen=True)
class RefinementSettings:
    """When to stop, and what not to believe."""

    iterations: int = 20  # in which it is found out what is close
    final: int = 6  # on what was found to be close
    converged: float = 0.03  # last change of the pose, in its own standard deviations
    noise_floor: float = 1e-7  # map units and radians: data are never better than that
    short_lines: bool = False  # look as far as the ends of short segments err; of a map's longest there is no need


@dataclass(frozen=True, eq=False)
class Refinement:
    """A refined pose with everything it was made of."""

    pose: Pose
    covariance: Float[Tensor, "6 6"]  # of xi = (omega, tau) in exp(xi) @ pose
    matches: Int[Tensor, "k 2"]  # (source, target) rows that are inliers
    noise: NoiseModel
    converged: bool


def refine_pose(
    pose: Pose,
    source: AnchoredLines,
    target: AnchoredLines,
    tolerance: Tolerance,
    noise: NoiseModel | None = None,
    settings: RefinementSettings = RefinementSettings(),
) -> Refinement | None:
    """Maximum likelihood on all lines of both maps, starting from a pose good to about ``tolerance``.

    Without ``noise`` it is estimated along the way, from a quarter of the tolerance down. None when fewer than
    three lines support the pose or they leave it undetermined.
    """
    near = _approached(pose, source, target, tolerance, noise, settings)
    if near is None:
        return None
    pose, model, settled = near
    reach = search_tolerance(model, tolerance, _shortest(source, target, settings), _FAR)
    pairs = close_pairs(pose, source, target, reach)
    for _ in range(settings.final):
        fit = _fit(pose, source, target, pairs, model)
        if fit is None:
            return None
        pose = fit.pose
        if noise is None:
            model = _fine_noise(model, fit, pairs, settings.noise_floor)
    fit = _fit(pose, source, target, pairs, model)  # so that matches and covariance belong to the last pose
    if fit is None:
        return None
    return _finished(pose, fit, pairs, model, noise is None, settled or fit.step < settings.converged)


def _approached(
    pose: Pose,
    source: AnchoredLines,
    target: AnchoredLines,
    tolerance: Tolerance,
    noise: NoiseModel | None,
    settings: RefinementSettings,
) -> tuple[Pose, NoiseModel, bool] | None:
    """Find out which lines are close: the pose, roughly the noise, and whether they have settled."""
    model, reach, moved, believed = noise or _initial_noise(tolerance), tolerance, True, None
    shortest = _shortest(source, target, settings)
    for _ in range(settings.iterations):
        if moved:
            pairs = close_pairs(pose, source, target, reach)
        fit = _fit(pose, source, target, pairs, model)
        if fit is None:  # of few lines too little is left when a chance agreement makes the noise look small
            return None if believed is None else (pose, believed, False)
        pose, believed = fit.pose, model
        if noise is None:
            model = _rough_noise(model, fit, settings.noise_floor)
        before, reach = reach, search_tolerance(model, tolerance, shortest)
        same_reach = 0.95 < reach.position / before.position < 1.05
        moved = fit.step > _STILL or not same_reach
        if fit.step < settings.converged and same_reach:
            return pose, model, True
    return pose, model, False


def refine_matches(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, noise: NoiseModel, iterations: int = 20
) -> Refinement | None:
    """Maximum likelihood on given row matches with known noise; wrong matches are gated out."""
    sigma = noise.sigmas(source.lines), noise.sigmas(target.lines)
    for _ in range(iterations + 1):
        residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
        value, jacobian = whitened(residuals, *variances(residuals, *sigma))
        weight = _within_gate(value.square().sum(-1))
        taken = _determined_step(value, jacobian, weight)
        if taken is None:
            return None
        xi, length = taken
        if length < 1e-6:
            break
        pose = Pose.exp(xi) @ pose
    covariance = _inverse(_information(jacobian, weight.sqrt()))
    rows = (weight > _PROBABLE).nonzero().expand(-1, 2)
    return Refinement(pose, covariance, rows, noise, length < 1e-6)


def close_pairs(pose: Pose, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance) -> ClosePairs:
    """All pairs of lines within tolerance of each other under the pose."""
    if tolerance.position > _COARSE:
        source, target = source.to(torch.float32), target.to(torch.float32)
    one = Pose(pose.rotation[None], pose.translation[None]).to(source.anchor.dtype)
    counts = len(source), len(target)
    if counts[0] * counts[1] <= _BLOCK:
        return ClosePairs((pair_residuals(one, source, target, tolerance)[0] < 1).nonzero(), counts, tolerance)
    found = [source.anchor.new_zeros(0, 2).long()]
    for rows, columns in _blocks(pose, source, target, tolerance):
        block = pair_residuals(one, source[rows], target[columns], tolerance)[0]
        near = (block < 1).nonzero()
        found.append(torch.stack([rows[near[:, 0]], columns[near[:, 1]]], -1))
    return ClosePairs(torch.cat(found), counts, tolerance)


def _blocks(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance
) -> Iterator[tuple[Int[Tensor, " r"], Int[Tensor, " c"]]]:
    """Rows of the source with the target lines that any of them can meet; all pairs when lines are infinite.

    Segments are taken in slabs across the axis along which the map is longest.
    """
    count, everything = len(source), torch.arange(len(target), device=target.anchor.device)
    rows = max(1, min(count, _BLOCK // max(1, len(target))))
    if source.reach is None or target.reach is None:
        order = torch.arange(count, device=source.anchor.device)
        yield from ((block, everything) for block in order.split(rows))
        return
    moved = pose.to(source.anchor.dtype).act(source.anchor)
    axis = int((target.anchor.amax(0) - target.anchor.amin(0)).argmax())
    along, place = moved[:, axis], target.anchor[:, axis]
    pad = target.reach + 2 * tolerance.position
    for block in along.argsort().split(256):
        reach = source.reach[block]
        low, high = (along[block] - reach).amin(), (along[block] + reach).amax()
        near = ((place + pad > low) & (place - pad < high)).nonzero()[:, 0]
        if len(near):
            yield block, near


def search_tolerance(
    noise: NoiseModel, most: Tolerance, shortest: float = _LONG, sigmas: tuple[float, float] = _NEAR
) -> Tolerance:
    """Where to look for matches: some sigmas of the difference of two lines, and not far beyond the start.

    The ends of a short line tell its direction less well: ``shortest`` is the length from which on lines are found.
    """
    direction = math.hypot(noise.direction, math.sqrt(2) * noise.endpoint / shortest)
    position = min(sigmas[0] * math.sqrt(2) * noise.position, _BEYOND * most.position)
    angle = min(sigmas[1] * math.sqrt(2) * direction, _BEYOND * most.angle)
    return Tolerance(position, angle, most.directed, slope=min(4 * direction, most.angle))


def _shortest(source: AnchoredLines, target: AnchoredLines, settings: RefinementSettings) -> float:
    return short_length(source, target) if settings.short_lines else _LONG


def short_length(source: AnchoredLines, target: AnchoredLines) -> float:
    """The length that one segment in ten falls short of; infinite lines are long."""
    if source.reach is None or target.reach is None:
        return _LONG
    return 2 * float(min(side.reach.quantile(0.1) for side in (source, target) if side.reach is not None))


def polish(poses: Pose, source: AnchoredLines, target: AnchoredLines, scorer: RowScorer, steps: int = 1) -> Pose:
    """A few Gauss-Newton steps of several poses at once on row matches, each on its own inliers."""
    noise = _initial_noise(scorer.tolerance)
    sigma = noise.sigmas(source.lines), noise.sigmas(target.lines)
    for _ in range(steps):
        inlier = scorer.fit(poses) > 0
        residuals = line_residuals(poses, source.lines, target.lines, source.anchor, target.anchor)
        xi, _ = _step(*whitened(residuals, *variances(residuals, *sigma)), inlier.to(poses.rotation.dtype))
        poses = Pose.exp(xi) @ poses
    return poses


@dataclass(frozen=True, eq=False)
class _Fit:
    pose: Pose
    source: AnchoredLines  # (k,)
    target: AnchoredLines  # (k,)
    residuals: Residuals  # before the step
    slack: Tensor  # (k,) factor on the variance of the direction
    jacobian: Tensor  # (k, 4, 6), whitened
    weight: Tensor  # (k,) probability of each match to be right
    alone: Tensor  # (k,) probability that none of its rivals is
    step: float  # how far the pose went, in its standard deviations


def _fit(pose: Pose, source: AnchoredLines, target: AnchoredLines, pairs: ClosePairs, noise: NoiseModel) -> _Fit | None:
    """One Gauss-Newton step on the pairs by how probable they are; None where they do not fix the pose."""
    if len(pairs) < 3:
        return None
    source, target = source[pairs.rows[:, 0]], target[pairs.rows[:, 1]]
    residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
    (sp, sd), (tp, td) = noise.sigmas(source.lines), noise.sigmas(target.lines)
    turn = sd.square() + td.square()
    square = residuals.direction.square().sum(-1) / turn
    factor = slack(square)
    gain, shift, turned = variances(residuals, (sp, sd * factor.sqrt()), (tp, td * factor.sqrt()))
    value, jacobian = whitened(residuals, gain, shift, turned)
    position = (-value[:, :2].square().sum(-1) / 2).exp() * pairs.reach.position**2 / (2 * shift)
    direction = tail_density(square) * pairs.reach.angle**2 / (2 * turn)
    weight, alone = pairs.probability(position, direction)
    taken = _determined_step(value, jacobian, weight)
    if taken is None:
        return None
    return _Fit(Pose.exp(taken[0]) @ pose, source, target, residuals, factor, jacobian, weight, alone, taken[1])


def _within_gate(chi_square: Float[Tensor, " k"], iterations: int = 6) -> Float[Tensor, " k"]:
    """How probable given matches are: right ones are normally distributed, wrong ones uniformly within the gate."""
    density = torch.where(chi_square < _GATE, _PEAK * (-chi_square / 2).exp(), 0.0)
    share, count = 0.7, max(1, int((density > 0).sum()))
    for _ in range(iterations):
        odds = density * (share / (1 - share))
        weight = odds / (1 + odds)
        share = min(max(float(weight.sum()) / count, 0.05), 0.999)
    return weight


def _determined_step(value: Tensor, jacobian: Tensor, weight: Tensor) -> tuple[Tensor, float] | None:
    """The step and its length in standard deviations; None where the matches do not fix the pose."""
    if float(weight.sum()) < 3:
        return None
    xi, information = _step(value, jacobian, weight)
    if not bool(torch.linalg.eigvalsh(_unit_diagonal(information))[0] > 1e-9):
        return None
    return xi, float(xi @ information @ xi) ** 0.5


def _step(value: Tensor, jacobian: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The Gauss-Newton step ``xi`` and the information it rests on."""
    weighted = (jacobian * weight[..., None, None]).flatten(-3, -2)  # (*, 4n, 6)
    both = torch.cat([jacobian, value[..., None]], -1).flatten(-3, -2)
    information, gradient = (weighted.mT @ both).split([6, 1], -1)
    eye = torch.eye(6, dtype=value.dtype, device=value.device)
    damping = 1e-12 * information.diagonal(dim1=-2, dim2=-1).amax(-1).clamp_min(1)[..., None, None]
    return -torch.linalg.solve(information + damping * eye, gradient)[..., 0], information


def _information(jacobian: Tensor, weight: Tensor) -> Tensor:
    return (jacobian * weight[:, None, None]).flatten(0, 1).mT @ jacobian.flatten(0, 1)


def _finished(
    pose: Pose, fit: _Fit, pairs: ClosePairs, noise: NoiseModel, estimated: bool, settled: bool
) -> Refinement:
    """What the fit at the final pose says of it."""
    # Of the information, rival matches have taken their part.
    covariance = _inverse(_information(fit.jacobian, fit.alone * fit.weight.sqrt()))
    if estimated:
        # Six parameters were fitted to the residuals that the noise was read from. A line counts once, though it has
        # four residuals: what makes one of them large makes the others large, too.
        lines = float(fit.weight.sum())
        covariance = covariance * (lines / max(lines - 6, 1))
    right = pairs.mutual_best(fit.weight) & (fit.weight > _PROBABLE)
    return Refinement(pose, covariance, pairs.rows[right], noise, settled)


def _inverse(information: Tensor) -> Tensor:
    covariance = torch.linalg.inv(information)
    return (covariance + covariance.mT) / 2


def _rough_noise(model: NoiseModel, fit: _Fit, floor: float) -> NoiseModel:
    """The noise that most residuals show, though not much less than thought: the pose has to follow.

    In a drawing most lines are exactly parallel, the wrong pairs too; their residuals say nothing of the pose.
    """
    sure = fit.weight > 0.5
    found = robust_noise(model, fit.residuals[sure if int(sure.sum()) >= 3 else fit.weight > 0], floor)
    least = model.position / _SHRINKS, model.direction / _SHRINKS
    return replace(found, position=max(found.position, least[0]), direction=max(found.direction, least[1]))


def _fine_noise(model: NoiseModel, fit: _Fit, pairs: ClosePairs, floor: float) -> NoiseModel:
    """The noise that residuals show on average, mostly those of pairs without rivals."""
    trust = fit.weight / (1 + pairs.rivals).square()
    return fitted_noise(model, fit.residuals, fit.source, fit.target, fit.slack, trust, floor)


def _initial_noise(tolerance: Tolerance) -> NoiseModel:
    return NoiseModel(tolerance.position / 4, tolerance.angle / 4)


def _unit_diagonal(matrix: Tensor) -> Tensor:
    scale = matrix.diagonal().clamp_min(1e-300).rsqrt()
    return matrix * scale[:, None] * scale[None, :]
