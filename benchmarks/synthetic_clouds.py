"""Boxes and façades whose edges are known, as a terrestrial scanner, a spinning LiDAR and a depth camera see them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Patch:
    """A rectangle ``corner + s u + t v`` with ``s, t`` in [0, 1], without rectangular holes, which are in metres."""

    corner: Array
    u: Array
    v: Array
    holes: list[tuple[float, float, float, float]] = field(default_factory=list)  # s0, s1, t0, t1 in metres

    def inside(self, s: Array, t: Array) -> Array:
        """Whether lengths along u and v fall on the surface."""
        a, b = np.linalg.norm(self.u), np.linalg.norm(self.v)
        good = (s >= 0) & (s <= a) & (t >= 0) & (t <= b)
        for s0, s1, t0, t1 in self.holes:
            good &= ~((s > s0) & (s < s1) & (t > t0) & (t < t1))
        return good

    def edges(self) -> Array:
        """The four sides."""
        a, b, c, d = self.corner, self.corner + self.u, self.corner + self.u + self.v, self.corner + self.v
        return np.array([[a, b], [b, c], [c, d], [d, a]])


@dataclass(frozen=True, eq=False)
class Scene:
    """Surfaces and their edges, each once; ``solids`` are boxes (centre, axes as rows, half sizes) empty of points."""

    patches: list[Patch]
    edges: Array
    solids: list[tuple[Array, Array, Array]] = field(default_factory=list)


def boxes(rng: np.random.Generator, count: int = 4, room: float = 4.0) -> Scene:
    """Boxes of any heading on the floor of a corner of two walls."""
    floor = Patch(np.zeros(3), np.array([room, 0, 0]), np.array([0, room, 0]))
    walls = [
        Patch(np.zeros(3), np.array([room, 0, 0]), np.array([0, 0, 2.5])),
        Patch(np.zeros(3), np.array([0, room, 0]), np.array([0, 0, 2.5])),
    ]
    patches, solids = [floor, *walls], []
    places = rng.permutation(4)[:count]
    for place in places:
        half = rng.uniform([0.25, 0.2, 0.3], [0.5, 0.4, 0.6])
        heading = rng.uniform(0, np.pi)
        axes = np.array([[np.cos(heading), np.sin(heading), 0], [-np.sin(heading), np.cos(heading), 0], [0, 0, 1]])
        centre = np.array([1.1 + 1.8 * (place % 2), 1.1 + 1.8 * (place // 2), half[2]])
        solids.append((centre, axes, half))
        sides = [(i, sign) for i in range(3) for sign in (-1, 1) if (i, sign) != (2, -1)]
        for i, sign in sides:
            j, k = (i + 1) % 3, (i + 2) % 3
            u, v = 2 * half[j] * axes[j], 2 * half[k] * axes[k]
            patches.append(Patch(centre + sign * half[i] * axes[i] - u / 2 - v / 2, u, v))
    return Scene(patches, unique_edges(patches), solids)


def facade(columns: int = 3, rows: int = 2, depth: float = 0.25) -> Scene:
    """A wall with windows set back by ``depth``, the ground before it and a flat roof above."""
    width, height = 1.0 + 2.2 * columns, 1.2 + 2.4 * rows
    windows = [
        (1.0 + 2.2 * i, 2.2 + 2.2 * i, 1.0 + 2.4 * j, 2.5 + 2.4 * j) for i in range(columns) for j in range(rows)
    ]
    wall = Patch(np.zeros(3), np.array([width, 0, 0]), np.array([0, 0, height]), windows)
    patches = [wall, Patch(np.array([0, -3.0, 0]), np.array([width, 0, 0]), np.array([0, 3.0, 0]))]
    patches.append(Patch(np.array([0, 0, height]), np.array([width, 0, 0]), np.array([0, 2.0, 0])))
    inner = np.array([0, depth, 0])
    for s0, s1, t0, t1 in windows:
        a, across, up = np.array([s0, 0, t0]), np.array([s1 - s0, 0, 0]), np.array([0, 0, t1 - t0])
        patches += [Patch(a, across, inner), Patch(a + up, across, inner), Patch(a, up, inner)]
        patches += [Patch(a + across, up, inner), Patch(a + inner, across, up)]
    return Scene(patches, unique_edges(patches))


def unique_edges(patches: list[Patch]) -> Array:
    """The sides of all patches, each once, and not those within another (the wall's side of a window's opening)."""
    sides = np.concatenate([patch.edges() for patch in patches])
    key = np.round(np.sort(sides.reshape(-1, 2, 3).view(), axis=1), 6)
    order = np.array([np.lexsort(side.T[::-1]) for side in np.round(sides, 6)])
    sides = np.take_along_axis(sides, order[:, :, None], axis=1)
    key = np.round(sides.reshape(-1, 6), 6)
    return sides[np.unique(key, axis=0, return_index=True)[1]]


def dense(scene: Scene, spacing: float, noise: float, rng: np.random.Generator) -> Array:
    """Points drawn evenly from every surface, each moved by noise in all directions."""
    clouds = []
    for patch in scene.patches:
        a, b = np.linalg.norm(patch.u), np.linalg.norm(patch.v)
        amount = int(a * b / spacing**2)
        s, t = rng.uniform(0, a, amount), rng.uniform(0, b, amount)
        keep = patch.inside(s, t)
        clouds.append(patch.corner + np.outer(s[keep] / a, patch.u) + np.outer(t[keep] / b, patch.v))
    points = np.concatenate(clouds)
    for centre, axes, half in scene.solids:
        points = points[~(np.abs((points - centre) @ axes.T) < half - 1e-6).all(axis=1)]
    return points + rng.normal(0, noise, points.shape)


def lidar(scene: Scene, sensor: Array, rings: int, noise: float, rng: np.random.Generator, *,
          elevation: tuple[float, float] = (-25.0, 15.0), azimuths: int = 1800) -> Array:  # fmt: skip
    """The points of a spinning LiDAR with this number of rings; noise is along the ray."""
    up, around = np.meshgrid(
        np.radians(np.linspace(*elevation, rings)), np.linspace(0, 2 * np.pi, azimuths, endpoint=False), indexing="ij"
    )
    ray = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=-1).reshape(-1, 3)
    nearest, _ = cast(scene, sensor, ray)
    seen = np.isfinite(nearest)
    return sensor + (nearest + rng.normal(0, noise, len(ray)))[seen, None] * ray[seen]


def cast(scene: Scene, origin: Array, ray: Array) -> tuple[Array, Array]:
    """Multiples of the rays at which they hit a surface, infinite where they hit none, and the index of the patch."""
    nearest, index = np.full(len(ray), np.inf), np.full(len(ray), -1)
    for number, patch in enumerate(scene.patches):
        a, b = np.linalg.norm(patch.u), np.linalg.norm(patch.v)
        normal = np.cross(patch.u, patch.v) / (a * b)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = (patch.corner - origin) @ normal / (ray @ normal)
            offset = origin + distance[:, None] * ray - patch.corner
            hit = (distance > 0.5) & patch.inside(offset @ patch.u / a, offset @ patch.v / b)
        closer = hit & (distance < nearest)
        nearest, index = np.where(closer, distance, nearest), np.where(closer, number, index)
    return nearest, index


@dataclass(frozen=True, eq=False)
class Photograph:
    """A grey image, its depth in metres, and the visible pieces of the scene's edges in the frame of the camera."""

    image: Array
    depth: Array
    edges: Array


def photograph(
    scene: Scene, eye: Array, target: Array, rng: np.random.Generator, *, focal: float = 500.0
) -> Photograph:
    """A frame of 640 by 480 pixels with the depth noise of structured light, equal over blocks of five pixels."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, [0.0, 0, 1])
    right /= np.linalg.norm(right)
    axes = np.stack([right, np.cross(forward, right), forward])
    row, column = np.mgrid[:480, :640].astype(float)
    ray = np.stack([(column - 320) / focal, (row - 240) / focal, np.ones_like(row)], axis=-1)
    depth, patch = (values.reshape(480, 640) for values in cast(scene, eye, ray.reshape(-1, 3) @ axes))
    shade = rng.permutation(np.linspace(40, 220, len(scene.patches) + 1))[patch]
    image = np.clip(shade + rng.normal(0, 2, shade.shape), 0, 255)
    edges = _visible((scene.edges - eye) @ axes.T, depth, focal)
    depth = np.where(np.isfinite(depth), depth, 0.0)
    noise = np.kron(rng.normal(0, 1, (96, 128)), np.ones((5, 5))) * (0.0012 + 0.0019 * depth**2)
    return Photograph(image.astype(np.uint8), np.where(depth > 0, depth + noise, 0.0), edges)


def _visible(edges: Array, depth: Array, focal: float) -> Array:
    """The longest visible run of each edge, given in the frame of the camera, if longer than 10 cm."""
    runs = []
    for start, end in edges:
        places = start + np.outer(np.linspace(0, 1, int(100 * np.linalg.norm(end - start)) + 2), end - start)
        with np.errstate(divide="ignore", invalid="ignore"):
            column, row = np.rint(focal * places[:, :2] / places[:, 2:] + [320, 240]).T
        inside = (places[:, 2] > 0.3) & (column >= 2) & (column < 638) & (row >= 2) & (row < 478)
        shown = np.zeros(len(places), bool)
        for step in ((0, 0), (2, 0), (-2, 0), (0, 2), (0, -2)):  # an edge is on the border of its surface
            x, y = column[inside].astype(int) + step[0], row[inside].astype(int) + step[1]
            shown[inside] |= np.abs(depth[np.clip(y, 0, 479), np.clip(x, 0, 639)] - places[inside, 2]) < 0.05
        change = np.flatnonzero(np.diff(np.concatenate([[False], shown, [False]]).astype(int)))
        longest = max(zip(change[::2], change[1::2] - 1, strict=True), key=lambda run: run[1] - run[0], default=(0, 0))
        if longest[1] - longest[0] > 10:
            runs.append(places[list(longest)])
    return np.array(runs).reshape(-1, 2, 3)


def agreement(lines: Array, edges: Array, *, distance: float = 0.03, angle: float = 2.0, step: float = 0.01) -> dict:
    """Fraction of the edges' length with a line on it (recall) and of the lines' length on an edge (precision).

    A place of a segment lies on another segment if it is within the distance and the angle of it. An edge counts as
    found when four fifths of its length have a line on it.
    """
    recalled = [on(edge, lines, distance, angle, step) for edge in edges]
    precise = [on(line, edges, distance, angle, step) for line in lines]
    return {
        "recall": _weighted(recalled, edges),
        "precision": _weighted(precise, lines),
        "edges_found": float(np.mean([fraction >= 0.8 for fraction in recalled])) if len(recalled) else 0.0,
        "lines_right": float(np.mean([fraction >= 0.8 for fraction in precise])) if len(precise) else 0.0,
        "edges": len(edges),
        "lines": len(lines),
    }


def on(segment: Array, others: Array, distance: float, angle: float, step: float) -> float:
    """Fraction of a segment that lies on any of the others."""
    length = np.linalg.norm(segment[1] - segment[0])
    direction = (segment[1] - segment[0]) / length
    span = others[:, 1] - others[:, 0]
    lengths = np.linalg.norm(span, axis=1)
    unit = span / lengths[:, None]
    like = np.abs(unit @ direction) > np.cos(np.radians(angle))
    if not like.any():
        return 0.0
    places = segment[0] + np.outer(np.linspace(0, length, max(2, int(length / step))), direction)
    offset = places[:, None] - others[None, like, 0]
    along = np.einsum("pok,ok->po", offset, unit[like])
    off = np.linalg.norm(offset - along[..., None] * unit[like], axis=2)
    near = (off < distance) & (along > -distance) & (along < lengths[like] + distance)
    return float(near.any(axis=1).mean())


def _weighted(fractions: list[float], segments: Array) -> float:
    if len(segments) == 0:
        return 0.0
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    return float(np.average(fractions, weights=length))
