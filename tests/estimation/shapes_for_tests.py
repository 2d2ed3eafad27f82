"""Line maps that repeat themselves or leave a motion undetermined, with a radius of about one."""

import math

import torch

from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.geometry import LineSet, Pose


def prism(corners: int, height: float = 1.1, radius: float = 1.0) -> torch.Tensor:
    """The ``3 corners`` edges of a regular prism."""
    angle = torch.arange(corners, dtype=torch.float64) * (2 * math.pi / corners)
    ring = radius * torch.stack([angle.cos(), angle.sin(), torch.zeros_like(angle)], -1)
    low, high = (ring + torch.tensor([0.0, 0.0, z], dtype=torch.float64) for z in (-height / 2, height / 2))
    edges = [torch.stack([level, level.roll(-1, 0)], 1) for level in (low, high)]
    return torch.cat([*edges, torch.stack([low, high], 1)])


def cube() -> torch.Tensor:
    """The 12 edges of a cube."""
    return prism(4, height=math.sqrt(2))


def rectangle(width: float, height: float) -> torch.Tensor:
    """Four edges in the plane of x and z, from the origin."""
    corners = torch.tensor([[0, 0, 0], [width, 0, 0], [width, 0, height], [0, 0, height]], dtype=torch.float64)
    return torch.stack([corners, corners.roll(-1, 0)], 1)


def repeated(cell: torch.Tensor, count: int, shift: tuple[float, float, float]) -> torch.Tensor:
    """Copies of a cell at equal distances."""
    step = torch.tensor(shift, dtype=torch.float64)
    return torch.cat([cell + index * step for index in range(count)])


def window_grid(columns: int, rows: int) -> torch.Tensor:
    """Equal windows at equal distances on a wall."""
    column = repeated(rectangle(0.2, 0.3), rows, (0.0, 0.0, 0.5))
    return repeated(column, columns, (0.4, 0.0, 0.0))


def corridor(bays: int) -> torch.Tensor:
    """Equal bays, each with a door, a pillar and a slanted brace that no mirror image has."""
    pillar = torch.tensor([[[0.1, 0.5, 0], [0.1, 0.5, 0.6]], [[0.1, 0.5, 0.6], [0.35, 0.2, 0.6]]], dtype=torch.float64)
    bay = torch.cat([rectangle(0.2, 0.4), pillar])
    return repeated(bay, bays, (0.5, 0.0, 0.0))


def pole_field(count: int, seed: int = 0) -> torch.Tensor:
    """Vertical poles of different lengths at random places."""
    generator = torch.Generator().manual_seed(seed)
    place = 2 * torch.rand(count, 1, 3, generator=generator, dtype=torch.float64) - 1
    half = 0.2 + 0.3 * torch.rand(count, 1, 1, generator=generator, dtype=torch.float64)
    up = half * torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    return torch.cat([place - up, place + up], 1)


def scattered(count: int, seed: int, half_length: float = 0.2) -> torch.Tensor:
    """Segments of random places and directions."""
    generator = torch.Generator().manual_seed(seed)
    place = 2 * torch.rand(count, 1, 3, generator=generator, dtype=torch.float64) - 1
    arm = torch.randn(count, 1, 3, generator=generator, dtype=torch.float64)
    arm = half_length * arm / arm.norm(dim=-1, keepdim=True)
    return torch.cat([place - arm, place + arm], 1)


def centred(endpoints: torch.Tensor) -> torch.Tensor:
    """The segments about their centre."""
    return endpoints - endpoints.mean((0, 1))


def anchored(endpoints: torch.Tensor, pose: Pose | None = None) -> AnchoredLines:
    """The segments, moved by a pose if there is one."""
    lines = LineSet.from_segments(endpoints)
    return AnchoredLines.of(lines if pose is None else pose @ lines)
