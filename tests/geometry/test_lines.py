"""All representations of a line are equivalent, and conversions preserve it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose, stack_lines


def segments(count: int, seed: int = 0, offset: float = 0.0) -> LineSet:
    generator = torch.Generator().manual_seed(seed)
    return LineSet.from_segments(torch.randn(count, 2, 3, generator=generator, dtype=torch.float64) * 3 + offset)


def same_line(a: LineSet, b: LineSet, atol: float = 1e-9) -> bool:
    sign = (a.direction * b.direction).sum(-1, keepdim=True).sign()
    return torch.allclose(a.pluecker(), sign * b.pluecker(), atol=atol)


@given(st.integers(0, 2**31), st.integers(0, 12))
def test_conversions_give_the_same_line(seed, count):
    lines = segments(count, seed)
    assert same_line(lines, LineSet.from_pluecker(lines.pluecker() * -2.5))
    assert same_line(lines, LineSet.from_point_direction(lines.footpoints(), lines.direction * 7))
    assert same_line(lines, LineSet.from_point_direction(lines.midpoints(), -lines.direction))


def test_moment_is_point_cross_direction():
    lines = LineSet.from_point_direction(
        torch.tensor([[0.0, 2.0, 5.0]], dtype=torch.float64),
        torch.tensor([[0.0, 0.0, 3.0]], dtype=torch.float64),
    )
    torch.testing.assert_close(lines.moment, torch.tensor([[2.0, 0.0, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(lines.pluecker()[0, :3], lines.moment[0])  # moment first


def test_footpoints_are_closest_points():
    lines, reference = segments(20), torch.tensor([4.0, -1.0, 2.0], dtype=torch.float64)
    feet = lines.footpoints(reference)
    torch.testing.assert_close(torch.linalg.cross(feet, lines.direction), lines.moment)
    torch.testing.assert_close(((feet - reference) * lines.direction).sum(-1), torch.zeros(20, dtype=torch.float64))


def test_centre_of_infinite_lines_is_where_they_meet():
    centre = torch.tensor([3.0, -4.0, 5.0], dtype=torch.float64)
    directions = torch.randn(8, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    lines = LineSet.from_point_direction(centre.expand(8, 3) + 2 * directions, directions)
    torch.testing.assert_close(lines.centre(), centre)


def test_centre_of_parallel_lines_is_finite():
    points = torch.tensor([[1.0, 1.0, 0.0], [3.0, 1.0, 0.0]], dtype=torch.float64)
    up = torch.tensor([[0.0, 0.0, 1.0]] * 2, dtype=torch.float64)
    torch.testing.assert_close(
        LineSet.from_point_direction(points, up).centre(),
        torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64),
    )


@pytest.mark.parametrize("infinite", [False, True])
def test_a_large_offset_is_removed_without_loss(infinite):
    near = segments(30, seed=3)
    offset = torch.tensor([5e5, 5.9e6, 120.0], dtype=torch.float64)
    distant = LineSet.from_segments(near.endpoints + offset)
    distant = distant.infinite() if infinite else distant
    back = distant.shifted(offset)
    assert same_line(back, near, atol=2e-8)
    assert (distant.endpoints is None) == infinite


def test_flipping_changes_only_the_sign():
    lines = segments(10)
    where = torch.arange(10) % 2 == 0
    flipped = lines.flipped(where)
    assert same_line(lines, flipped)
    assert not torch.allclose(lines.direction[where], flipped.direction[where])
    assert same_line(LineSet.from_segments(flipped.endpoints), lines)
    torch.testing.assert_close(flipped.direction, LineSet.from_segments(flipped.endpoints).direction)


def test_hemisphere_rule():
    lines = segments(200).on_hemisphere()
    assert bool((lines.direction[:, 0] > 0).all())
    up = LineSet.from_point_direction(
        torch.zeros(1, 3, dtype=torch.float64),
        torch.tensor([[0.0, 0.0, -1.0]], dtype=torch.float64),
    )
    assert up.on_hemisphere().direction[0, 2] == 1


def test_a_subset_keeps_the_original_indices_as_ids():
    lines = segments(6)
    some = lines[torch.tensor([4, 1])]
    assert some.ids.tolist() == [4, 1]
    assert some[1:].ids.tolist() == [1]
    torch.testing.assert_close(some.endpoints[0], lines.endpoints[4])


def test_stacking_pads_and_masks():
    sets = [segments(3), segments(5, seed=1), segments(0)]
    batch = stack_lines(sets)
    assert batch.direction.shape == (3, 5, 3)
    assert batch.mask.sum(-1).tolist() == [3, 5, 0]
    torch.testing.assert_close(batch.centre()[1], sets[1].centre())
    torch.testing.assert_close(batch.direction.norm(dim=-1), torch.ones(3, 5, dtype=torch.float64))


def test_stacking_drops_endpoints_unless_all_sets_have_them():
    assert stack_lines([segments(2), segments(2).infinite()]).endpoints is None


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
def test_bad_segments_are_refused(bad):
    ends = torch.zeros(2, 2, 3, dtype=torch.float64)
    ends[0, 1, 0] = 1.0
    ends[1, 1, 0] = bad
    with pytest.raises(InputError, match="line 1"):
        LineSet.from_segments(ends)


def test_six_numbers_off_the_klein_quadric_are_projected():
    lines = LineSet.from_pluecker(torch.tensor([[1.0, 2.0, 3.0, 0.0, 0.0, 2.0]], dtype=torch.float64))
    torch.testing.assert_close(lines.moment, torch.tensor([[0.5, 1.0, 0.0]], dtype=torch.float64))


def test_moving_an_empty_set():
    empty = Pose.identity() @ segments(0)
    assert len(empty) == 0


def test_dtype_conversion_keeps_ids_and_mask():
    batch = stack_lines([segments(2), segments(1)]).to(torch.float32)
    assert batch.direction.dtype == torch.float32
    assert batch.ids.dtype == torch.int64
    assert batch.mask.dtype == torch.bool
