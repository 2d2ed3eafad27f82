"""The most likely pose given all lines of both maps, and how far off it may be.

Lines are matched anew under the current pose, the pose takes Gauss-Newton steps on the whitened residuals of
:mod:`plueckernet.geometry.residuals` (a quadratic truncated at ``gate``), and the noise is read off the residuals,
until nothing moves. The covariance is the inverse of the information gathered.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.scoring import AnchoredLines, RowScorer, Tolerance, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel, Residuals, line_residuals, whitened

_GATE = 18.47  # chi-square of four degrees of freedom, 99.9 %
_RAYLEIGH_MEDIAN = math.sqrt(2 * math.log(2))  # of the norm of two unit normals
_BLOCK = 250_000  # entries of a residual matrix, small enough for a processor's cache


@dataclass(frozen=True)
class RefinementSettings:
    """When to stop, and what not to believe."""

    iterations: int = 20
    converged: float = 0.01  # last change of the pose, in its own standard deviations
    noise_floor: float = 1e-7  # map units and radians: data are never better than that


@dataclass(frozen=True, eq=False)
class Refinement:
    """A refined pose with everything it was made of."""

    pose: Pose
    covariance: Float[Tensor, "6 6"]  # of xi = (omega, tau) in exp(xi) @ pose
    matches: Int[Tensor, "k 2"]  # (source, target) rows that are inliers
    chi_square: Float[Tensor, " k"]  # of each match, four degrees of freedom
    noise: NoiseModel
    lever: float  # usual distance of matched anchors along the line
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
    reach = tolerance
    for _ in range(settings.iterations):
        rows = mutual_matches(pose, source, target, reach)
        trial = _fit(pose, source[rows[:, 0]], target[rows[:, 1]], model)
        if trial is None:
            return None
        fit, pose = trial, trial.pose
        if noise is None:
            model = _estimated_noise(model, fit, settings.noise_floor)
        before, reach = reach, search_tolerance(model, fit.lever, tolerance)
        settled = fit.step < settings.converged and reach.position > 0.95 * before.position
        if settled:
            break
    return _finished(fit, rows, source, target, model, noise is None, settled)


def refine_matches(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, noise: NoiseModel, iterations: int = 20
) -> Refinement | None:
    """Maximum likelihood on given row matches with known noise; wrong matches are gated out."""
    for _ in range(iterations):
        trial = _fit(pose, source, target, noise)
        if trial is None:
            return None
        fit, pose = trial, trial.pose
        if fit.step < 1e-6:
            break
    rows = torch.arange(len(source), device=pose.translation.device)[:, None].expand(-1, 2)
    return _finished(fit, rows, source, target, noise, False, fit.step < 1e-6)


def mutual_matches(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance
) -> Int[Tensor, "k 2"]:
    """Pairs of lines that are each other's closest under the pose and within tolerance."""
    single = torch.float32 if tolerance.position > 1e-3 else torch.float64
    one = Pose(pose.rotation[None], pose.translation[None]).to(single)
    source, target = source.to(single), target.to(single)
    best = target.anchor.new_full((len(target),), torch.inf)
    back = torch.full((len(target),), -1, device=best.device)
    nearest = torch.full((len(source),), -1, device=best.device)
    for rows, columns in _blocks(pose, source, target, tolerance):
        block = pair_residuals(one, source[rows], target[columns], tolerance)[0]
        value, column = block.min(1)
        nearest[rows] = torch.where(value < 1, columns[column], -1)
        value, row = block.min(0)
        closer = value < best[columns]
        best[columns] = torch.where(closer, value, best[columns])
        back[columns] = torch.where(closer, rows[row], back[columns])
    here = (nearest >= 0).nonzero()[:, 0]
    here = here[back[nearest[here]] == here]
    return torch.stack([here, nearest[here]], -1)


def _blocks(
    pose: Pose, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance
) -> Iterator[tuple[Int[Tensor, " r"], Int[Tensor, " c"]]]:
    """Rows of the source with the target lines that any of them can meet; all pairs when lines are infinite.

    Segments are taken in slabs across the axis along which the map is longest.
    """
    count, everything = len(source), torch.arange(len(target), device=target.anchor.device)
    rows = max(1, min(count, _BLOCK // max(1, len(target))))
    if source.reach is None or target.reach is None or count * len(target) <= _BLOCK:
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


def search_tolerance(noise: NoiseModel, lever: float, most: Tolerance) -> Tolerance:
    """Where to look for matches under the noise: four sigma, the lever included, and never beyond the start."""
    position = 4 * math.hypot(math.sqrt(2) * noise.position, lever * noise.direction)
    return Tolerance(min(position, most.position), min(6 * noise.direction, most.angle), most.directed)


def polish(poses: Pose, source: AnchoredLines, target: AnchoredLines, scorer: RowScorer, steps: int = 1) -> Pose:
    """A few Gauss-Newton steps of several poses at once on row matches, each on its own inliers."""
    noise = _initial_noise(scorer.tolerance)
    sigma = noise.sigmas(source.lines), noise.sigmas(target.lines)
    for _ in range(steps):
        inlier = scorer.residuals(poses) < 1
        residuals = line_residuals(poses, source.lines, target.lines, source.anchor, target.anchor)
        xi, _ = _step(*whitened(residuals, *sigma), inlier.to(poses.rotation.dtype))
        poses = Pose.exp(xi) @ poses
    return poses


@dataclass(frozen=True, eq=False)
class _Fit:
    pose: Pose
    information: Tensor  # (6, 6)
    inlier: Tensor  # (k,)
    chi_square: Tensor  # (k,)
    residuals: Residuals  # before the step
    step: float  # how far the pose went, in its standard deviations

    @property
    def lever(self) -> float:
        """How far along the line anchors usually lie from each other."""
        return float(self.residuals.lever[self.inlier].abs().median())


def _fit(pose: Pose, source: AnchoredLines, target: AnchoredLines, noise: NoiseModel) -> _Fit | None:
    """One Gauss-Newton step on the rows that pass the gate; None where they do not fix the pose."""
    residuals = line_residuals(pose, source.lines, target.lines, source.anchor, target.anchor)
    value, jacobian = whitened(residuals, noise.sigmas(source.lines), noise.sigmas(target.lines))
    chi_square = value.square().sum(-1)
    inlier = chi_square < _GATE
    if int(inlier.sum()) < 3:
        return None
    xi, information = _step(value, jacobian, inlier.to(value.dtype))
    spectrum = torch.linalg.eigvalsh(_unit_diagonal(information))
    if not bool(spectrum[0] > 1e-9):
        return None
    length = float(xi @ information @ xi) ** 0.5
    return _Fit(Pose.exp(xi) @ pose, information, inlier, chi_square, residuals, length)


def _step(value: Tensor, jacobian: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The Gauss-Newton step ``xi`` and the information it rests on."""
    weighted = (jacobian * weight[..., None, None]).flatten(-3, -2)  # (*, 4n, 6)
    information = weighted.mT @ jacobian.flatten(-3, -2)
    gradient = weighted.mT @ value.flatten(-2)[..., None]
    eye = torch.eye(6, dtype=value.dtype, device=value.device)
    damping = 1e-12 * information.diagonal(dim1=-2, dim2=-1).amax(-1).clamp_min(1)[..., None, None]
    return -torch.linalg.solve(information + damping * eye, gradient)[..., 0], information


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
    last = _fit(fit.pose, source[rows[:, 0]], target[rows[:, 1]], noise)
    if last is None:
        return None
    covariance = torch.linalg.inv(last.information)
    if estimated:  # six parameters were fitted to the residuals that the noise was read from
        degrees = 4 * int(last.inlier.sum())
        covariance = covariance * (degrees / max(degrees - 6, 1))
    covariance = (covariance + covariance.mT) / 2
    return Refinement(fit.pose, covariance, rows[last.inlier], last.chi_square[last.inlier], noise, last.lever, settled)


def _estimated_noise(noise: NoiseModel, fit: _Fit, floor: float) -> NoiseModel:
    """Rescale position and direction noise to what the residuals show.

    Directions first, since positions also carry the direction error through the lever. Medians, since the gate
    is wide while the noise is still overestimated.
    """
    inlier, residuals = fit.inlier, fit.residuals
    turn = residuals.direction.norm(dim=-1)[inlier].median() / _RAYLEIGH_MEDIAN / math.sqrt(2)
    direction = max(float(turn), floor)
    spread = residuals.position.norm(dim=-1)[inlier]
    carried = direction**2 * residuals.lever[inlier].square()
    ratio = spread / (2 * noise.position**2 + carried).sqrt()
    position = max(float(ratio.median()) / _RAYLEIGH_MEDIAN * noise.position, floor)
    return NoiseModel(position, direction, 0.0)


def _initial_noise(tolerance: Tolerance) -> NoiseModel:
    return NoiseModel(tolerance.position / 4, tolerance.angle / 4)


def _unit_diagonal(matrix: Tensor) -> Tensor:
    scale = matrix.diagonal().clamp_min(1e-300).rsqrt()
    return matrix * scale[:, None] * scale[None, :]
