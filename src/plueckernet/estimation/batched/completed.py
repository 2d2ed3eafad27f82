"""The final refinements of many pairs of maps in the frames and the unit of the maps, on the CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.estimation.batched.lines import take_rows
from plueckernet.estimation.batched.look import LookedAt
from plueckernet.estimation.batched.matching import BatchedMatches
from plueckernet.estimation.batched.preparation import BatchedMaps
from plueckernet.estimation.batched.refinement import BatchedRefinement
from plueckernet.geometry.pose import Pose, skew
from plueckernet.geometry.residuals import line_residuals


@dataclass(frozen=True, eq=False)
class CompletedPairs:
    """What results are made of; rows are those of pairs of maps."""

    poses: Pose  # (b,), target_T_source
    candidates: Pose  # (b, c), the same of all candidates, before the final refinement
    covariance: Float[Tensor, "b 6 6"]
    centre: Float[Tensor, "b 3"]  # of the inliers
    inliers: tuple[Int[Tensor, "_ 2"], ...]  # rows of lines
    residuals: tuple[Float[Tensor, "_ 2"], ...]  # of the inliers: distance in map units, angle in degrees
    noise: list[list[float]]  # position in map units, direction in degrees
    matches: Int[Tensor, "b k 2"]
    match_counts: list[int]
    inlier_distances: list[float]  # in map units

    @classmethod
    def of(
        cls, maps: BatchedMaps, looked_at: LookedAt, matches: BatchedMatches, refined: BatchedRefinement
    ) -> CompletedPairs:
        """Computed on the device and moved to the CPU at once."""
        noise = torch.stack([refined.noise.position * maps.unit, refined.noise.direction.rad2deg()], -1)
        anchor = take_rows(maps.target.anchor, refined.rows[1]) * refined.inlier[..., None]
        counts = refined.inlier.sum(-1)
        middle, split = anchor.sum(1) / counts[:, None].clamp_min(1), counts.tolist()
        return CompletedPairs(
            _on_cpu(_original(refined.poses, maps)),
            _on_cpu(_original(looked_at.poses, maps)),
            _original_covariance(refined.covariance, maps).cpu(),
            (middle * maps.unit[:, None] + maps.target_offset).cpu(),
            torch.stack(refined.rows, -1)[refined.inlier].cpu().split(split),
            _distances(refined, maps)[refined.inlier].cpu().split(split),
            noise.tolist(),
            torch.stack([matches.source, matches.target], -1).cpu(),
            matches.mask.sum(1).tolist(),
            (maps.distance * maps.unit).tolist(),
        )


def _on_cpu(poses: Pose) -> Pose:
    return poses.to("cpu")


def _original(poses: Pose, maps: BatchedMaps) -> Pose:
    """Normalized poses ``(b,)`` or ``(b, c)`` as poses between the maps as they were given."""
    extra = (1,) * (poses.translation.ndim - 2)
    offsets = [offset.view(len(maps), *extra, 3) for offset in (maps.source_offset, maps.target_offset)]
    moved = (poses.rotation @ offsets[0][..., None])[..., 0]
    return Pose(poses.rotation, offsets[1] + maps.unit.view(len(maps), *extra, 1) * poses.translation - moved)


def _original_covariance(covariance: Float[Tensor, "b 6 6"], maps: BatchedMaps) -> Float[Tensor, "b 6 6"]:
    """The covariance of the original pose: ``tau = unit tau' + offset x omega``."""
    change = torch.eye(6, dtype=covariance.dtype, device=covariance.device).repeat(len(maps), 1, 1)
    change[:, 3:, 3:] *= maps.unit[:, None, None]
    change[:, 3:, :3] = skew(maps.target_offset)
    return change @ covariance @ change.mT


def _distances(refined: BatchedRefinement, maps: BatchedMaps) -> Float[Tensor, "b p 2"]:
    """Distance in map units and angle in degrees of each close pair."""
    source, target = (side.rows(rows, refined.inlier) for side, rows in zip(maps.sides, refined.rows, strict=True))
    residuals = line_residuals(refined.poses, source.lines, target.lines, source.anchor, target.anchor)
    distance, sine = residuals.position.norm(dim=-1) * maps.unit[:, None], residuals.direction.norm(dim=-1)
    return torch.stack([distance, sine.clamp(max=1).asin() * (180 / math.pi)], -1)
