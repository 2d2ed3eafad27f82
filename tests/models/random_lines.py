"""Line sets for the tests of the networks."""

import torch

from plueckernet.geometry import LineSet


def random_lines(count: int, seed: int = 0, *, segments: bool = True) -> LineSet:
    """Segments of about a metre in a room of ten, or the infinite lines through them."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randn(count, 2, 3, generator=generator, dtype=torch.float64)
    centre = 10 * torch.rand(count, 1, 3, generator=generator, dtype=torch.float64)
    lines = LineSet.from_segments(ends + centre)
    return lines if segments else lines.infinite()


def parallel_lines(count: int, seed: int = 0, *, segments: bool = True) -> LineSet:
    """All in one direction that no axis has."""
    lines = random_lines(count, seed)
    direction = torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64) / 3
    middle = lines.midpoints()
    lines = LineSet.from_segments(torch.stack([middle - direction, middle + direction], -2))
    return lines if segments else lines.infinite()
