"""The volume that a map fills: the convex hull of its segments, as half spaces; and what two maps share of it.

A ray from the middle leaves the hull through one of its faces. A triangle around the ray is moved outwards, one corner
at a time, to the point of the map that lies farthest beyond it, until there is none. Whatever triangle the steps end
with, the half space beyond which the map has no point contains all of it; faces that no ray hits are small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from plueckernet.geometry.pose import Pose

RAYS = 64  # which hit all large faces
_STEPS = 8
_START = 1e-3  # size of the first triangle, in radii of a map
_MIN_STEP = 1e-6  # by which a point must lie farther out than the triangle, likewise
_BLOCK = 4096  # segments, for whose faces there is room in the cache of a CPU
_MIN_SLOPE = 1e-12  # of a segment towards a face; with less it is parallel
MAX_LINE_RATIO = 20.0  # of two maps; with more, one is so much denser that missing lines say nothing
_MAX_RATIO = 2.0  # of the lines of two maps; those of a denser map count less


@dataclass(frozen=True, eq=False)
class Hull:
    """The convex hull of a map with a radius of about one, or of each of a batch of maps."""

    normal: Float[Tensor, "*b k 3"]
    offset: Float[Tensor, "*b k"]

    @classmethod
    def of(cls, points: Float[Tensor, "*b n 3"], mask: Bool[Tensor, "*b n"] | None = None) -> Hull:
        """The hull of points, those of padding left out."""
        used = torch.ones_like(points[..., 0]) if mask is None else mask.to(points)
        middle = (points * used[..., None]).sum(-2, keepdim=True) / used.sum(-1)[..., None, None].clamp_min(1)
        around = (points - middle) * used[..., None]  # padding lies in the middle, where it changes nothing
        ray, start = _rays(points.dtype, str(points.device))
        triangle = start.expand(*points.shape[:-2], *start.shape)
        for _ in range(_STEPS):
            normal = _outwards(triangle, ray)
            farthest, row = (normal @ around.mT).max(-1)
            corner = around.gather(-2, row[..., None].expand(*row.shape, 3))
            farther = farthest > (normal * triangle[..., 0, :]).sum(-1) + _MIN_STEP
            triangle = torch.where(farther[..., None, None], _moved_to(corner, triangle, ray), triangle)
        normal = _outwards(triangle, ray)
        return Hull(normal, (normal @ around.mT).amax(-1) + (normal @ middle.mT)[..., 0])

    def coverage(
        self,
        poses: Pose,
        anchor: Float[Tensor, "*#h n 3"],
        direction: Float[Tensor, "*#h n 3"],
        half_length: Float[Tensor, "*#h n"],
    ) -> Float[Tensor, "*h n"]:
        """The fraction of each segment inside, moved by each of some poses."""
        normal = self.normal @ poses.rotation
        offset = self.offset - (self.normal @ poses.translation[..., None])[..., 0]
        size = max(1, anchor.shape[-2] if anchor.is_cuda else _BLOCK // max(1, offset[..., 0].numel()))
        blocks = zip(anchor.split(size, -2), direction.split(size, -2), half_length.split(size, -1), strict=True)
        return torch.cat([_fraction_inside(normal, offset, *block) for block in blocks], -1)


@dataclass(frozen=True, eq=False)
class MovedSide:
    """What becomes of the lines of one map that are moved into the other; zero for padding."""

    count: Float[Tensor, " *#h"]
    length: Float[Tensor, "*#h n"]  # in any unit
    fit: Float[Tensor, "*h n"]  # to the best partner
    covered: Float[Tensor, "*h n"]  # fraction that lies where the other map has lines
    inside: Float[Tensor, "*h n"]  # fraction in the volume of the other map

    def sums(self, lines: Float[Tensor, " *#h"]) -> list[Float[Tensor, " *h"]]:
        """The lines of :class:`SharedVolume`, in its order, of a map that counts as so many lines."""
        share = self.length / self.length.sum(-1, keepdim=True).clamp_min(torch.finfo(self.length.dtype).tiny)
        among = torch.minimum(self.inside, self.covered)
        rows = torch.maximum(self.fit, self.inside), self.fit, torch.maximum(self.fit, among)
        return [lines * (share * row).sum(-1) for row in rows]


@dataclass(frozen=True, eq=False)
class SharedVolume:
    """The lines of both maps, added, in the volume that both fill; each counts by its length over the mean of its map.

    Most lines of a dense map have no partner in a sparse one, whatever the pose. Together they count at most as much as
    twice the lines of the sparser map.
    """

    volume_lines: Float[Tensor, " *h"]  # a line that ends outside counts by its fraction inside
    volume_explained: Float[Tensor, " *h"]  # of these
    volume_covered: Float[Tensor, " *h"]  # of these, too, where the other map has lines

    @classmethod
    def of(cls, source: MovedSide, target: MovedSide) -> SharedVolume:
        """From the lines of both maps."""
        counted = counted_lines(source.count, target.count)
        sums = [side.sums(lines) for side, lines in zip((source, target), counted, strict=True)]
        return SharedVolume(*(first + second for first, second in zip(*sums, strict=True)))

    @classmethod
    def none(cls, like: Float[Tensor, " *h"]) -> SharedVolume:
        """Of lines without ends, and of maps that differ too much."""
        return SharedVolume(*torch.zeros_like(like).expand(len(VOLUME_EVIDENCE), *like.shape))


def counted_lines(
    source: Float[Tensor, " *#h"], target: Float[Tensor, " *#h"]
) -> tuple[Float[Tensor, " *#h"], Float[Tensor, " *#h"]]:
    """How many lines each of two maps counts as, from how many they have."""
    most = _MAX_RATIO * torch.minimum(source, target)
    return torch.minimum(source, most), torch.minimum(target, most)


VOLUME_EVIDENCE = tuple(field.name for field in fields(SharedVolume))


def _fraction_inside(
    normal: Float[Tensor, "*h k 3"],
    offset: Float[Tensor, "*h k"],
    anchor: Float[Tensor, "*#h n 3"],
    direction: Float[Tensor, "*#h n 3"],
    half_length: Float[Tensor, "*#h n"],
) -> Float[Tensor, "*h n"]:
    """Of each segment, within all half spaces."""
    room = offset[..., None, :] - anchor @ normal.mT
    slope = half_length[..., None] * (direction @ normal.mT)
    limit = room / torch.where(slope.abs() < _MIN_SLOPE, _MIN_SLOPE, slope)
    last = torch.where(slope > -_MIN_SLOPE, limit, 1.0).amin(-1).clamp_max(1)
    first = torch.where(slope > -_MIN_SLOPE, -1.0, limit).amax(-1).clamp_min(-1)
    return (last - first).clamp_min(0) / 2


def _outwards(triangle: Float[Tensor, "*b k 3 3"], ray: Float[Tensor, "k 3"]) -> Float[Tensor, "*b k 3"]:
    """The normals of triangles, along their rays; the rays themselves where the corners are on a line."""
    first, second, third = triangle.unbind(-2)
    normal = torch.linalg.cross(second - first, third - first)
    length = normal.norm(dim=-1, keepdim=True)
    return torch.where(length > 0, normal / length.clamp_min(torch.finfo(length.dtype).tiny), ray)


def _moved_to(
    corner: Float[Tensor, "*b k 3"], triangle: Float[Tensor, "*b k 3 3"], ray: Float[Tensor, "k 3"]
) -> Float[Tensor, "*b k 3 3"]:
    """Triangles of a new corner and the two others between which the ray passes."""
    side = (torch.linalg.cross(triangle, corner[..., None, :].expand_as(triangle)) * ray[:, None]).sum(-1)
    between = torch.minimum(-side, side.roll(-1, -1)).argmax(-1, keepdim=True)
    kept = [triangle.gather(-2, (between + step)[..., None].remainder(3).expand(*between.shape, 3)) for step in (0, 1)]
    return torch.cat([*kept, corner[..., None, :]], -2)


@lru_cache(maxsize=8)
def _rays(dtype: torch.dtype, device: str) -> tuple[Float[Tensor, "k 3"], Float[Tensor, "k 3 3"]]:
    """Directions all around, and a small triangle around each."""
    index = torch.arange(RAYS, dtype=torch.float64) + 0.5
    height, turn = 1 - 2 * index / RAYS, math.pi * (1 + math.sqrt(5)) * index
    across = (1 - height.square()).sqrt()
    ray = torch.stack([across * turn.cos(), across * turn.sin(), height], -1)
    other = torch.eye(3, dtype=torch.float64)[ray.abs().argmin(-1)]
    right = normalize(torch.linalg.cross(ray, other), dim=-1)
    up = torch.linalg.cross(ray, right)
    angle = math.tau / 3 * torch.arange(3, dtype=torch.float64)[:, None]
    start = _START * (ray[:, None] + angle.cos() * right[:, None] + angle.sin() * up[:, None])
    return ray.to(device, dtype), start.to(device, dtype)
