"""Line maps from arrays: segments, or infinite lines.

What reconstructs lines usually has them as arrays already; files are not needed.
"""

import torch

import plueckernet as pn

# A room with a table, a door and a window: end points (n, 2, 3). No two walls are alike, so the pose is unique.
corners = torch.tensor([[0.0, 0, 0], [5, 0, 0], [5, 3, 0], [0, 3, 0]], dtype=torch.float64)
up = torch.tensor([0.0, 0, 2.5], dtype=torch.float64)
floor = torch.stack([corners, corners.roll(-1, 0)], 1)
edges = [floor, floor + up, torch.stack([corners, corners + up], 1)]
for low, high in (([1.0, 0, 0], [1.9, 0, 2.0]), ([3.0, 3, 0.9], [4.2, 3, 2.1])):  # the door, the window
    a, b = torch.tensor(low, dtype=torch.float64), torch.tensor(high, dtype=torch.float64)
    c, d = torch.stack([b[0], a[1], a[2]]), torch.stack([a[0], a[1], b[2]])
    edges.append(torch.stack([torch.stack(pair) for pair in ((a, c), (c, b), (b, d), (d, a))]))
table = corners * torch.tensor([0.3, 0.3, 1.0], dtype=torch.float64) + torch.tensor(
    [2.9, 0.4, 0.74], dtype=torch.float64
)
edges.append(torch.stack([table, table.roll(-1, 0)], 1))
segments = torch.cat(edges)

source = pn.LineSet.from_segments(segments)
truth = pn.Pose.random(generator=torch.Generator().manual_seed(0), translation=5.0)
target = truth @ source

result = pn.register(source, target)
print("segments:", result.status, f"confidence {result.confidence:.2f}")

# The same as infinite lines: a point and a direction each. Directions need no length and no sign.
points, directions = segments.mean(1), segments[:, 1] - segments[:, 0]
infinite = pn.LineSet.from_point_direction(points, directions)
result = pn.register(infinite, truth @ infinite)
print("infinite lines:", result.status, f"confidence {result.confidence:.2f}")
