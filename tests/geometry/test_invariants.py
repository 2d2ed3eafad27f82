"""Invariants do not depend on a rigid motion or on line signs."""

import torch

from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.invariants import pairwise_invariants

FIELDS = ("cosine", "distance", "anchor_distance", "along", "span")


def random_segments(count: int = 25) -> LineSet:
    generator = torch.Generator().manual_seed(0)
    return LineSet.from_segments(torch.randn(count, 2, 3, generator=generator, dtype=torch.float64) * 4)


def test_motion_and_signs_change_nothing():
    lines = random_segments()
    pose = Pose.random(generator=torch.Generator().manual_seed(3), translation=50.0)
    other = (pose @ lines).flipped(torch.arange(25) % 2 == 0)
    a = pairwise_invariants(lines, lines.midpoints())
    b = pairwise_invariants(other, other.midpoints())
    for name in FIELDS:
        torch.testing.assert_close(getattr(a, name), getattr(b, name), atol=1e-6, rtol=1e-6)


def test_hand_made_pair():
    ends = torch.tensor([[[-1.0, 0, 0], [1, 0, 0]], [[2, -3, 5], [2, 1, 5]]], dtype=torch.float64)
    lines = LineSet.from_segments(ends)
    invariants = pairwise_invariants(lines, lines.midpoints())  # anchors (0,0,0) and (2,-1,5)
    assert invariants.cosine[0, 1].item() == 0
    assert invariants.distance[0, 1].item() == 5
    assert invariants.along[0, 1].item() == 2
    torch.testing.assert_close(invariants.anchor_distance[0, 1].item(), 26**0.5)
    torch.testing.assert_close(invariants.span[1, 0].item(), 30**0.5)


def test_distance_of_parallel_lines():
    ends = torch.tensor([[[0.0, 0, 0], [1, 0, 0]], [[7, 3, 4], [9, 3, 4]]], dtype=torch.float64)
    lines = LineSet.from_segments(ends)
    assert pairwise_invariants(lines, lines.midpoints()).distance[0, 1].item() == 5
