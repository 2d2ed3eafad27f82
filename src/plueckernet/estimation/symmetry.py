r"""Motions under which a map explains itself: rotational symmetry, equal bays, window grids.

Candidates come from pairs of lines. A motion ``g`` that maps the map onto itself takes a pair of lines to a pair with
the same angle, distance and span. A few reference pairs of long lines near the centre are compared with all pairs of
the map. The references with the fewest counterparts give the candidates, in closed form for every choice of line signs.
Most candidates fail on a handful of other lines. The remaining ones are verified by holding the map against itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from plueckernet.estimation.distinct import distinct_poses
from plueckernet.estimation.gauss_newton import determined_step
from plueckernet.estimation.noise import NoiseSettings
from plueckernet.estimation.paired_lines import LineColumns, PairedLines, PoseArrays
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.estimation.symmetric_motions import (
    SymmetrySettings,
    is_identity,
    kernel_lines,
    kernel_threshold,
    surviving_motions,
)
from plueckernet.estimation.verification import MapScorer
from plueckernet.geometry.pose import Pose
from plueckernet.kernels import symmetry as kernels
from plueckernet.kernels.library import compiled

MIN_VERIFIED, MAX_VERIFIED_PAIRS = 12, 1_500_000  # candidates; pairs of lines of all of them, which limits the time
_MIN_COINCIDING_LENGTH = 0.75  # over the explained lines, both as fractions: lines may not only continue each other
PROMOTED = 0.7  # of the limits of a symmetry, that a candidate must reach before it is polished


def self_symmetries(
    lines: AnchoredLines,
    threshold: InlierThreshold,
    settings: SymmetrySettings = SymmetrySettings(),
    proposed: Pose | None = None,
    scorer: MapScorer | None = None,
) -> Pose:
    """Distinct motions ``(k,)`` under which a map explains itself, without the identity, best first.

    The map is centred and has a radius of about one. ``proposed`` are further candidates. ``scorer`` scores motions
    within the map, if there is one already.
    """
    candidates = surviving_motions(lines, threshold, settings, proposed)
    candidates = candidates[: max(MIN_VERIFIED, MAX_VERIFIED_PAIRS // len(lines) ** 2)].to(torch.float64)
    if not candidates.rotation.shape[0]:
        return candidates
    return _verified(candidates, lines, threshold, settings, scorer or MapScorer(lines, lines, threshold))


def polished_on_maps(poses: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold) -> Pose:
    """One Gauss-Newton step of each pose on the pairs of lines that are closest to each other under it."""
    if not poses.rotation.shape[0]:
        return poses
    model, sides = NoiseSettings().initial(threshold), (LineColumns.of(source), LineColumns.of(target))
    variances, steps = (model.position**2, model.direction**2), []
    for pose, rows, columns in _mutual_pairs(poses, source, target, threshold):
        lines = PairedLines(sides[0].taken(rows), sides[1].taken(columns))
        design, _ = lines.residuals(PoseArrays.of(pose)).design(variances, variances)
        step = determined_step(design, np.ones(len(rows)))
        steps.append(np.zeros(6) if step is None else step[0])
    return Pose.exp(torch.from_numpy(np.stack(steps)).to(poses.rotation)) @ poses


def _mutual_pairs(
    poses: Pose, source: AnchoredLines, target: AnchoredLines, threshold: InlierThreshold
) -> Iterator[tuple[Pose, Int[np.ndarray, " k"], Int[np.ndarray, " k"]]]:
    """Each pose with the rows of both maps that are closest to each other under it, and coincide."""
    every = [poses[index] for index in range(poses.rotation.shape[0])]
    if compiled(source.anchor, target.anchor):
        given, inlier = (kernel_lines(source), kernel_lines(target)), kernel_threshold(threshold)
        for pose in every:
            motion = kernels.Motions.of(pose.rotation[None], pose.translation[None])
            rows, columns = kernels.mutual_pairs(motion, *given, inlier)
            yield pose, rows.numpy(), columns.numpy()
        return
    first, second = source.to(torch.float32), target.to(torch.float32)
    for pose in every:
        single = Pose(pose.rotation[None], pose.translation[None]).to(torch.float32)
        square = pair_residuals(single, first, second, threshold)[0]
        best, column = square.min(1)
        mutual = square.argmin(0)[column] == torch.arange(len(source), device=column.device)
        rows = ((best < 1) & mutual).nonzero()[:, 0]
        yield pose, rows.cpu().numpy(), column[rows].cpu().numpy()


def _verified(
    candidates: Pose,
    lines: AnchoredLines,
    threshold: InlierThreshold,
    settings: SymmetrySettings,
    scorer: MapScorer,
) -> Pose:
    """The candidates that explain the map by itself, after a step towards the best agreement."""
    close = _is_symmetry(candidates, lines, threshold, scorer, settings, PROMOTED)
    poses = polished_on_maps(candidates[close], lines, lines, threshold)
    symmetric = _is_symmetry(poses, lines, threshold, scorer, settings)
    poses = poses[symmetric & ~is_identity(poses, threshold)]
    if not poses.rotation.shape[0]:
        return poses
    scores = scorer.scores(poses)
    return poses[distinct_poses(poses, scores, threshold, settings.max_symmetries)]


def _is_symmetry(
    poses: Pose,
    lines: AnchoredLines,
    threshold: InlierThreshold,
    scorer: MapScorer,
    settings: SymmetrySettings,
    ease: float = 1.0,
) -> Bool[Tensor, " h"]:
    """Whether poses reach the limits of a symmetry times ``ease``."""
    if not poses.rotation.shape[0]:
        return torch.zeros_like(poses.translation[:, 0], dtype=torch.bool)
    explanation = scorer.explained(poses)
    coinciding = explanation.lines / len(lines)
    symmetric = coinciding >= ease * settings.min_overlap
    symmetric &= explanation.lines >= ease * settings.min_explained_fraction * explanation.expected
    if lines.half_length is None or not bool(symmetric.any()):
        return symmetric
    length = _coinciding_length(poses[symmetric], lines, lines.half_length, threshold)
    long_enough = length >= _MIN_COINCIDING_LENGTH * coinciding[symmetric]
    symmetric[symmetric.clone()] = long_enough & (length >= ease * settings.min_overlap)
    return symmetric


def _coinciding_length(
    poses: Pose, lines: AnchoredLines, half: Float[Tensor, " n"], threshold: InlierThreshold
) -> Float[Tensor, " h"]:
    """The fraction of the total length that coincides with lines after the motion."""
    if compiled(lines.anchor):
        motions = kernels.Motions.of(poses.rotation, poses.translation)
        return kernels.coinciding_lengths(motions, kernel_lines(lines), kernel_threshold(threshold))
    poses, lines, half, fractions = poses.to(torch.float32), lines.to(torch.float32), half.float(), []
    longest_common = 2 * torch.minimum(half, half[:, None])
    place = (lines.anchor * lines.lines.direction).sum(-1)
    for index in range(poses.rotation.shape[0]):
        pose = poses[index : index + 1]
        along = (pose.act(lines.anchor)[0] @ lines.lines.direction.mT - place).abs_()
        common = torch.minimum(half[:, None] + half - along, longest_common).clamp_min_(0)
        common *= pair_residuals(pose, lines, lines, threshold)[0].lt_(1)
        fractions.append(torch.minimum(common.sum(1), 2 * half).sum() / (2 * half).sum())
    return torch.stack(fractions)
