"""The kernel chooses the poses that PyTorch chooses."""

from __future__ import annotations

import pytest
import torch
from tests.kernels.helpers import needs_kernels

from plueckernet.estimation import distinct
from plueckernet.estimation.scoring import InlierThreshold
from plueckernet.geometry import Pose

THRESHOLD = InlierThreshold(0.1, 0.14)


@needs_kernels
@pytest.mark.parametrize(("count", "max_count"), [(0, 5), (1, 1), (700, 40), (1300, 1300)])
def test_distinct_poses_equal_those_of_pytorch(count: int, max_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(count)
    poses = Pose.exp(0.2 * torch.randn(count, 6, generator=generator, dtype=torch.float64))
    scores = torch.rand(count, generator=generator) - 0.1  # some are negative and never chosen
    rows = distinct.distinct_poses(poses, scores, THRESHOLD, max_count)
    monkeypatch.setattr(distinct, "compiled", lambda *_: False)
    assert torch.equal(rows, distinct.distinct_poses(poses, scores, THRESHOLD, max_count))
