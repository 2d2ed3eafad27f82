"""Similarities and poses are read from matrices, each as what it is."""

import pytest
import torch

from plueckernet.errors import InputError
from plueckernet.geometry import LineSet, Pose
from plueckernet.geometry.similarity import Similarity, motion_from_matrix


def similarity(seed: int, scale: float) -> Similarity:
    pose = Pose.random(generator=torch.Generator().manual_seed(seed), translation=5.0)
    return Similarity.from_pose(pose, scale)


@pytest.mark.parametrize("scale", [0.01, 0.7, 1.0, 223.5])
def test_a_similarity_is_what_its_matrix_says(scale: float) -> None:
    motion = similarity(3, scale)
    back = Similarity.from_matrix(motion.matrix())
    torch.testing.assert_close(back.scale, motion.scale)
    torch.testing.assert_close(back.matrix(), motion.matrix())
    torch.testing.assert_close(back.rotation, motion.rotation)


def test_the_pose_is_what_remains_after_the_source_has_grown() -> None:
    motion, points = similarity(4, 3.0), torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(motion @ points, motion.pose @ (3.0 * points))


def test_a_matrix_without_scale_is_a_pose() -> None:
    assert isinstance(motion_from_matrix(similarity(5, 1.0).matrix()), Pose)
    assert isinstance(motion_from_matrix(similarity(5, 1.001).matrix()), Similarity)


def test_what_is_no_similarity_is_refused() -> None:
    mirrored = torch.diag(torch.tensor([1.0, 1.0, -2.0, 1.0])).double()
    sheared = torch.eye(4).double()
    sheared[0, 1] = 0.5
    for matrix in (mirrored, 2 * sheared):
        with pytest.raises(InputError, match="rotation matrix"):
            Similarity.from_matrix(matrix)


def test_lines_move_as_their_points_do() -> None:
    ends = torch.randn(5, 2, 3, generator=torch.Generator().manual_seed(1)).double()
    motion = similarity(6, 0.2)
    moved = motion @ LineSet.from_segments(ends)
    again = LineSet.from_segments((motion @ ends.reshape(-1, 3)).reshape(5, 2, 3))
    torch.testing.assert_close(moved.moment, again.moment)
