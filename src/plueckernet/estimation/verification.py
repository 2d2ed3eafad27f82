r"""Whether a pose explains two whole maps, and not only a list of matches.

Every line ``i`` of either map counts by how well its best partner fits, ``e_i = max_j max(0, 1 - r_ij^2)``. Maps of one
place that cover different parts of it leave three things to mind:

* A line that comes to lie where the other map has nothing says nothing; one that comes to lie among lines of the
  other map and finds no partner speaks against the pose. Else the pose wins that lays most lines on most others.
* Lines of a bundle, such as a blind or a flight of steps, find partners by chance, all at once. So lines that lie
  within a few tolerances of one another count as one.
* Hypotheses are many. All are tried on a few lines, the best of them on all.

With ``w_i`` one over the size of the bundle, scaled to a mean of one, and ``c_i`` the part of the line that lies where
the other map has lines, ``E = sum w_i e_i`` lines are explained of ``C = sum w_i max(c_i, e_i)`` that should be, both
averaged over the two maps. The score is the number of lines explained times the share of those that should be,
``E^2 / (C + k)``; ``k`` keeps a few lines that meet by chance at the rim of both maps from winning. Infinite lines lie
everywhere and nowhere: for them the score is ``E`` with ``w_i = 1``.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from plueckernet.estimation.scoring import BLOCK, AnchoredLines, Tolerance, pair_residuals
from plueckernet.geometry.pose import Pose

_BEYOND = 10.0  # lines, the ``k`` above
_BUNDLE = 3.0  # position tolerances within which parallel lines are one bundle
_CELL = 0.15  # of the grid that tells where a map has lines, in its unit
_CELLS = 64  # along each axis; what lies beyond is taken to lie at the border
_FEW = 64  # lines on which all hypotheses are tried


class MapScorer:
    """Scores poses on all lines of two maps that are centred and of radius about one."""

    def __init__(self, source: AnchoredLines, target: AnchoredLines, tolerance: Tolerance) -> None:
        self._source, self._target = source.to(torch.float32), target.to(torch.float32)
        self._tolerance = tolerance
        self._weights = [_weights(lines, tolerance) for lines in (self._source, self._target)]
        infinite = source.reach is None or target.reach is None
        self._occupied = None if infinite else (_occupied(self._source), _occupied(self._target))

    def scores(self, poses: Pose) -> Float[Tensor, " h"]:
        """Lines that each pose explains, times the share of the lines it should explain."""
        explained, expected = self.explained(poses)
        return explained if self._occupied is None else explained.square() / (expected + _BEYOND)

    def explained(self, poses: Pose) -> tuple[Float[Tensor, " h"], Float[Tensor, " h"]]:
        """How many lines each pose explains, and how many it should: ``E`` and ``C`` above.

        Of infinite lines, a pose should explain all of the smaller map.
        """
        poses = poses.to(torch.float32)
        misfits = (self._misfit(part, self._source) for part in self._parts(poses, len(self._source)))
        best = [(misfit.amin(2), misfit.amin(1)) for misfit in misfits]
        one, two = ((1 - torch.cat(sides)).clamp_min_(0) for sides in zip(*best, strict=True))
        explained = (one @ self._weights[0] + two @ self._weights[1]) / 2
        if self._occupied is None:
            return explained, torch.full_like(explained, min(len(self._source), len(self._target)))
        forth = torch.maximum(_covered(poses, self._source, self._occupied[1]), one) @ self._weights[0]
        back = torch.maximum(_covered(poses.inverse(), self._target, self._occupied[0]), two) @ self._weights[1]
        return explained, (forth + back) / 2

    def promising(self, poses: Pose, most: int) -> Pose:
        """Of many poses the best by the same score of a few lines of the source, spread over it."""
        if poses.rotation.shape[0] <= most:
            return poses
        count = len(self._source)
        rows = torch.arange(min(_FEW, count), device=self._source.anchor.device) * count // min(_FEW, count)
        few, weight, single = self._source[rows], self._weights[0][rows], poses.to(torch.float32)
        misfits = (self._misfit(part, few) for part in self._parts(single, len(few)))
        fit = torch.cat([(1 - misfit.amin(2)).clamp_min_(0) for misfit in misfits])
        scores = fit @ weight
        if self._occupied is not None:
            covered = torch.maximum(_covered(single, few, self._occupied[1]), fit) @ weight
            scores = scores.square() / (covered + _BEYOND * len(few) / count)
        return poses[scores.topk(most).indices.sort().values]

    def _parts(self, poses: Pose, rows: int) -> list[Pose]:
        size = max(1, 4 * BLOCK // max(1, rows * len(self._target)))
        return [poses[start : start + size] for start in range(0, max(1, poses.rotation.shape[0]), size)]

    def _misfit(self, poses: Pose, source: AnchoredLines) -> Float[Tensor, "h m n"]:
        return pair_residuals(poses, source, self._target, self._tolerance)


def _weights(lines: AnchoredLines, tolerance: Tolerance) -> Float[Tensor, " n"]:
    """One over the number of lines in the bundle of each, scaled to a mean of one."""
    if lines.reach is None:
        return torch.ones_like(lines.anchor[:, 0])
    wide = Tolerance(_BUNDLE * tolerance.position, tolerance.angle)
    still = Pose.identity(1, dtype=torch.float32, device=str(lines.anchor.device))
    blocks = torch.arange(len(lines), device=lines.anchor.device).split(max(1, 4 * BLOCK // len(lines)))
    sizes = torch.cat([(pair_residuals(still, lines[rows], lines, wide)[0] < 1).sum(1) for rows in blocks])
    weight = 1 / sizes.clamp_min(1)
    return weight / weight.mean()


def _occupied(lines: AnchoredLines) -> Bool[Tensor, " cells"]:
    """The cells of a grid about the origin in which there are lines, or beside which."""
    reach = _reach(lines)
    count = (2 * reach / _CELL).ceil().long().clamp(1, 2 * _CELLS)
    row = torch.arange(len(lines), device=count.device).repeat_interleave(count)
    place = torch.arange(len(row), device=count.device) - (count.cumsum(0) - count)[row]
    along = ((place + 0.5) / count[row] * 2 - 1) * reach[row]
    grid = torch.zeros(_CELLS**3, dtype=torch.bool, device=count.device)
    grid[_cell(lines.anchor[row] + along[:, None] * lines.lines.direction[row])] = True
    grid = grid.view(_CELLS, _CELLS, _CELLS)
    for axis in range(3):
        before, beyond = grid.narrow(axis, 0, _CELLS - 1), grid.narrow(axis, 1, _CELLS - 1)
        wide = grid.clone()
        wide.narrow(axis, 1, _CELLS - 1).logical_or_(before)
        wide.narrow(axis, 0, _CELLS - 1).logical_or_(beyond)
        grid = wide
    return grid.flatten()


def _cell(points: Float[Tensor, "*n 3"]) -> Tensor:
    x, y, z = (points / _CELL + _CELLS / 2).long().clamp_(0, _CELLS - 1).unbind(-1)
    return (x * _CELLS + y) * _CELLS + z


def _covered(poses: Pose, lines: AnchoredLines, occupied: Bool[Tensor, " cells"]) -> Float[Tensor, "h m"]:
    """The part of each line that comes to lie where the other map has lines, by three points of it."""
    middle = poses.act(lines.anchor)  # (h, m, 3)
    arm = (lines.lines.direction * _reach(lines)[:, None] / 2) @ poses.rotation.mT
    inside = [occupied[_cell(point)].float() for point in (middle - arm, middle, middle + arm)]
    return (inside[0] + inside[1] + inside[2]) / 3


def _reach(lines: AnchoredLines) -> Float[Tensor, " n"]:
    return lines.lines.lengths() / 2 if lines.reach is None else lines.reach
