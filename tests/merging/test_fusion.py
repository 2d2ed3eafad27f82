"""The merged map: what is fused, what stays apart, where each line comes from."""

import pytest
import torch

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.merging.alignment import AlignedGroup, Alignment
from plueckernet.merging.fusion import FusionSettings, merge_group

SETTINGS = FusionSettings(distance=0.1)


def merged(*maps: list[list[list[float]]], sigmas: list[float] | None = None, settings: FusionSettings = SETTINGS):
    lines = {}
    for number, ends in enumerate(maps):
        sigma = None if sigmas is None else torch.full((len(ends),), sigmas[number], dtype=torch.float64)
        lines[f"m{number}"] = LineSet.from_segments(torch.tensor(ends, dtype=torch.float64), sigma=sigma)
    poses = {name: Pose.identity() for name in lines}
    centres = {name: value.centre() for name, value in lines.items()}
    alignment = Alignment(lines, centres, (AlignedGroup(poses, {}, ()),), (), (), True)
    return merge_group(alignment, alignment.groups[0], settings)


def test_a_line_of_two_maps_becomes_one_over_both_extents():
    result = merged([[[0, 0, 0], [2, 0, 0]]], [[[1, 0.02, 0], [4, 0.02, 0]], [[0, 5, 0], [0, 6, 0]]])
    assert len(result.lines) == 2
    assert result.lines.views.tolist() == [2, 1]
    x = result.lines.endpoints[0, :, 0].sort().values
    assert torch.allclose(x, torch.tensor([0.0, 4.0], dtype=torch.float64), atol=0.01)
    assert result.origin.tolist() == [[0, 0, 0], [0, 1, 0], [1, 1, 1]]


def test_lines_that_are_apart_stay_apart():
    result = merged(
        [[[0, 0, 0], [2, 0, 0]]], [[[0, 0.2, 0], [2, 0.2, 0]], [[5, 0, 0], [7, 0, 0]], [[0, 0, 0], [2, 0.5, 0]]]
    )
    assert len(result.lines) == 4


def test_neighbours_of_one_map_are_never_fused():
    """Two edges 4 cm apart in one map are two edges, though a line of another map is close to each of them."""
    result = merged([[[0, 0, 0], [2, 0, 0]], [[0, 0.04, 0], [2, 0.04, 0]]], [[[0, 0.02, 0], [2, 0.02, 0]]])
    assert sorted(result.lines.views.tolist()) == [1, 2]


def test_pieces_of_a_line_are_fused_with_the_whole():
    result = merged([[[0, 0, 0], [2, 0, 0]], [[2.5, 0, 0], [5, 0, 0]]], [[[0, 0.01, 0], [5, 0.01, 0]]])
    assert len(result.lines) == 1
    assert len(result.origin) == 3


def test_accurate_lines_count_more():
    result = merged([[[0, 0, 0], [2, 0, 0]]], [[[0, 0.06, 0], [2, 0.06, 0]]], sigmas=[0.01, 0.1])
    assert float(result.lines.endpoints[0, :, 1].mean()) == pytest.approx(0.06 / 101, rel=0.01)
    assert float(result.lines.sigma[0]) == pytest.approx((100**2 + 10**2) ** -0.5)


def test_lines_of_a_single_map_keep_every_digit():
    ends = [
        [[4.1e5 + 0.1, 5.2e6, 3.0], [4.1e5 + 2.3, 5.2e6, 3.0]],
        [[4.1e5, 5.2e6 + 1, 3.0], [4.1e5, 5.2e6 + 7.7, 9.0]],
    ]
    result = merged(ends, [[[4.1e5, 5.2e6, 30.0], [4.1e5, 5.2e6 + 1, 30.0]]])
    assert torch.allclose(result.lines.endpoints[:2], torch.tensor(ends, dtype=torch.float64), atol=1e-8, rtol=0)


def test_infinite_lines_are_refused():
    lines = LineSet.from_segments(torch.rand(3, 2, 3, generator=torch.Generator().manual_seed(0)).double())
    group = AlignedGroup({"a": Pose.identity()}, {}, ())
    alignment = Alignment({"a": lines.infinite()}, {"a": lines.centre()}, (group,), (), (), True)
    with pytest.raises(InputError, match="infinite"):
        merge_group(alignment, group)
