"""Frames of every kind become lines in metres, in the frame of the sensor."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from tests.data.datasets import published

from plueckernet.data.datasets import CloudFrame, seven_scenes_sequence, tum_sequence
from plueckernet.data.datasets.frames import LinesFrame
from plueckernet.errors import FormatError
from plueckernet.geometry import LineSet
from plueckernet.io import write_lines
from plueckernet.registration import register
from plueckernet.sensing import camera_images, frame_lines

SCANS = Path(__file__).resolve().parents[2] / "shared" / "data" / "scans"
needs_scans = pytest.mark.skipif(not SCANS.is_dir(), reason=f"no real scans at {SCANS}")


def box_edges(lines: LineSet) -> list[tuple[float, float]]:
    """Length and depth of the lines in the front of the box."""
    ends = lines.endpoints
    near = (ends[..., 2] - 3.0).abs().amax(-1) < 0.03
    return sorted((round(float(length), 1), 3.0) for length in lines.lengths()[near])


def test_images_of_a_box_give_its_front_in_metres(tmp_path: Path) -> None:
    published.tum(tmp_path / "rgbd_dataset_freiburg1_x", listed=True)
    edges = box_edges(frame_lines(tum_sequence(tmp_path / "rgbd_dataset_freiburg1_x")[0]))
    assert edges == [(0.8, 3.0)] * 2 + [(1.0, 3.0)] * 2


def test_depth_that_was_not_measured_is_zero(tmp_path: Path) -> None:
    published.seven_scenes(tmp_path)
    steps = cv2.imread(str(tmp_path / "frame-000000.depth.png"), cv2.IMREAD_UNCHANGED)
    steps[:10] = 65535
    cv2.imwrite(str(tmp_path / "frame-000000.depth.png"), steps)
    frame = seven_scenes_sequence(tmp_path)[0]
    colour, depth = camera_images(frame)
    assert (depth[:10] == 0).all()
    assert set(np.unique(depth[10:])) == {3.0, 4.0}
    assert colour[240, 320].tolist() == pytest.approx([40, 60, 30], abs=4)


def test_images_that_do_not_fit_are_named(tmp_path: Path) -> None:
    published.seven_scenes(tmp_path)
    frame = seven_scenes_sequence(tmp_path)[0]
    cv2.imwrite(str(frame.depth), np.zeros((240, 320), np.uint16))
    with pytest.raises(FormatError, match=r"depth.png: expected the size of the colour image \(480, 640\)"):
        camera_images(frame)
    cv2.imwrite(str(frame.depth), np.zeros((480, 640), np.uint8))
    with pytest.raises(FormatError, match="16 bits"):
        camera_images(frame)
    frame.colour.write_bytes(b"no image")
    with pytest.raises(FormatError, match="not a readable image"):
        camera_images(frame)


def test_clouds_and_line_maps(tmp_path: Path) -> None:
    cloud = published.semantic3d(tmp_path, "a_station1")
    lines = frame_lines(CloudFrame("a", 0.0, cloud))
    vertical = (lines.direction[:, 2].abs() > 0.99) & (lines.lengths() > 3.5)
    assert int(vertical.sum()) >= 4  # the upright edges of the box, which is 5 m high
    assert float(lines.endpoints[..., 2].amax()) == pytest.approx(5.0, abs=0.2)
    ends = torch.rand(4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    write_lines(tmp_path / "map.obj", LineSet.from_segments(ends))
    assert len(frame_lines(LinesFrame("m", 0.0, tmp_path / "map.obj"))) == 4


@needs_scans
def test_real_frames_are_followed() -> None:
    frames = tum_sequence(SCANS / "rgbd_tum_fr1_rpy", time_offset=-0.02)
    assert (len(frames), frames[0].intrinsics[0]) == (40, 517.3)
    first, second = frames[14:16]
    result = register(frame_lines(second), frame_lines(first))
    truth = first.world_T_sensor.inverse() @ second.world_T_sensor
    assert result.ok
    assert float(result.target_T_source.angle_to(truth).rad2deg()) < 1.5
    assert float((result.target_T_source.translation - truth.translation).norm()) < 0.05
