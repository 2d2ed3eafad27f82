"""The shape of a pair of lines is the same in every frame, and pairs of like shape determine the motion."""

import pytest
import torch

from plueckernet.geometry import LineSet, Pose
from plueckernet.retrieval.line_pairs import LinePairs, Segments, level_lengths, neighbouring_pairs, tiles_of
from plueckernet.retrieval.pair_table import PairTable

ORIGIN = torch.zeros(3, dtype=torch.float64)


def segments(count: int = 40, seed: int = 0) -> LineSet:
    generator = torch.Generator().manual_seed(seed)
    return LineSet.from_segments(torch.randn(count, 2, 3, generator=generator, dtype=torch.float64) * 3)


def pairs_of(lines: LineSet, rows: torch.Tensor | None = None) -> LinePairs:
    flat = Segments.of(lines, ORIGIN)
    return LinePairs.of(flat, neighbouring_pairs(flat, level_lengths(flat)) if rows is None else rows)


def test_no_motion_and_no_order_of_end_points_changes_the_shape():
    lines = segments()
    pairs = pairs_of(lines)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=2.0)
    flips = torch.rand(len(lines), generator=torch.Generator().manual_seed(2)) < 0.5
    moved = pairs_of((pose @ lines).flipped(flips), pairs.rows)
    torch.testing.assert_close(moved.lengths(), pairs.lengths(), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(moved.angle(), pairs.angle(), atol=1e-3, rtol=1e-3)


def test_frames_move_with_the_lines():
    lines = segments()
    pairs = pairs_of(lines)
    pose = Pose.random(generator=torch.Generator().manual_seed(1), translation=2.0)
    axes, origin = pairs.frames()
    moved_axes, moved_origin = pairs_of(pose @ lines, pairs.rows).frames()
    torch.testing.assert_close(moved_axes, pose.rotation.float() @ axes, atol=1e-3, rtol=0)
    torch.testing.assert_close(moved_origin, pose.act(origin.double()).float(), atol=2e-2, rtol=0)
    torch.testing.assert_close(torch.linalg.det(axes), torch.ones(len(axes)), atol=1e-4, rtol=0)


def test_the_mirror_image_has_another_gap():
    lines = segments()
    pairs = pairs_of(lines)
    mirror = LineSet.from_segments(lines.endpoints * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))
    mirrored = pairs_of(mirror, pairs.rows)
    torch.testing.assert_close(mirrored.lengths()[:, 0], -pairs.lengths()[:, 0], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(mirrored.offset, pairs.offset, atol=1e-3, rtol=1e-3)


def test_the_order_of_the_lines_leaves_gap_and_angle():
    pairs = pairs_of(segments())
    swapped = pairs.swapped()
    torch.testing.assert_close(swapped.lengths()[:, [0, 2, 1]], pairs.lengths())
    torch.testing.assert_close(swapped.angle(), pairs.angle())


def test_each_pair_is_there_once_and_no_two_lines_are_parallel():
    lines = segments(300)
    rows = pairs_of(lines).rows
    assert len(rows.unique(dim=0)) == len(rows)
    assert bool((rows[:, 0] < rows[:, 1]).all())
    cosine = (lines.direction[rows[:, 0]] * lines.direction[rows[:, 1]]).sum(-1).abs()
    assert float(cosine.max()) < 0.92


@pytest.mark.parametrize("count", [1, 7, 256, 700])
def test_tiles_cover_every_point_once(count):
    points = torch.randn(count, 3, generator=torch.Generator().manual_seed(0))
    tiles = list(tiles_of(points, 100))
    assert max(map(len, tiles)) <= 100
    assert torch.cat(tiles).sort().values.tolist() == list(range(count))


def test_a_table_gives_exactly_the_pairs_that_resemble_another():
    lines = segments(60)
    flat = Segments.of(lines, ORIGIN)
    pairs = pairs_of(lines)
    table = PairTable(flat, pairs.rows, 0.2)
    span = table.span(pairs)
    query, hit = table.similar(pairs, span, torch.ones(len(pairs), dtype=torch.bool))
    own = (table.rows[hit] == pairs.rows[query]).all(1)
    assert query[own].unique().tolist() == list(range(len(pairs)))  # every pair resembles itself
    difference = (table.pairs(hit).lengths() - pairs.lengths()[query]).abs()
    assert float(difference.max()) < 0.2


def test_points_coincide_under_the_pose_of_two_like_pairs():
    lines = segments()
    pose = Pose.random(generator=torch.Generator().manual_seed(3), translation=2.0)
    rows = pairs_of(lines).rows[:20]
    axes, origin = pairs_of(lines, rows).frames()
    moved_axes, moved_origin = pairs_of(pose @ lines, rows).frames()
    rotation = moved_axes @ axes.mT
    translation = moved_origin - (rotation @ origin[..., None])[..., 0]
    torch.testing.assert_close(rotation, pose.rotation.float().expand(20, 3, 3), atol=1e-2, rtol=0)
    torch.testing.assert_close(translation, pose.translation.float().expand(20, 3), atol=0.1, rtol=0)
