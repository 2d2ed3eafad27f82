"""The drawing frame: motions and poses convert both ways, and what is drawn is near the origin."""

from __future__ import annotations

import numpy as np
import torch
from tests.cli.helpers import house

from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.report.frame import DrawingFrame, Motion, bounding_ball
from plueckernet.report.picture import as_segments, level_axes

POSE = Pose.random(generator=torch.Generator().manual_seed(3), translation=1e5)


def frame() -> DrawingFrame:
    return DrawingFrame.of(as_segments(house()), as_segments(POSE @ house()))


def test_a_motion_is_a_pose_and_back() -> None:
    motion = frame().motion(POSE)
    again = frame().pose(Motion.from_quaternion(motion.quaternion, motion.translation))
    torch.testing.assert_close(again.matrix(), POSE.matrix(), rtol=0, atol=1e-8)


def test_registered_lines_coincide_near_the_origin() -> None:
    drawn = frame().motion(POSE).moved(frame().source(as_segments(house())))
    target = frame().target(as_segments(POSE @ house()))
    np.testing.assert_allclose(drawn, target, atol=1e-8)
    assert abs(target).max() < 20


def test_z_is_up_and_walls_run_along_the_axes() -> None:
    target = frame().target(as_segments(POSE @ house()))
    arrow = target[:, 1] - target[:, 0]
    along = abs(arrow / np.linalg.norm(arrow, axis=-1, keepdims=True)).max(-1)
    assert np.median(along) > 0.99
    assert np.ptp(target[..., 2]) < 0.6 * np.ptp(target[..., 0])


def test_the_normal_of_a_facade_is_not_up() -> None:
    """A facade of windows 30 m long and 12 m high; its normal has the least extent and only sills."""
    corners = np.array([[x, 0.0, z] for x in range(0, 30, 3) for z in range(0, 12, 3)])
    along = [np.array([2.0, 0, 0]), np.array([0, 0, 2.0]), np.array([0, 0.2, 0])]
    windows = np.concatenate([np.stack([corners, corners + step], 1) for step in along])
    for scale in (1e-3, 1.0, 1e3):
        turned = scale * windows @ POSE.rotation.numpy().T
        assert abs(level_axes(turned)[2] @ POSE.rotation.numpy()[:, 2]) > 0.999


def test_z_is_up_in_a_national_grid() -> None:
    eaves = np.array([[[0.0, y, z], [9.0, y, z]] for y, z in ((0, 0), (6, 0), (3, 2))])
    assert abs(level_axes(eaves)[2][2]) < 0.9  # of a roof alone, nothing tells
    assert level_axes(eaves + np.array([458877.0, 5438353.0, 112.0]))[2].tolist() == [0, 0, 1]


def test_an_exact_drawing_is_not_turned_upside_down() -> None:
    poles = np.array([[[x, y, 0.0], [x, y, 3.0]] for x in range(0, 30, 5) for y in range(0, 30, 5)])
    above = np.array([[[x, 0.0, 2.9], [x, 1.0, 2.9]] for x in range(30)])  # most points are at the top
    assert level_axes(np.concatenate([poles, above]))[2].tolist() == [0, 0, 1]


def test_a_distant_source_is_shifted_into_view() -> None:
    before = frame().before().moved(frame().source(as_segments(house())))
    centre, radius = bounding_ball(before)
    assert np.linalg.norm(centre) < 5 * radius
    assert frame().initial_shift.any()
    assert not DrawingFrame.of(as_segments(house()), as_segments(house())).initial_shift.any()


def test_a_small_map_beside_a_large_one_is_in_view() -> None:
    large, small = np.zeros((500, 2, 3)), np.array([[[0.0, 0, 0], [0, 0, 9.0]]])
    large[:, :, :2] = np.random.default_rng(0).uniform(-1, 1, (500, 2, 2))
    centre, radius = bounding_ball(large, small)
    assert centre[2] + radius > 8.9
    assert bounding_ball(np.zeros((0, 2, 3)), small)[1] > 4


def test_a_similarity_scales_the_source() -> None:
    larger = Similarity.from_pose(POSE, 2.5)
    target = LineSet.from_segments(larger @ house().endpoints)
    frame = DrawingFrame.of(as_segments(house()), as_segments(target))
    drawn = frame.motion(larger).moved(frame.source(as_segments(house())))
    np.testing.assert_allclose(drawn, frame.target(as_segments(target)), atol=1e-8)
    assert frame.motion(POSE).scale == 1
