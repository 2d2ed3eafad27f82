"""All hypotheses of all edges as arrays, each in both directions, so that cycles are composed in batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.merging import sim3
from plueckernet.merging.edges import MapEdge
from plueckernet.settings import check_fraction, check_positive

# 99.9 % quantiles of chi-square with six and seven degrees of freedom.
_CHI_SQUARE = {6: 22.458, 7: 24.322}


@dataclass(frozen=True)
class AgreementSettings:
    """When two ways from one map to another agree."""

    sigma_factor: float = 2.0  # registrations are this much less accurate than their covariance says
    floor_angle: float = 0.25  # degrees; what the covariance does not cover: drift within a map
    floor_distance: float = 0.5  # the same, in inlier thresholds
    floor_scale: float = 0.005  # the same, of the logarithm of the scale
    chance: float = 0.01  # least probability that a wrong edge closes a cycle: buildings are regular
    rotation_chance: float = 0.1  # the same of its rotation alone

    def __post_init__(self) -> None:
        check_positive(self, "sigma_factor", "floor_angle", "floor_distance", "floor_scale")
        check_fraction(self, "chance", "rotation_chance")


@dataclass(frozen=True, eq=False)
class HypothesisTable:
    """Hypotheses of all edges; ``edge`` tells to which each belongs, ``rigid`` whether the scale is fixed."""

    edge: Int[Tensor, " h"]  # row of the edge
    source: Int[Tensor, " h"]
    target: Int[Tensor, " h"]
    target_T_source: Float[Tensor, "h 4 4"]
    covariance: Float[Tensor, "h 7 7"]  # with the floor, in the target frame
    confidence: Float[Tensor, " h"]
    radius: float  # median radius of the maps
    settings: AgreementSettings
    rigid: bool

    @classmethod
    def of(
        cls, edges: Sequence[MapEdge], radius: float, rigid: bool, settings: AgreementSettings = AgreementSettings()
    ) -> HypothesisTable:
        """The hypotheses of these edges."""
        rows = [(row, edge, hypothesis) for row, edge in enumerate(edges) for hypothesis in edge.hypotheses]
        eye = torch.zeros(0, 4, 4, dtype=torch.float64)
        return HypothesisTable(
            torch.tensor([row for row, _, _ in rows], dtype=torch.long),
            torch.tensor([edge.source for _, edge, _ in rows], dtype=torch.long),
            torch.tensor([edge.target for _, edge, _ in rows], dtype=torch.long),
            torch.stack([hypothesis.target_T_source for _, _, hypothesis in rows]) if rows else eye,
            torch.stack([_with_floor(hypothesis.covariance, edge, settings, rigid) for _, edge, hypothesis in rows])
            if rows
            else torch.zeros(0, 7, 7, dtype=torch.float64),
            torch.tensor([hypothesis.confidence for _, _, hypothesis in rows], dtype=torch.float64),
            radius,
            settings,
            rigid,
        )

    def __len__(self) -> int:
        return len(self.edge)

    @property
    def degrees_of_freedom(self) -> int:
        """Of a relative pose."""
        return 6 if self.rigid else 7

    @property
    def max_square(self) -> float:
        """Largest squared Mahalanobis distance at which two poses agree."""
        return _CHI_SQUARE[self.degrees_of_freedom]

    @cached_property
    def ends(self) -> list[tuple[int, int]]:
        """Source and target of each hypothesis."""
        return list(zip(self.source.tolist(), self.target.tolist(), strict=True))

    def directed(
        self, rows: Int[Tensor, " k"], source: Int[Tensor, " k"]
    ) -> tuple[Float[Tensor, "k 4 4"], Float[Tensor, "k 7 7"]]:
        """Poses and covariances of hypotheses, turned where needed so that they start at ``source``."""
        poses, covariances = self.target_T_source[rows], self.covariance[rows]
        turned = self.source[rows] != source
        if not bool(turned.any()):
            return poses, covariances
        back = sim3.inverse(poses[turned])
        poses, covariances = poses.clone(), covariances.clone()
        covariances[turned] = sim3.moved_covariance(back, covariances[turned])
        poses[turned] = back
        return poses, covariances

    def square_distance(
        self, residual: Float[Tensor, "k 7"], covariance: Float[Tensor, "k 7 7"]
    ) -> Float[Tensor, " k"]:
        """Squared Mahalanobis distance."""
        free = self.degrees_of_freedom
        value, spread = residual[:, :free], covariance[:, :free, :free]
        return (value * torch.linalg.solve(spread, value[..., None])[..., 0]).sum(-1)

    def chance(self, covariance: Float[Tensor, "k 7 7"]) -> Float[Tensor, " k"]:
        """The probability that wrong poses agree: large where the covariance is.

        Wrong poses of buildings put walls on walls, so their rotations are few.
        """
        turn = _covered(covariance[:, :3, :3], 1.0).clamp_min(self.settings.rotation_chance)
        shift = _covered(covariance[:, 3:6, 3:6], self.radius)
        return (turn * shift).clamp_min(self.settings.chance)


def _covered(covariance: Float[Tensor, "k 3 3"], extent: float) -> Float[Tensor, " k"]:
    """The fraction of a cube of that extent that is within three sigma."""
    sigma = torch.linalg.eigvalsh(covariance).clamp_min(0).sqrt()
    return (6 * sigma / extent).clamp_max(1).prod(-1)


def _with_floor(
    covariance: Float[Tensor, "7 7"], edge: MapEdge, settings: AgreementSettings, rigid: bool
) -> Float[Tensor, "7 7"]:
    distance = settings.floor_distance * max(edge.inlier_distance, 1e-9)
    floor = [math.radians(settings.floor_angle)] * 3 + [distance] * 3 + [0.0 if rigid else settings.floor_scale]
    return settings.sigma_factor**2 * covariance + covariance.new_tensor(floor).square().diag()
