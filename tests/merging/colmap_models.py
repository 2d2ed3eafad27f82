"""Synthetic COLMAP models of one house: rigs of two cameras, exact features, lines with supporting segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.cli.helpers import house

from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.interop.colmap import to_sim3d
from plueckernet.io.limap2 import LineTrack, write_structures

POINTS = house().midpoints()[:40].numpy()
TARGET_T_SOURCE = Similarity.from_pose(Pose.random(generator=torch.Generator().manual_seed(3), translation=20.0), 0.04)


def target_lines() -> LineSet:
    return _noisy(house()[torch.arange(15, 90)], 2)


def source_lines() -> LineSet:
    return TARGET_T_SOURCE.inverse() @ _noisy(house()[torch.arange(70)], 1)


def reconstruction(seed: int, frames: int = 3, folder: str = "") -> Any:
    """A model in the frame of the target: all points in all images."""
    import pycolmap

    rng = np.random.default_rng(seed)
    model = pycolmap.Reconstruction()
    rig = pycolmap.Rig(rig_id=seed)
    for camera_id in (seed, seed + 1):
        camera = pycolmap.Camera.create_from_model_name(camera_id, "PINHOLE", 800.0, 1000, 1000)
        model.add_camera(camera)
        shift = pycolmap.Rigid3d(pycolmap.Rotation3d(), rng.normal(size=3))
        if camera_id == seed:
            rig.add_ref_sensor(camera.sensor_id)
        else:
            rig.add_sensor(camera.sensor_id, shift)
    model.add_rig(rig)
    for number in range(frames):
        _add_frame(model, rig, 5 + number, _looking_at_the_house(rng), folder)
    _add_points(model)
    return model


def write_model(folder: Path, model: Any, lines: LineSet | None) -> Path:
    """Write a model by pycolmap, with lines that its first images support."""
    folder.mkdir(parents=True)
    model.write(str(folder))
    if lines is not None:
        images = sorted(model.images)[:3]
        rows = lines.endpoints.reshape(-1, 6).tolist()
        support = tuple((image, 0) for image in images)
        write_structures(
            folder / "structures", [LineTrack(3 + n, tuple(row), support, 0.25) for n, row in enumerate(rows)]
        )
    return folder


def source_model(folder: str = "") -> Any:
    model = reconstruction(1, folder=folder)
    model.transform(to_sim3d(TARGET_T_SOURCE.inverse()))
    return model


def _noisy(lines: LineSet, seed: int) -> LineSet:
    noise = 0.01 * torch.randn(lines.endpoints.shape, generator=torch.Generator().manual_seed(seed)).double()
    return LineSet.from_segments(lines.endpoints + noise)


def _looking_at_the_house(rng: np.random.Generator) -> Any:
    """A pose with the house in front of the camera, three times its size away."""
    import pycolmap

    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rotation *= np.linalg.det(rotation)
    middle = POINTS.mean(0)
    distance = 3 * np.linalg.norm(POINTS - middle, axis=1).max()
    return pycolmap.Rigid3d(pycolmap.Rotation3d(rotation), np.array([0, 0, distance]) - rotation @ middle)


def _add_frame(model: Any, rig: Any, number: int, rig_T_world: Any, folder: str) -> None:
    import pycolmap

    frame = pycolmap.Frame(frame_id=number, rig_id=rig.rig_id)
    frame.rig_from_world = rig_T_world
    cameras = sorted(model.cameras)
    image_ids = [2 * number + place for place in range(len(cameras))]
    for camera_id, image_id in zip(cameras, image_ids, strict=True):
        frame.add_data_id(pycolmap.data_t(sensor_id=model.cameras[camera_id].sensor_id, id=image_id))
    model.add_frame(frame)
    for camera_id, image_id in zip(cameras, image_ids, strict=True):
        keypoints = np.zeros((len(POINTS) + 1, 2))  # the last one is no point
        image = pycolmap.Image(f"{folder}{image_id}.png", keypoints, camera_id, image_id)
        image.frame_id = number
        model.add_image(image)
        for row, point in enumerate(POINTS):
            model.images[image_id].points2D[row].xy = model.images[image_id].project_point(point)


def _add_points(model: Any) -> None:
    import pycolmap

    for row, point in enumerate(POINTS):
        track = pycolmap.Track(elements=[pycolmap.TrackElement(image, row) for image in sorted(model.images)])
        model.add_point3D(point, track, np.array([row, 0, 255], np.uint8))
    model.update_point_3d_errors()
