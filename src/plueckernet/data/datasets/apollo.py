"""ApolloScape scene parsing, such as ``road02_ins``: images, depth of the static background, poses.

``ColorImage/Record001/Camera 5/170927_063811892_Camera_5.jpg``, the same below ``Depth`` as ``.png`` in steps of 5 mm,
and ``Pose/Record001/Camera 5/pose.txt``: the sixteen numbers of the matrix from camera to world, then the image name.
Depth is distributed separately as ``road02_ins_depth``, which may be next to the images or in the same folder.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from plueckernet.data.datasets.frames import CameraFrame, rigid, rows_of
from plueckernet.errors import FormatError
from plueckernet.geometry import Pose

_CAMERAS = {  # fx, fy, cx, cy of images of 3384 x 2710 pixels
    "Camera 5": (2304.54786556982, 2305.875668062, 1686.23787612802, 1354.98486439791),
    "Camera 6": (2300.39065314361, 2301.31478860597, 1713.21615190657, 1342.91100799715),
}
_DEPTH_UNIT = 1 / 200  # m
_MAX_DEPTH = 300.0  # m; the sky has the largest depth value
_DEPTH_NOISE = (0.03, 0.0)  # m, m^-1; of the laser scans from which the depth was rendered


def apollo_sequences(folder: Path) -> dict[str, list[CameraFrame]]:
    """Frames in temporal order for each record and camera, named ``Record001/Camera 5``."""
    images = _subfolder(folder, "ColorImage")
    depths, poses = _subfolder(folder, "Depth"), _subfolder(folder, "Pose")
    sequences = {}
    for camera in sorted(path for path in images.glob("Record*/Camera *") if path.is_dir()):
        name = camera.relative_to(images)
        sequences[name.as_posix()] = _sequence(camera, depths / name, poses / name / "pose.txt")
    if not sequences:
        raise FormatError(images, "the folder has no Record*/Camera *")
    return sequences


def _sequence(images: Path, depths: Path, poses: Path) -> list[CameraFrame]:
    if images.name not in _CAMERAS:
        raise FormatError(images, f"unknown intrinsics of {images.name}; known: {', '.join(_CAMERAS)}")
    known = _poses(poses)
    frames = []
    for image in sorted(images.glob("*.jpg")):
        depth = depths / f"{image.stem}.png"
        if not depth.exists():
            raise FormatError(depth, "no depth for the image")
        frames.append(
            CameraFrame(
                name=image.stem,
                time=_time(image),
                colour=image,
                depth=depth,
                intrinsics=_CAMERAS[images.name],
                depth_unit=_DEPTH_UNIT,
                furthest=_MAX_DEPTH,
                depth_noise=_DEPTH_NOISE,
                world_T_sensor=known.get(image.stem),
            )
        )
    return frames


def _subfolder(folder: Path, name: str) -> Path:
    candidates = [path for pattern in (name, f"*/{name}") for path in sorted(folder.glob(pattern)) if path.is_dir()]
    if not candidates:
        raise FormatError(folder, f"the folder has no subfolder {name}")
    return candidates[0]


def _time(image: Path) -> float:
    """Time from ``170927_063811892_Camera_5``: the date, then the time of day in milliseconds."""
    date, _, rest = image.stem.partition("_")
    try:
        day = datetime.strptime(f"{date}{rest[:6]}", "%y%m%d%H%M%S").replace(tzinfo=UTC)
        return day.timestamp() + int(rest[6:9]) / 1000
    except ValueError:
        raise FormatError(image, "expected a name like 170927_063811892_Camera_5.jpg") from None


def _poses(path: Path) -> dict[str, Pose]:
    poses = {}
    for number, fields in rows_of(path):
        try:
            matrix = np.array([float(field) for field in fields[:16]]).reshape(4, 4)
            name = Path(fields[16]).stem
        except (ValueError, IndexError):
            raise FormatError(path, "expected sixteen numbers and an image name", number) from None
        poses[name] = rigid(matrix, path, number)
    return poses
