"""Scores of many poses on the matches of many pairs of maps: ``RowScorer`` of ``scoring``, batched."""

from __future__ import annotations

from copy import copy

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.batched.lines import PaddedLines, max_entries, of_pairs
from plueckernet.estimation.batched.matching import BatchedMatches
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.geometry.pose import Pose


class BatchedRowScorer:
    """Scores poses on the matches of each pair of maps; forms are those of ``RowScorer``."""

    def __init__(self, maps: BatchedMaps, matches: BatchedMatches) -> None:
        self.source, self.target = (
            side.rows(rows, matches.mask)
            for side, rows in zip(maps.sides, (matches.source, matches.target), strict=True)
        )
        self.maps, self.matches = maps, matches
        self._forms = _forms(self.source, self.target, maps.distance, maps.angle)  # (b, 17, 3 k)

    def fit(self, poses: Pose) -> Float[Tensor, "b h k"]:
        """``1 - r^2`` for squared residuals ``r^2`` in thresholds; positive for inliers."""
        value, along, cosine = (_pose_entries(poses.to(torch.float32)) @ self._forms).chunk(3, -1)
        return value.addcmul_(along, along).addcmul_(cosine, cosine)

    def scores(self, poses: Pose) -> Float[Tensor, "b h"]:
        """Weighted number of matches that each pose explains."""
        weight = self.matches.probability.float()[..., None]  # zero for padding
        size = max(1, max_entries(weight.device) // (len(weight) * self._forms.shape[-1]))
        blocks = (
            Pose(*block) for block in zip(*(t.split(size, 1) for t in (poses.rotation, poses.translation)), strict=True)
        )
        return torch.cat([(self.fit(block).relu_() @ weight)[..., 0] for block in blocks], 1)

    def of_pairs(self, rows: Int[Tensor, " r"]) -> BatchedRowScorer:
        """Scores poses on the matches of some pairs of maps, each as often as it is asked for."""
        scorer = copy(self)
        scorer.matches, scorer._forms = of_pairs(self.matches, rows), self._forms[rows]
        return scorer


def _forms(
    source: PaddedLines, target: PaddedLines, distance: Float[Tensor, " b"], angle: float
) -> Float[Tensor, "b 17 forms"]:
    d, f, q, e = source.direction, source.lines.footpoints(), target.anchor, target.direction
    unit, count = 1 / distance[:, None, None], d.shape[1]
    left, right = torch.cat([q, q, e], 1), torch.cat([2 * unit**2 * f, unit * d, d / angle], 1)
    rest = left.new_zeros(len(left), 3 * count, 8)  # of R^T t, t, |t|^2 and 1
    rest[:, :count, :3], rest[:, :count, 3:6], rest[:, :count, 6] = (
        -right[:, :count],
        2 * unit**2 * q,
        -(unit[..., 0] ** 2),
    )
    squares = (q.square() + f.square()).sum(-1)
    rest[:, :count, 7] = (1 - angle**-2) - unit[..., 0] ** 2 * squares
    rest[:, count : 2 * count, :3] = -right[:, count : 2 * count]
    outer = (left[..., :, None] * right[..., None, :]).flatten(2)
    return torch.cat([outer, rest], -1).mT.float().contiguous()


def _pose_entries(poses: Pose) -> Float[Tensor, "b h 17"]:
    """The entries of R row by row, R^T t, t, |t|^2, 1."""
    t = poses.translation
    local, square = (t[..., None, :] @ poses.rotation)[..., 0, :], t.square().sum(-1, keepdim=True)
    return torch.cat([poses.rotation.flatten(-2), local, t, square, torch.ones_like(square)], -1)
