"""The most likely pose given all lines of both maps, and how far off it may be.

Under the current pose every close pair of lines is a match with some probability, by its residual and by the rivals
that want the same lines. The pose takes Gauss-Newton steps on the whitened residuals of
:mod:`plueckernet.geometry.residuals` so weighted, and the noise is read off the residuals, until nothing moves. The
covariance is the inverse of the information gathered, in which rivals count less than their weights add up to: half
of each of two lines says less about the pose than one sure match. How much less was chosen so that errors agree with
covariances on synthetic maps (``benchmarks``: normalised squared error).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.noise import fitted_noise, robust_noise
from plueckernet.estimation.scoring import AnchoredLines, RowScorer, Tolerance, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel, Residuals, line_residuals, whitened

_GATE = 18.47  # chi-square of four degrees of freedom, 99.9 %
_PROBABLE = 0.2  # from which a match is reported
_LOST = 1.3  # variance that estimated noise lacks: right matches far off are lost to rivals (measured, see benchmarks)
_BEYOND = 1.5  # tolerances in which matches are looked for once the noise is known: some right ones are off by more
_PEAK = _GATE**2 / 8  # density of a right match at its centre over that of a wrong one, uniform within the gate
_SHRINKS = 6.0  # times at most that the noise falls from one step to the next
_STILL = 0.2  # standard deviations of the pose below which a step does not change what is close
_LONG = math.sqrt(2)  # length of a long line, in radii of the map
_COARSE = 1e-3  # tolerance of position above which single precision tells near from far
_BLOCK = 250_000  # entries of a residual matrix, small enough for a processor's cache


@dataclass(frozen=True)
class RefinementSettings:
    """When to stop, and what not to believe."""

    iterations: int = 20
    converged: float = 0.03  # last change of the pose, in its own standard deviations
    noise_floor: float = 1e-7  # map units and radians: data are never better than that
    short_lines: bool = False  # look as far as the ends of short segments err; of a map's longest there is no need


@dataclass(frozen=True, eq=False)
class Refinement:
    """A refined pose with everything it was made of."""

    pose: Pose
    covariance: Float[Tensor, "6 6"]  # of xi = (omega, tau) in exp(xi) @ pose
    matches: Int[Tensor, "k 2"]  # (source, target) rows that are inliers
    chi_square: Float[Tensor, " k"]  # of each match, four degrees of freedom
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

    Without ``noise`` it is estimated along the way, from a third of the tolerance down. None when fewer than
    three lines support the pose or they leave it undetermined.
    """
    model = noise or _initial_noise(tolerance)
    reach, trusted, settled = tolerance, noise is not None, False
    single = source.to(torch.float32), target.to(torch.float32)
    shortest = short_length(source, target) if settings.short_lines else _LONG
    rows, moved = source.anchor.new_zeros(0, 2).long(), True
    for _ in range(settings.iterations):
        if moved:
            rows = _close_pairs(pose, *(single if reach.position > _COARSE else (source, target)), reach)
        trial = _fit(pose, source, target, rows, model)
        if trial is None:
            return None
        fit, pose = trial, trial.pose
        if noise is None:
            model = _noise(model, fit, trusted, settings.noise_floor)
        before, reach = reach, search_tolerance(model, tolerance, shortest)
        same_reach = 0.95 < reach.position / before.position < 1.05
        settled = fit.step < settings.converged and same_reach
        moved = fit.step > _STILL or not same_reach
        if settled and trusted:
            break
        trusted = trusted or settled  # once medians have settled, the matches are good enough for mean squares
    return _finished(fit, rows, source, target, model, noise is None, settled)


def refine_matches(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, noise: NoiseModel, iterations: int = 20
) -> Refinement | None:
    """Maximum likelihood on given row matches with known noise; wrong matches are gated out."""
    rows = torch.arange(len(source), device=pose.translation.device)[:, None].expand(-1, 2)
    for _ in range(iterations):
        trial = _fit(pose, source, target, rows, noise)
        if trial is None:
            return None
        fit, pose = trial, trial.pose
        if fit.step < 1e-6:
            break
    return _finished(fit, rows, source, target, noise, False, fit.step < 1e-6)


def close_pairs(pose: Pose, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance) -> Int[Tensor, "k 2"]:
    """All pairs of lines within tolerance of each other under the pose."""
    single = torch.float32 if tolerance.position > _COARSE else torch.float64
    return _close_pairs(pose, source.to(single), target.to(single), tolerance)


def _close_pairs(pose: Pose, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance) -> Int[Tensor, "k 2"]:
    one = Pose(pose.rotation[None], pose.translation[None]).to(source.anchor.dtype)
    if len(source) * len(target) <= _BLOCK:
        return (pair_residuals(one, source, target, tolerance)[0] < 1).nonzero()
    pairs = [source.anchor.new_zeros(0, 2).long()]
    for rows, columns in _blocks(pose, source, target, tolerance):
        block = pair_residuals(one, source[rows], target[columns], tolerance)[0]
        near = (block < 1).nonzero()
        pairs.append(torch.stack([rows[near[:, 0]], columns[near[:, 1]]], -1))
    return torch.cat(pairs)


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


def search_tolerance(noise: NoiseModel, most: Tolerance, shortest: float = _LONG) -> Tolerance:
    """Where to look for matches: four sigma of the difference of two lines, and not far beyond the start.

    The ends of a short line tell its direction less well: ``shortest`` is the length from which on lines are found.
    """
    direction = math.hypot(noise.direction, math.sqrt(2) * noise.endpoint / shortest)
    position = min(4 * math.sqrt(2) * noise.position, _BEYOND * most.position)
    angle = min(5 * math.sqrt(2) * direction, _BEYOND * most.angle)
    return Tolerance(position, angle, most.directed, slope=min(4 * direction, most.angle))


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
        xi, _ = _step(*whitened(residuals, *sigma), inlier.to(poses.rotation.dtype))
        poses = Pose.exp(xi) @ poses
    return poses


@dataclass(frozen=True, eq=False)
class _Fit:
    pose: Pose
    source: AnchoredLines  # (k,)
    target: AnchoredLines  # (k,)
    jacobian: Tensor  # (k, 4, 6), whitened
    weight: Tensor  # (k,) probability of each match to be right
    alone: Tensor  # (k,) probability that none of its rivals is
    chi_square: Tensor  # (k,)
    residuals: Residuals  # before the step
    step: float  # how far the pose went, in its standard deviations


def _fit(pose: Pose, source: AnchoredLines, target: AnchoredLines, rows: Tensor, noise: NoiseModel) -> _Fit | None:
    """One Gauss-Newton step on the pairs by how probable they are; None where they do not fix the pose."""
    if len(rows) < 3:
        return None
    counts = len(source), len(target)
    source, target = source[rows[:, 0]], target[rows[:, 1]]
    residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
    value, jacobian = whitened(residuals, noise.sigmas(source.lines), noise.sigmas(target.lines))
    chi_square = value.square().sum(-1)
    weight, alone = _responsibility(chi_square, rows, counts)
    if float(weight.sum()) < 3:
        return None
    xi, information = _step(value, jacobian, weight)
    spectrum = torch.linalg.eigvalsh(_unit_diagonal(information))
    if not bool(spectrum[0] > 1e-9):
        return None
    length = float(xi @ information @ xi) ** 0.5
    return _Fit(Pose.exp(xi) @ pose, source, target, jacobian, weight, alone, chi_square, residuals, length)


def _responsibility(
    chi_square: Float[Tensor, " k"], rows: Int[Tensor, "k 2"], counts: tuple[int, int], iterations: int = 6
) -> tuple[Tensor, Tensor]:
    """How probable it is that a pair is a match, and that none of its rivals is the match instead.

    A right match is normally distributed, a wrong one uniformly within the gate, and a line has at most one match.
    Lines that compete tell each other how likely they are to be taken elsewhere (belief propagation on matchings, exact
    where rivals form no loops); the share of right ones is found on the way (expectation maximisation).
    """
    density = torch.where(chi_square < _GATE, _PEAK * (-chi_square / 2).exp(), 0.0)
    (first, second), (m, n) = rows.unbind(-1), counts
    reached = [density.new_zeros(m).index_add_(0, first, density), density.new_zeros(n).index_add_(0, second, density)]
    most_matches = float(min((total > 0).sum() for total in reached))
    share, back = 0.7, density.new_tensor(math.sqrt(0.7 / 0.3))
    for _ in range(iterations):
        alone = math.sqrt((1 - share) / share)  # how much speaks for a line to have no match
        forth = 1 / (_others(density * back, first, m) + alone)
        back = 1 / (_others(density * forth, second, n) + alone)
        odds = density * forth * back
        weight = odds / (1 + odds)
        share = min(max(float(weight.sum()) / max(most_matches, 1), 0.05), 0.999)
    rivals = reached[0][first] + reached[1][second] - density
    return weight, density / rivals.clamp_min(1e-300)


def _others(value: Float[Tensor, " k"], index: Int[Tensor, " k"], count: int) -> Float[Tensor, " k"]:
    """What all other pairs of the same line add up to."""
    return (value.new_zeros(count).index_add_(0, index, value)[index] - value).clamp_min_(0)


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
    fit: _Fit,
    rows: Tensor,
    source: AnchoredLines,
    target: AnchoredLines,
    noise: NoiseModel,
    estimated: bool,
    settled: bool,
) -> Refinement | None:
    """Evaluate once more at the final pose, so that residuals, inliers and covariance belong together."""
    last = _fit(fit.pose, source, target, rows, noise)
    if last is None:
        return None
    # Of the information, rival matches have taken their part.
    sure = _information(last.jacobian, last.alone * last.weight.sqrt())
    covariance = torch.linalg.inv(sure)
    if estimated:  # six parameters were fitted to the residuals that the noise was read from
        degrees = 4 * float(last.weight.sum())
        covariance = covariance * (_LOST * degrees / max(degrees - 6, 1))
    covariance = (covariance + covariance.mT) / 2
    right = mutual_best(last.weight, rows) & (last.weight > _PROBABLE)
    return Refinement(fit.pose, covariance, rows[right], last.chi_square[right], noise, settled)


def mutual_best(weight: Float[Tensor, " k"], rows: Int[Tensor, "k 2"]) -> Bool[Tensor, " k"]:
    """Pairs that are the most probable for both of their lines."""
    best = torch.ones_like(weight, dtype=torch.bool)
    for column in rows.unbind(-1):
        values, index = column.unique(return_inverse=True)
        most = weight.new_zeros(len(values)).scatter_reduce(0, index, weight, "amax")
        best &= weight == most[index]
    return best


def _noise(model: NoiseModel, fit: _Fit, trusted: bool, floor: float) -> NoiseModel:
    """The noise that the residuals show, though not much less than thought: the pose has to follow.

    In a drawing most lines are exactly parallel, the wrong pairs too; their residuals say nothing of the pose.
    """
    if trusted:
        found = fitted_noise(model, fit.residuals, fit.source, fit.target, fit.weight, floor)
    else:
        found = robust_noise(model, fit.residuals[fit.weight > 0], floor)
    least = model.position / _SHRINKS, model.direction / _SHRINKS
    return replace(found, position=max(found.position, least[0]), direction=max(found.direction, least[1]))


def _initial_noise(tolerance: Tolerance) -> NoiseModel:
    return NoiseModel(tolerance.position / 4, tolerance.angle / 4)


def _unit_diagonal(matrix: Tensor) -> Tensor:
    scale = matrix.diagonal().clamp_min(1e-300).rsqrt()
    return matrix * scale[:, None] * scale[None, :]
