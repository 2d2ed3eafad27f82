r"""How well a pose explains two whole maps, not only a list of matches.

Every line ``i`` of either map counts by the fit of its best partner, ``e_i = max_j max(0, 1 - r_ij^2)``. Maps of one
place that cover different parts of it need three precautions:

* A line that falls where the other map has no lines says nothing. A line that falls among lines of the other map
  without a partner speaks against the pose. Without this distinction the pose wins that overlaps the maps most.
* Lines of a bundle, such as a blind or a flight of steps, find partners by chance, all at once. Lines within a few
  inlier distances of one another therefore count as one.
* Hypotheses are many. All are scored on a few lines, and the best of them on all lines.

With ``w_i`` one over the size of the bundle, scaled to a mean of one, and ``c_i`` the fraction of the line that falls
where the other map has lines, ``E = sum w_i e_i`` lines are explained of ``C = sum w_i max(c_i, e_i)`` expected, both
averaged over the two maps. The score is the number of explained lines times the explained fraction,
``E^2 / (C + k)``. The prior ``k`` keeps a few chance agreements at the rim of both maps from winning. Infinite lines
have no extent: their score is ``E`` with ``w_i = 1``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK_ENTRIES, AnchoredLines, InlierThreshold, pair_residuals
from plueckernet.geometry.pose import Pose
from plueckernet.settings import check_at_least, check_positive

_GRID_SIZE = 64  # cells along each axis; points outside count for the border cells


@dataclass(frozen=True)
class VerificationSettings:
    """How poses are scored on whole maps."""

    score_prior: float = 10.0  # lines, the ``k`` of the score
    bundle_width: float = 3.0  # inlier distances within which parallel lines form one bundle
    cell_size: float = 0.15  # of the occupancy grid, in radii of the map
    screening_lines: int = 64  # source lines on which all hypotheses are scored first

    def __post_init__(self) -> None:
        check_positive(self, "score_prior", "bundle_width", "cell_size")
        check_at_least(self, 1, "screening_lines")


class MapScorer:
    """Scores poses on all lines of two maps that are centred and have a radius of about one."""

    def __init__(
        self,
        source: AnchoredLines,
        target: AnchoredLines,
        threshold: InlierThreshold,
        settings: VerificationSettings = VerificationSettings(),
    ) -> None:
        self._source, self._target = source.to(torch.float32), target.to(torch.float32)
        self._threshold, self._settings = threshold, settings
        bundle = InlierThreshold(settings.bundle_width * threshold.distance, threshold.angle)
        self._weights = [_weights(lines, bundle) for lines in (self._source, self._target)]
        infinite = source.half_length is None or target.half_length is None
        self._grids = None if infinite else [_Occupancy(side, settings.cell_size) for side in self._sides]

    @property
    def _sides(self) -> tuple[AnchoredLines, AnchoredLines]:
        return self._source, self._target

    def scores(self, poses: Pose) -> Float[Tensor, " h"]:
        """Number of explained lines times the explained fraction, for each pose."""
        explained, expected = self.explained(poses)
        if self._grids is None:
            return explained
        return explained.square() / (expected + self._settings.score_prior)

    def explained(self, poses: Pose) -> tuple[Float[Tensor, " h"], Float[Tensor, " h"]]:
        """How many lines each pose explains, and how many are expected: ``E`` and ``C`` above.

        Of infinite lines, all of the smaller map are expected.
        """
        poses = poses.to(torch.float32)
        misfits = (self._misfit(block, self._source) for block in self._blocks(poses, len(self._source)))
        best = [(misfit.amin(2), misfit.amin(1)) for misfit in misfits]
        source_fit, target_fit = ((1 - torch.cat(sides)).clamp_min_(0) for sides in zip(*best, strict=True))
        explained = (source_fit @ self._weights[0] + target_fit @ self._weights[1]) / 2
        if self._grids is None:
            return explained, torch.full_like(explained, min(len(self._source), len(self._target)))
        forth = torch.maximum(self._grids[1].coverage(poses, self._source), source_fit) @ self._weights[0]
        back = torch.maximum(self._grids[0].coverage(poses.inverse(), self._target), target_fit) @ self._weights[1]
        return explained, (forth + back) / 2

    def screened(self, poses: Pose, count: int) -> Pose:
        """The best ``count`` of many poses by the same score on a few source lines, spread evenly."""
        if poses.rotation.shape[0] <= count:
            return poses
        total = len(self._source)
        sample = min(self._settings.screening_lines, total)
        rows = torch.arange(sample, device=self._source.anchor.device) * total // sample
        lines, weight, single = self._source[rows], self._weights[0][rows], poses.to(torch.float32)
        misfits = (self._misfit(block, lines) for block in self._blocks(single, len(lines)))
        fit = torch.cat([(1 - misfit.amin(2)).clamp_min_(0) for misfit in misfits])
        scores = fit @ weight
        if self._grids is not None:
            expected = torch.maximum(self._grids[1].coverage(single, lines), fit) @ weight
            scores = scores.square() / (expected + self._settings.score_prior * len(lines) / total)
        return poses[scores.topk(count).indices.sort().values]

    def _blocks(self, poses: Pose, rows: int) -> list[Pose]:
        size = max(1, 4 * BLOCK_ENTRIES // max(1, rows * len(self._target)))
        return [poses[start : start + size] for start in range(0, max(1, poses.rotation.shape[0]), size)]

    def _misfit(self, poses: Pose, source: AnchoredLines) -> Float[Tensor, "h m n"]:
        return pair_residuals(poses, source, self._target, self._threshold)


def _weights(lines: AnchoredLines, bundle: InlierThreshold) -> Float[Tensor, " n"]:
    """One over the number of lines in the bundle of each line, scaled to a mean of one."""
    if lines.half_length is None:
        return torch.ones_like(lines.anchor[:, 0])
    identity = Pose.identity(1, dtype=torch.float32, device=str(lines.anchor.device))
    blocks = torch.arange(len(lines), device=lines.anchor.device).split(max(1, 4 * BLOCK_ENTRIES // len(lines)))
    sizes = torch.cat([(pair_residuals(identity, lines[rows], lines, bundle)[0] < 1).sum(1) for rows in blocks])
    weight = 1 / sizes.clamp_min(1)
    return weight / weight.mean()


class _Occupancy:
    """The cells of a grid about the origin that contain segments of a map, and the cells beside them."""

    def __init__(self, lines: AnchoredLines, cell_size: float) -> None:
        self._cell_size = cell_size
        half = _half_length(lines)
        count = (2 * half / cell_size).ceil().long().clamp(1, 2 * _GRID_SIZE)
        row = torch.arange(len(lines), device=count.device).repeat_interleave(count)
        sample = torch.arange(len(row), device=count.device) - (count.cumsum(0) - count)[row]
        along = ((sample + 0.5) / count[row] * 2 - 1) * half[row]
        grid = torch.zeros(_GRID_SIZE**3, dtype=torch.bool, device=count.device)
        grid[self._cell(lines.anchor[row] + along[:, None] * lines.lines.direction[row])] = True
        self._occupied = _dilated(grid.view(_GRID_SIZE, _GRID_SIZE, _GRID_SIZE)).flatten()

    def coverage(self, poses: Pose, lines: AnchoredLines) -> Float[Tensor, "h m"]:
        """The fraction of each moved line inside occupied cells, sampled at three points."""
        middle = poses.act(lines.anchor)  # (h, m, 3)
        arm = (lines.lines.direction * _half_length(lines)[:, None] / 2) @ poses.rotation.mT
        inside = [self._occupied[self._cell(point)].float() for point in (middle - arm, middle, middle + arm)]
        return (inside[0] + inside[1] + inside[2]) / 3

    def _cell(self, points: Float[Tensor, "*n 3"]) -> Tensor:
        index = (points / self._cell_size + _GRID_SIZE / 2).long()
        x, y, z = index.clamp_(0, _GRID_SIZE - 1).unbind(-1)
        return (x * _GRID_SIZE + y) * _GRID_SIZE + z


def _dilated(grid: Bool[Tensor, "x y z"]) -> Bool[Tensor, "x y z"]:
    """The grid with the neighbours of each occupied cell."""
    for axis in range(3):
        lower, upper = grid.narrow(axis, 0, _GRID_SIZE - 1), grid.narrow(axis, 1, _GRID_SIZE - 1)
        wide = grid.clone()
        wide.narrow(axis, 1, _GRID_SIZE - 1).logical_or_(lower)
        wide.narrow(axis, 0, _GRID_SIZE - 1).logical_or_(upper)
        grid = wide
    return grid


def _half_length(lines: AnchoredLines) -> Float[Tensor, " n"]:
    return lines.lines.lengths() / 2 if lines.half_length is None else lines.half_length
