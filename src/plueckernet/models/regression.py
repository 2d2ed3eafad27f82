"""The paper's regression baseline (appendix, "Regression"): a pose from pooled features without matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.pose import quaternion_from_rotation, rotation_from_quaternion
from plueckernet.models.matcher import PlueckerConfig, PlueckerTrunk, pair_up
from plueckernet.models.mlp import MLP
from plueckernet.models.pluecker_encoder import PlueckerEncoder


class RegressedPose(NamedTuple):
    """``target_T_source`` as regressed by the network."""

    quaternion: Float[Tensor, "b 4"]  # (w, x, y, z), unit, w >= 0
    translation: Float[Tensor, "b 3"]

    def pose(self) -> Pose:
        """The rigid motion."""
        return Pose(rotation_from_quaternion(self.quaternion), self.translation)


HEAD = (256, 128, 128, 64, 64, 7)  # sizes of the layers, as the paper's MLP(256, 128, 128, 64, 64, 7)
SHORT_HEAD = HEAD[1:]  # of weights up to version 0.1: the first number was taken for the input


class PoseRegressor(nn.Module):
    """PlückerNet's line features, max-pooled over each map, through the six layers MLP(256, 128, 128, 64, 64, 7).

    Weights with another ``head`` say so on their card.
    """

    def __init__(self, config: PlueckerConfig, head: Sequence[int] = HEAD) -> None:
        super().__init__()
        self.config = config
        self.head = tuple(head)
        self.trunk = PlueckerTrunk(config)
        self.regress = MLP((2 * PlueckerEncoder.channels, *head), config.style)

    def forward(self, source: LineSet, target: LineSet) -> RegressedPose:
        """Regress ``target_T_source`` of each pair."""
        lines = pair_up(source, target)  # 2 b sets
        features = self.trunk(lines)  # (2 b, n, 128)
        if lines.mask is not None:
            features = features.masked_fill(~lines.mask[..., None], torch.finfo(features.dtype).min)
        pooled = features.amax(-2)  # (2 b, 128)
        if lines.mask is not None:
            pooled = torch.where(lines.mask.any(-1, keepdim=True), pooled, 0.0)
        joined = torch.cat(pooled.chunk(2), -1)  # (b, 256)
        numbers = self.regress(joined[:, None])[:, 0]  # (b, 7)
        quaternion = normalize(numbers[:, :4], dim=-1)
        quaternion = torch.where(quaternion[:, :1] < 0, -quaternion, quaternion)
        return RegressedPose(quaternion, numbers[:, 4:])


def regression_loss(output: RegressedPose, target_T_source: Pose) -> Float[Tensor, ""]:
    """``|t_gt - t| + |q_gt - q|``, Eq. (15), averaged over the pairs."""
    truth = quaternion_from_rotation(target_T_source.rotation).to(output.quaternion.dtype)
    translation = target_T_source.translation.to(output.translation.dtype)
    rotation_error = (truth - output.quaternion).norm(dim=-1)  # (b,)
    return ((translation - output.translation).norm(dim=-1) + rotation_error).mean()
