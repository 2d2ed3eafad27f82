"""The volume of a map, compared with the convex hull of Qhull."""

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull

from plueckernet.estimation.hull import VOLUME_EVIDENCE, Hull, MovedSide, SharedVolume
from plueckernet.geometry import Pose

STILL = Pose.identity(1, dtype=torch.float64)


def box(count: int = 300, seed: int = 0) -> torch.Tensor:
    """Points in a box, turned somehow, of which many lie on its faces."""
    generator = torch.Generator().manual_seed(seed)
    points = (torch.rand(count, 3, generator=generator, dtype=torch.float64) * 1.4 - 0.7).clamp(-0.5, 0.5)
    size = torch.tensor([1.2, 0.8, 0.3], dtype=torch.float64)
    return (points * size) @ Pose.random(generator=generator).rotation.mT + 0.1


def inside(hull: Hull, points: torch.Tensor) -> torch.Tensor:
    """Whether points are inside, as segments that are almost points."""
    direction = torch.zeros_like(points)
    direction[:, 0] = 1
    return hull.coverage(STILL, points[None], direction[None], torch.full_like(points[None, :, 0], 1e-9))[0] > 0.5


@pytest.mark.parametrize("seed", range(4))
def test_the_faces_of_a_box_are_those_of_its_convex_hull(seed):
    points = box(seed=seed)
    others = 0.5 * torch.randn(2000, 3, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    equations = torch.from_numpy(ConvexHull(points.numpy()).equations)
    expected = (others @ equations[:, :3].mT + equations[:, 3] <= 0).all(-1)
    wrapped = inside(Hull.of(points), others)
    assert 50 < int(expected.sum()) < 1000
    assert not (expected & ~wrapped).any()  # the volume contains the hull
    assert int((wrapped & ~expected).sum()) <= 0.03 * int(expected.sum())  # and little more


def test_round_maps_are_wrapped_closely():
    """The points of a sphere have as many faces as they have room for; rays hit some of them."""
    points = torch.randn(500, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    points = torch.nn.functional.normalize(points, dim=-1)
    hull = Hull.of(points)
    assert (points @ hull.normal.mT <= hull.offset + 1e-9).all()
    assert hull.offset.max() < 1
    assert hull.offset.min() > 0.85


def test_coverage_is_the_part_of_a_segment_inside():
    """Of a cube: a segment through it, one that ends in it, one inside, one beside it and one parallel to a face."""
    corners = torch.cartesian_prod(*[torch.tensor([-0.5, 0.5], dtype=torch.float64)] * 3)
    start = [[-1.0, 0, 0], [0.0, 0, 0], [-0.25, 0, 0], [-1.0, 0.6, 0], [0.5001, -0.2, 0]]
    stop = [[1.0, 0, 0], [1.0, 0, 0], [0.25, 0, 0], [1.0, 0.6, 0], [0.5001, 0.2, 0]]
    ends = torch.tensor([start, stop], dtype=torch.float64)
    arm = (ends[1] - ends[0]) / 2
    half = arm.norm(dim=-1)
    segments = ends.mean(0), arm / half[:, None], half
    coverage = Hull.of(corners).coverage(STILL, *(value[None] for value in segments))[0]
    assert coverage.tolist() == pytest.approx([0.5, 0.5, 1.0, 0.0, 0.0], abs=1e-6)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=1.0)
    moved = Hull.of(pose @ corners)
    poses = Pose(pose.rotation[None], pose.translation[None])
    torch.testing.assert_close(
        moved.coverage(poses, *(value[None] for value in segments))[0], coverage, atol=1e-6, rtol=0
    )


def test_padding_changes_nothing():
    points = box(40)
    padded = torch.stack([torch.cat([points, points[:1].expand(60, 3)]), box(100, 1)])
    mask = torch.arange(100) < torch.tensor([[40], [100]])
    hulls = Hull.of(padded, mask)
    expected = Hull.of(points)
    torch.testing.assert_close(hulls.normal[0], expected.normal)
    torch.testing.assert_close(hulls.offset[0], expected.offset)


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_flat_maps_have_a_volume_that_contains_them(rank):
    points = torch.randn(30, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    points[:, rank:] = 0
    hull = Hull.of(points)
    assert np.isfinite(hull.normal.numpy()).all()
    assert (points @ hull.normal.mT <= hull.offset + 1e-9).all()


def moved(fit: list[float], covered: list[float], inside: list[float], length: list[float] | None = None) -> MovedSide:
    """The lines of a map under one pose."""
    rows = [
        torch.tensor([values], dtype=torch.float64) for values in (length or [1.0] * len(fit), fit, covered, inside)
    ]
    return MovedSide(torch.tensor([float(len(fit))]), *rows)


def test_missing_lines_inside_count_and_those_outside_do_not():
    other = moved([1.0] * 3, [1.0] * 3, [1.0] * 3)
    within = SharedVolume.of(moved([1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 0.5]), other)
    assert [float(getattr(within, name)) for name in VOLUME_EVIDENCE] == [3 + 2.5, 3 + 1.0, 3 + 2.0]
    for covered in (0.0, 1.0):  # lines of the other map that are near by change nothing
        beside = SharedVolume.of(moved([1.0, 0.0, 0.0], [covered] * 3, [0.0, 0.0, 0.0]), other)
        assert [float(getattr(beside, name)) for name in VOLUME_EVIDENCE] == [3 + 1.0, 3 + 1.0, 3 + 1.0]


def test_lines_count_by_their_lengths_in_any_unit():
    single = moved([1.0], [1.0], [1.0])
    for unit in (1.0, 1000.0):
        lengths = [unit, 2 * unit, 3 * unit]  # 0.5, 1 and 1.5 of their mean
        volume = SharedVolume.of(moved([1.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0], lengths), single)
        weight = 2 / 3  # of the denser map
        expected = [1 + 3 * weight, 1 + 0.5 * weight, 1 + 2 * weight]
        assert [float(getattr(volume, name)) for name in VOLUME_EVIDENCE] == pytest.approx(expected)


def test_a_dense_map_counts_as_twice_the_sparse_one_at_most():
    """Its lines have no partners in the sparse map, whatever the pose."""
    sparse, dense = moved([1.0] * 4, [1.0] * 4, [1.0] * 4), moved([0.0] * 100, [1.0] * 100, [1.0] * 100)
    for sides in ((sparse, dense), (dense, sparse)):
        volume = SharedVolume.of(*sides)
        assert [float(getattr(volume, name)) for name in VOLUME_EVIDENCE] == pytest.approx([4 + 8, 4, 4 + 8])
