"""Small sites of different rooms, and parts of them."""

import torch

from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, Pose

SPACING = 25.0  # m


def room(seed: int, count: int = 90) -> LineSet:
    """The longest lines of a house, about its centre."""
    scene = make_scene("indoor", seed)
    rows = scene.lengths().topk(min(count, len(scene))).indices.sort().values
    return LineSet.from_segments((scene.shifted(scene.centre())).endpoints[rows])


def row_of_rooms(seeds: tuple[int, ...] = (0, 1, 2, 3)) -> LineSet:
    shift = torch.tensor([SPACING, 0.0, 0.0], dtype=torch.float64)
    return LineSet.from_segments(torch.cat([room(seed).endpoints + i * shift for i, seed in enumerate(seeds)]))


def part_of(whole: LineSet, x: float, seed: int, noise: float = 0.01) -> tuple[LineSet, Pose]:
    """A noisy part of a site around a coordinate, moved at random, and its ``whole_T_part``."""
    generator = torch.Generator().manual_seed(seed)
    rows = ((whole.midpoints()[:, 0] - x).abs() < SPACING / 2).nonzero()[:, 0]
    rows = rows[torch.rand(len(rows), generator=generator) < 0.8]
    endpoints = whole.endpoints[rows]
    endpoints = endpoints + noise * torch.randn(endpoints.shape, generator=generator, dtype=torch.float64)
    part_T_whole = Pose.random(generator=generator, translation=40.0)
    return part_T_whole @ LineSet.from_segments(endpoints), part_T_whole.inverse()
