"""Scores are what a plain loop over lines gives, however they are computed."""

import math

import pytest
import torch

from plueckernet.estimation.partners import line_spacing
from plueckernet.estimation.scoring import (
    AnchoredLines,
    InlierThreshold,
    RowScorer,
    pair_residuals,
)
from plueckernet.geometry import LineSet, Pose


def two_maps(count: int = 7, other: int = 9) -> tuple[LineSet, LineSet, Pose]:
    generator = torch.Generator().manual_seed(0)
    ends = torch.randn(count, 2, 3, generator=generator, dtype=torch.float64)
    more = torch.randn(other, 2, 3, generator=generator, dtype=torch.float64)
    poses = Pose.random(5, generator=generator, translation=1.0)
    return LineSet.from_segments(ends), LineSet.from_segments(more), poses


def distance(point: torch.Tensor, on: torch.Tensor, direction: torch.Tensor) -> float:
    return float(torch.linalg.cross(point - on, direction).norm())


def sine(d: torch.Tensor, e: torch.Tensor) -> float:
    return float(torch.linalg.cross(d, e).norm())


@pytest.mark.parametrize("segments", [False, True])
def test_pair_residuals_are_the_definition(segments):
    first, second, poses = two_maps()
    if not segments:
        first, second = first.infinite(), second.infinite()
    source, target, threshold = AnchoredLines.of(first), AnchoredLines.of(second), InlierThreshold(0.7, 0.4)
    residuals = pair_residuals(poses, source, target, threshold)
    for h in range(5):
        moved, anchors = poses[h] @ first, poses[h].act(source.anchor)
        for i in range(7):
            for j in range(9):
                d, e = moved.direction[i], second.direction[j]
                square = (
                    distance(target.anchor[j], anchors[i], d) ** 2 + distance(anchors[i], target.anchor[j], e) ** 2
                ) / (2 * 0.7**2) + (sine(d, e) / 0.4) ** 2
                if segments:
                    along = abs(float((target.anchor[j] - anchors[i]) @ d))
                    square += (max(0.0, along - float(source.half_length[i] + target.half_length[j])) / 0.7) ** 2
                assert float(residuals[h, i, j]) == pytest.approx(square, rel=1e-9)


def test_row_residuals_are_the_definition():
    first, second, poses = two_maps(8, 8)
    source, target, threshold = AnchoredLines.of(first), AnchoredLines.of(second), InlierThreshold(0.7, 0.4)
    residuals = 1 - RowScorer(source, target, threshold).fit(poses)
    for h in range(5):
        moved, anchors = poses[h] @ first, poses[h].act(source.anchor)
        for i in range(8):
            across = distance(target.anchor[i], anchors[i], moved.direction[i]) / 0.7
            turn = sine(moved.direction[i], second.direction[i]) / 0.4
            assert float(residuals[h, i]) == pytest.approx(across**2 + turn**2, rel=1e-4, abs=1e-4)


def test_scores_count_the_perfect_matches():
    lines, _, _ = two_maps(20)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=3.0)
    single = Pose(pose.rotation[None], pose.translation[None])
    source, target = AnchoredLines.of(lines), AnchoredLines.of(pose @ lines)
    weight = torch.full((20,), 0.5, dtype=torch.float64)
    assert float(RowScorer(source, target, InlierThreshold(0.1, 0.1)).scores(single, weight)) == pytest.approx(
        10, abs=1e-2
    )


def test_directed_lines_know_their_sign():
    lines, _, _ = two_maps(6)
    still = Pose.identity(1)
    source, turned = AnchoredLines.of(lines), AnchoredLines.of(lines.flipped(torch.ones(6, dtype=torch.bool)))
    weight = torch.ones(6, dtype=torch.float64)
    undirected, directed = InlierThreshold(0.1, 0.1), InlierThreshold(0.1, 0.1, directed=True)
    assert float(RowScorer(source, turned, undirected).scores(still, weight)) == pytest.approx(6, abs=1e-3)
    assert float(RowScorer(source, turned, directed).scores(still, weight)) == 0
    assert bool(pair_residuals(still, source, turned, directed).diagonal(dim1=1, dim2=2).isinf().all())


def test_spacing_is_the_distance_to_the_next_parallel_line():
    points = torch.tensor([[0.0, 0, 0], [0, 0.3, 0], [0, 5.0, 0], [0, 5.3, 0]], dtype=torch.float64)
    lines = LineSet.from_point_direction(points, torch.tensor([[1.0, 0, 0]], dtype=torch.float64).expand(4, 3))
    assert line_spacing(AnchoredLines.of(lines), InlierThreshold(1.0, math.radians(8))) == pytest.approx(0.3, abs=1e-3)
