"""Matched random lines with the paper's noise, some of the matches wrong."""

import math

import torch
from torch.nn.functional import normalize

from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry import LineSet, Pose


def noisy(lines: LineSet, position: float, degrees: float, generator: torch.Generator) -> LineSet:
    """Lines moved and turned at their feet."""
    shape = lines.direction.shape
    shift = position * torch.randn(shape, generator=generator, dtype=torch.float64)
    axis = normalize(torch.randn(shape, generator=generator, dtype=torch.float64), dim=-1)
    angle = math.radians(degrees) * torch.randn(shape[0], 1, generator=generator, dtype=torch.float64)
    turned = lines.direction + torch.linalg.cross(angle * axis, lines.direction)
    return LineSet.from_point_direction(lines.footpoints() + shift, turned)


def matched_lines(
    count: int = 200, wrong: float = 0.0, seed: int = 0, position: float = 0.05, degrees: float = 2.0
) -> tuple[AnchoredLines, AnchoredLines, Pose, int]:
    """Rows of source and target lines, the pose between them, and how many rows (the first ones) are wrong."""
    generator = torch.Generator().manual_seed(seed)
    points = (torch.rand(count, 3, generator=generator, dtype=torch.float64) - 0.5) * 10
    lines = LineSet.from_point_direction(points, torch.randn(count, 3, generator=generator, dtype=torch.float64))
    pose = Pose.random(generator=generator, translation=10.0)
    source = noisy(lines, position, degrees, generator)
    target = pose @ noisy(lines, position, degrees, generator)
    target = target.flipped(torch.rand(count, generator=generator) < 0.5)
    bad = round(wrong * count)
    rows = torch.arange(count)
    rows[:bad] = torch.randint(count, (bad,), generator=generator)
    origin = torch.zeros(3, dtype=torch.float64)
    anchored = AnchoredLines.of(source, origin), AnchoredLines.of(target[rows].replaced(ids=None), pose.translation)
    return *anchored, pose, bad


def errors(estimate: Pose, truth: Pose) -> tuple[float, float]:
    """Degrees and metres."""
    return float(estimate.angle_to(truth).rad2deg()), float((estimate.translation - truth.translation).norm())
