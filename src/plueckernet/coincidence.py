"""Which lines of two maps coincide under a pose."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.close_pairs import close_pairs
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.geometry.arrays import ArrayLike
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.pose import Pose, Similarity
from plueckernet.geometry.residuals import residual_norms
from plueckernet.geometry.similarity import Transform, motion_from_matrix
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.kernels.library import compiled
from plueckernet.kernels.pair_distances import PlacedLines, distances_and_angles

Coincidence = tuple[Int[Tensor, "k 2"], Float[Tensor, "k 2"]]
"""Rows of source and target, and for each pair the distance in map units and the angle in degrees."""


class CoincidenceFinder:
    """Finds coincident lines of two maps under any number of poses; the maps are prepared once."""

    def __init__(
        self, source: LineSet, target: LineSet, settings: RegistrationSettings = RegistrationSettings()
    ) -> None:
        self._maps = settings.normalize(source, target)

    @property
    def inlier_distance(self) -> float:
        """The inlier threshold of the distance, in map units."""
        return self._maps.threshold.distance * self._maps.unit

    def pairs(self, pose: Pose) -> Coincidence:
        """Pairs within the inlier threshold that are the best for both of their lines.

        Of several fragments of one line, the nearest is the best.
        """
        maps = self._maps
        normalized, threshold = maps.normalized_pose(pose), maps.threshold
        pairs = close_pairs(normalized, maps.all_source, maps.all_target, threshold)
        rows = pairs.rows
        residuals = pair_distances(normalized, rows, maps)
        scale = residuals.new_tensor([threshold.distance * maps.unit, math.degrees(threshold.angle)])
        gap = (normalized.act(maps.all_source.anchor[rows[:, 0]]) - maps.all_target.anchor[rows[:, 1]]).norm(dim=-1)
        misfit = (residuals / scale).square().sum(-1) + 1e-3 * gap
        best = torch.from_numpy(pairs.mutual_best((-misfit).exp().cpu().numpy())).to(rows.device)
        return rows[best], residuals[best]


def coincident_lines(
    source: LinesLike,
    target: LinesLike,
    pose: Transform | ArrayLike,
    *,
    settings: RegistrationSettings = RegistrationSettings(),
) -> Coincidence:
    """Pairs of lines that coincide under a pose, see :meth:`CoincidenceFinder.pairs`.

    Maps and pose are given as in :func:`plueckernet.refine`. Distances are in the unit of the target.
    """
    motion = pose if isinstance(pose, Pose | Similarity) else motion_from_matrix(pose).to(torch.float64)
    lines = as_lines(source)
    if isinstance(motion, Similarity):
        lines, motion = Similarity.from_pose(Pose.identity(), float(motion.scale)) @ lines, motion.pose
    return CoincidenceFinder(lines, as_lines(target), settings).pairs(motion)


def suggested_inlier_distance(source: LineSet, target: LineSet) -> float:
    """The inlier threshold of the distance that is derived from two maps, in their unit."""
    return CoincidenceFinder(source, target).inlier_distance


def pair_distances(pose: Pose, rows: Int[Tensor, "k 2"], maps: MapPair) -> Float[Tensor, "k 2"]:
    """Distance in map units and angle in degrees of pairs of lines under a normalized pose."""
    source, target = (PlacedLines(side.lines.direction, side.anchor) for side in (maps.all_source, maps.all_target))
    tensors = pose.rotation, pose.translation, *source, *target
    if compiled(*tensors, rows) and all(tensor.dtype == torch.float64 for tensor in tensors):
        return distances_and_angles((pose.rotation, pose.translation), rows, source, target, maps.unit)
    chosen = [tensor[rows[:, 0]] for tensor in source], [tensor[rows[:, 1]] for tensor in target]
    distance, sine = residual_norms(pose, *chosen[0], *chosen[1])
    return torch.stack([distance * maps.unit, sine.clamp(max=1).asin().rad2deg()], -1)
