"""Two matches of parallel segments give the pose for any signs, and pairs that no rigid motion relates are rejected."""

import pytest
import torch

from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.parallel_alignment import parallel_line_agreement, parallel_line_poses

ANGLE, DISTANCE = 0.1, 0.05


def poles(count: int, seed: int) -> LineSet:
    """Pairs of parallel segments of different lengths, in random frames."""
    generator = torch.Generator().manual_seed(seed)
    middle = torch.rand(count, 2, 1, 3, generator=generator, dtype=torch.float64) * 4
    half_length = 0.5 + torch.rand(count, 2, 1, 1, generator=generator, dtype=torch.float64)
    middle[:, 1, :, :2] += 1
    axis = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    ends = middle + half_length * axis * torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    return Pose.random(count, generator=generator, translation=3.0) @ LineSet.from_segments(ends)


def moved(lines: LineSet, seed: int) -> tuple[LineSet, Pose]:
    pose = Pose.random(len(lines.direction), generator=torch.Generator().manual_seed(seed), translation=10.0)
    return pose @ lines, pose


def smallest_error(poses: Pose, truth: Pose) -> torch.Tensor:
    return (poses.matrix() - truth.matrix()[:, None]).abs().amax((-2, -1)).amin(-1)


@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
def test_contains_the_pose_for_every_sign(flips):
    source = poles(50, 0)
    target, pose = moved(source, 1)
    target = target.flipped(torch.tensor(flips).expand(50, 2))
    poses = parallel_line_poses(source, target)
    assert poses.translation.shape == (50, 6, 3)
    assert float(smallest_error(poses, pose).max()) < 1e-9
    valid = parallel_line_agreement(source, target, ANGLE, DISTANCE)
    right = (poses.matrix() - pose.matrix()[:, None]).abs().amax((-2, -1)) < 1e-6
    assert bool(valid[right].all())


def test_cut_ends_leave_one_of_the_choices_along_the_lines():
    source = poles(50, 2)
    target, pose = moved(source, 3)
    start, end = target.endpoints.unbind(-2)
    target = LineSet.from_segments(torch.stack([start, start + 0.6 * (end - start)], -2))
    poses = parallel_line_poses(source, target)
    errors = (poses.matrix() - pose.matrix()[:, None]).abs().amax((-2, -1))
    assert float(errors.amin(-1).max()) < 1e-9
    assert not bool((errors[:, [0, 3]] < 1e-3).any())  # midpoints moved


def test_all_poses_are_rigid_motions_that_map_the_lines():
    source = poles(50, 4)
    target, _ = moved(source, 5)
    poses = parallel_line_poses(source, target)
    assert torch.allclose(torch.linalg.det(poses.rotation), torch.ones(50, 6, dtype=torch.float64))
    turned = Pose(poses.rotation[:, 5], poses.translation[:, 5]) @ source
    signs = (turned.direction * target.direction).sum(-1, keepdim=True).sign()
    assert torch.allclose(turned.direction, signs * target.direction)
    assert torch.allclose(turned.moment, signs * target.moment, atol=1e-9)


def test_infinite_lines_have_a_pose_for_each_direction():
    source = poles(20, 6).infinite()
    target, _ = moved(source, 7)
    poses = parallel_line_poses(source, target)
    assert poses.translation.shape == (20, 2, 3)
    feet = Pose(poses.rotation[:, 1], poses.translation[:, 1]).act(source.anchors()).mean(1)
    assert torch.allclose(feet, target.anchors().mean(1))
    assert parallel_line_agreement(source, target, ANGLE, DISTANCE).shape == (20, 2)


def test_single_precision_suffices():
    source = poles(50, 8)
    target, pose = moved(source, 9)
    poses = parallel_line_poses(source.to(torch.float32), target.to(torch.float32))
    assert float(smallest_error(poses.to(torch.float64), pose).max()) < 1e-3


def pair(distance: float, tilt: float = 0.0, lift: float = 0.0) -> LineSet:
    """Two segments at a distance, the second tilted out of their plane and lifted."""
    ends = torch.tensor([[[0, 0, -1], [0, 0, 1]], [[distance, -tilt, lift - 1], [distance, tilt, lift + 1]]])
    return LineSet.from_segments(ends.double()[None])


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (pair(1.0), pair(1.02), True),
        (pair(1.0), pair(1.2), False),  # another distance
        (pair(1.0), pair(1.0, tilt=0.5), False),  # not parallel
        (pair(0.1), pair(0.1), False),  # too close for a rotation
        (pair(1.0), pair(1.0, lift=5.0), False),  # the segments of a match do not overlap
    ],
)
def test_agreement_needs_a_rigid_motion(source, target, expected):
    assert bool(parallel_line_agreement(source, target, ANGLE, DISTANCE).any()) == expected


def test_nothing_gives_nothing():
    source = poles(3, 10)
    none = LineSet(source.direction[:0], source.moment[:0], source.endpoints[:0])
    assert parallel_line_poses(none, none).translation.shape == (0, 6, 3)
    assert parallel_line_agreement(none, none, ANGLE, DISTANCE).shape == (0, 6)
