"""Poses without matches, and each step to them, are those of PyTorch."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.estimation.test_direction_search import halves

from plueckernet.estimation import direction_search as search
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry import LineSet, Pose
from plueckernet.kernels.library import compiled

pytestmark = pytest.mark.skipif(not compiled(), reason="there are no kernels")
THRESHOLD = InlierThreshold(0.03, math.radians(8))
CELL_SIZE = 0.08
KINDS = ("segments", "infinite", "mixed", "few", "twice", "large", "parallel")
TIED = ("few", "large", "parallel")  # most cells have the same votes or none, so that other ones of them may be chosen


def shaken(lines: AnchoredLines, seed: int) -> AnchoredLines:
    """Ends moved at random: no two pairs of lines are equally good."""
    assert lines.lines.endpoints is not None
    generator = torch.Generator().manual_seed(seed)
    noise = 0.01 * torch.randn(len(lines), 2, 3, generator=generator, dtype=torch.float64)
    return AnchoredLines.of(LineSet.from_segments(lines.lines.endpoints + noise))


def maps(kind: str, seed: int = 0) -> tuple[AnchoredLines, AnchoredLines]:
    source, target = (shaken(lines, seed + side) for side, lines in enumerate(halves(seed)[:2]))
    if kind in ("infinite", "mixed"):
        source = AnchoredLines(source.lines.infinite(), source.anchor, None)
    if kind == "infinite":
        target = AnchoredLines(target.lines.infinite(), target.anchor, None)
    if kind == "few":
        return source[torch.arange(7)], target[torch.arange(9)]
    if kind == "twice":
        return source[torch.arange(2 * len(source)) // 2], target
    if kind == "large":
        return source, replace(target, anchor=1e4 * target.anchor)
    if kind == "parallel":
        return source, target[target.lines.direction @ target.lines.direction[0] > 0.99]
    return source, target


def voting(kind: str, seed: int = 0) -> list[AnchoredLines]:
    return [lines.to(torch.float32) for lines in maps(kind, seed)]


def compared(compute: Callable, *arguments: object, **named: object) -> tuple:
    """With kernels and without."""
    fast = compute(*arguments, **named)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "compiled", lambda *tensors: False)
        return fast, compute(*arguments, **named)


def distance_to_nearest(poses: Pose, others: Pose) -> torch.Tensor:
    """Of each pose to any of others."""
    turn = (poses.rotation[:, None] - others.rotation).abs().amax((2, 3))
    shift = (poses.translation[:, None] - others.translation).norm(dim=-1)
    return (turn + shift / (1 + others.translation.norm(dim=-1))).amin(1)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("up", [None, torch.tensor([0.0, 0.6, 0.8])])
@pytest.mark.parametrize("kind", KINDS)
def test_poses_are_those_of_pytorch(kind, up, directed):
    threshold = replace(THRESHOLD, directed=directed)
    source, target = maps(kind)
    fast, plain = compared(search.match_free_poses, source, target, threshold, up=up)
    assert bool(len(fast.rotation)) == bool(len(plain.rotation))
    if kind not in TIED and len(plain.rotation):
        assert fast.rotation.shape == plain.rotation.shape
        near = distance_to_nearest(plain, fast) < 2e-4
        assert float(near.double().mean()) > 0.97  # the others are as good as the last that were chosen
        assert bool(near[0])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_lines_vote(kind):
    for lines in maps(kind):
        fast, plain = compared(search.voters, lines, THRESHOLD)
        assert torch.equal(fast.anchor, plain.anchor)
        assert torch.equal(fast.lines.direction, plain.lines.direction)


@pytest.mark.parametrize("kind", KINDS)
def test_directions_and_rotations_are_those_of_pytorch(kind):
    source, target = voting(kind)
    for lines in (source, target):
        fast, plain = compared(search.dominant_directions, lines)
        torch.testing.assert_close(fast, plain, rtol=0, atol=1e-5)
    rotations = Pose.random(70, generator=torch.Generator().manual_seed(1)).rotation.float()
    fast, plain = compared(search._direction_agreement, rotations, source, target)
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-5)
    assert len(search._direction_agreement(rotations[:0], source, target)) == 0


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("count", [3, 48])
@pytest.mark.parametrize("kind", KINDS)
def test_peaks_are_those_of_pytorch(kind, count, directed):
    source, target = voting(kind)
    rotations = torch.stack([halves(0)[2].rotation.float(), torch.eye(3)])
    settings = source, target, replace(THRESHOLD, directed=directed), CELL_SIZE, count
    fast, plain = compared(search._all_peaks, rotations, *settings)
    for row in range(2):
        excess, cells = (values.split(fast[2].tolist())[row] for values in fast[:2])
        plain_excess, plain_cells = (values.split(plain[2].tolist())[row] for values in plain[:2])
        assert bool((excess.diff() <= 0).all())
        assert bool(((cells >= 0) & (cells < 64)).all())
        torch.testing.assert_close(excess[0], plain_excess[0], rtol=1e-3, atol=1e-3)
        if kind not in TIED and float(plain_excess[0] - plain_excess[1]) > 0.01:
            assert torch.equal(cells[0], plain_cells[0])


@pytest.mark.parametrize("kind", KINDS)
def test_translations_move_as_with_pytorch(kind):
    source, target = voting(kind)
    generator, rotation = torch.Generator().manual_seed(2), halves(0)[2].rotation.float()
    start = 0.5 * torch.randn(40, 3, generator=generator)
    poses = Pose(rotation.expand(40, 3, 3), start)
    fast, plain = compared(search._moved_to_pairs, poses, source, target, THRESHOLD, CELL_SIZE)
    assert torch.equal(poses.translation, start)
    torch.testing.assert_close(fast.translation, plain.translation, rtol=1e-4, atol=1e-4)


def test_lines_that_are_not_finite_end():
    source, target = voting("segments")
    rotations = torch.eye(3)[None]
    for value in (torch.nan, torch.inf, 1e30):
        broken = replace(source, anchor=source.anchor * value, half_length=source.segment_half_length * value)
        for sides in ((broken, target), (target, broken)):
            search.voters(sides[0], THRESHOLD)
            search.dominant_directions(sides[0])
            peaks = search._all_peaks(rotations, *sides, THRESHOLD, CELL_SIZE, 12)
            poses = Pose(rotations.expand(len(peaks[1]), 3, 3), peaks[1])
            search._moved_to_pairs(poses, *sides, THRESHOLD, CELL_SIZE)
    nothing = source[torch.arange(0)]
    assert len(search.voters(nothing, THRESHOLD)) == 0
    assert len(search.dominant_directions(nothing)) == 0
    assert len(search._all_peaks(rotations, nothing, target, THRESHOLD, CELL_SIZE, 12)[0]) > 0
