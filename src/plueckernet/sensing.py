"""From a frame of sensor data to its lines: connects the readers of datasets with the extraction of lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from plueckernet.data.datasets.frames import CameraFrame, CloudFrame, SensorFrame
from plueckernet.errors import FormatError, MissingDependencyError
from plueckernet.geometry import LineSet
from plueckernet.io import read_lines


def frame_lines(frame: SensorFrame) -> LineSet:
    """The lines of a frame, in the frame of the sensor."""
    if isinstance(frame, CameraFrame):
        from plueckernet.extraction import Intrinsics, RgbdSettings, extract_rgbd

        settings = RgbdSettings(max_depth=frame.furthest, noise=frame.depth_noise)
        return extract_rgbd(*camera_images(frame), Intrinsics(*frame.intrinsics), settings).lines
    if isinstance(frame, CloudFrame):
        from plueckernet.extraction import PointCloudSettings, extract_lines

        scanner = PointCloudSettings(viewpoint=frame.viewpoint)
        return extract_lines(frame.cloud, scanner, format=frame.format).lines
    return read_lines(frame.lines, format=frame.format)


def map_lines(path: Path, format: str | None = None) -> LineSet:
    """The lines of a map of any format; those of a point cloud are extracted."""
    from plueckernet.extraction.clouds.reading import is_cloud

    if not is_cloud(path, format):
        return read_lines(path, format=format)
    from plueckernet.extraction import extract_lines

    return extract_lines(path, format=format).lines


def camera_images(frame: CameraFrame) -> tuple[UInt8[np.ndarray, "h w 3"], Float[np.ndarray, "h w"]]:
    """The colour image (blue, green, red) and the depth in metres, 0 where it is unknown."""
    try:
        import cv2
    except ImportError as error:
        raise MissingDependencyError("opencv-contrib-python-headless", "extract") from error

    colour = _image(frame.colour, cv2.imread(str(frame.colour), cv2.IMREAD_COLOR))
    steps = _image(frame.depth, cv2.imread(str(frame.depth), cv2.IMREAD_UNCHANGED))
    if steps.ndim != 2 or steps.dtype != np.uint16:
        raise FormatError(frame.depth, f"expected one channel of 16 bits, found {steps.dtype} of shape {steps.shape}")
    if steps.shape != colour.shape[:2]:
        raise FormatError(frame.depth, f"expected the size of the colour image {colour.shape[:2]}, found {steps.shape}")
    depth = steps.astype(np.float64) * frame.depth_unit
    depth[depth > frame.furthest] = 0.0
    return colour, depth


def _image(path: Path, image: Shaped[np.ndarray, "..."] | None) -> Shaped[np.ndarray, "..."]:
    if image is None:
        raise FormatError(path, "not a readable image" if path.exists() else "no such file or directory")
    return image
