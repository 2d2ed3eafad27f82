"""The drawing frame: motions and poses convert both ways, and what is drawn is near the origin."""

from __future__ import annotations

import numpy as np
import torch
from tests.cli.helpers import house

from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.report.frame import DrawingFrame, Motion, bounding_ball
from plueckernet.report.picture import as_segments

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


def test_a_distant_source_is_shifted_into_view() -> None:
    before = frame().before().moved(frame().source(as_segments(house())))
    centre, radius = bounding_ball(before)
    assert np.linalg.norm(centre) < 5 * radius
    assert frame().initial_shift.any()
    assert not DrawingFrame.of(as_segments(house()), as_segments(house())).initial_shift.any()


def test_a_similarity_scales_the_source() -> None:
    larger = Similarity.from_pose(POSE, 2.5)
    target = LineSet.from_segments(larger @ house().endpoints)
    frame = DrawingFrame.of(as_segments(house()), as_segments(target))
    drawn = frame.motion(larger).moved(frame.source(as_segments(house())))
    np.testing.assert_allclose(drawn, frame.target(as_segments(target)), atol=1e-8)
    assert frame.motion(POSE).scale == 1
