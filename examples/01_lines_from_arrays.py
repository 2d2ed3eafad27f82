"""Line maps from arrays: segments or infinite lines.

A program that reconstructs lines usually has them as arrays; no files are needed.
"""

import torch

import plueckernet as pn
from plueckernet.report import save_plot

# A room with a table, a door and a window: end points (n, 2, 3). No two walls are equal, so the pose is unique.


def outline(*corners: tuple[float, float, float]) -> torch.Tensor:
    """Segments from each corner to the next and back to the first."""
    points = torch.tensor(corners, dtype=torch.float64)
    return torch.stack([points, points.roll(-1, 0)], 1)


up = torch.tensor([0.0, 0.0, 2.5], dtype=torch.float64)
floor = outline((0, 0, 0), (5, 0, 0), (5, 3, 0), (0, 3, 0))
posts = torch.stack([floor[:, 0], floor[:, 0] + up], 1)
door = outline((1, 0, 0), (1.9, 0, 0), (1.9, 0, 2), (1, 0, 2))
window = outline((3, 3, 0.9), (4.2, 3, 0.9), (4.2, 3, 2.1), (3, 3, 2.1))
table = outline((2.9, 0.4, 0.74), (4.4, 0.4, 0.74), (4.4, 1.3, 0.74), (2.9, 1.3, 0.74))

source = pn.LineSet.from_segments(torch.cat([floor, floor + up, posts, door, window, table]))
truth = pn.Pose.random(generator=torch.Generator().manual_seed(0), translation=5.0)
target = truth @ source

result = pn.register(source, target)
print("segments:", result.status, f"confidence {result.confidence:.2f}")
save_plot("room.png", source, target, result.target_T_source)

# The same map as infinite lines, each given by a point and a direction of any length and sign.

ends = source.endpoints
infinite = pn.LineSet.from_point_direction(ends.mean(1), ends[:, 1] - ends[:, 0])
result = pn.register(infinite, truth @ infinite)
print("infinite lines:", result.status, f"confidence {result.confidence:.2f}")
