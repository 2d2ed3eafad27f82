"""ApolloScape scene parsing, such as ``road02_ins``: images, depth of the static background, poses.

``ColorImage/Record001/Camera 5/170927_063811892_Camera_5.jpg``, the same below ``Depth`` as ``.png`` in steps of 5 mm,
and ``Pose/Record001/Camera 5/pose.txt``: the sixteen numbers of the matrix from camera to world, then the image name.
Depth is distributed separately as ``road02_ins_depth/Depth``, next to the road; it may also be in the road's folder.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from plueckernet.data.datasets.frames import CameraFrame, MissingFrame, rigid, rows_of
from plueckernet.errors import FormatError
from plueckernet.geometry import Pose

_CAMERAS = {  # fx, fy, cx, cy of images of 3384 x 2710 pixels
    "Camera 5": (2304.54786556982, 2305.875668062, 1686.23787612802, 1354.98486439791),
    "Camera 6": (2300.39065314361, 2301.31478860597, 1713.21615190657, 1342.91100799715),
}
_DEPTH_UNIT = 1 / 200  # m
_MAX_DEPTH = 300.0  # m; the sky has the largest depth value
_DEPTH_NOISE = (0.03, 0.0)  # m, m^-1; of the laser scans from which the depth was rendered


def apollo_sequences(folder: Path) -> dict[str, list[CameraFrame | MissingFrame]]:
    """Frames in temporal order for each record and camera, named ``Record001/Camera 5``.

    Args:
        folder: A road such as ``road02_ins``, or the folder that has it and ``road02_ins_depth``.
    """
    road = _road(folder)
    images, depths, poses = road / "ColorImage", _depth_folder(road), road / "Pose"
    sequences = {}
    for camera in sorted(path for path in images.glob("Record*/Camera *") if path.is_dir()):
        name = camera.relative_to(images)
        sequences[name.as_posix()] = _sequence(camera, depths / name, poses / name / "pose.txt")
    if not sequences:
        raise FormatError(images, "the folder has no Record*/Camera *")
    return sequences


def _sequence(images: Path, depths: Path, poses: Path) -> list[CameraFrame | MissingFrame]:
    """All frames that have an image, a depth or a pose, by time; one of which an image is missing says which."""
    if images.name not in _CAMERAS:
        raise FormatError(images, f"unknown intrinsics of {images.name}; known: {', '.join(_CAMERAS)}")
    known = _poses(poses)
    names = {*known, *(path.stem for path in images.glob("*.jpg")), *(path.stem for path in depths.glob("*.png"))}
    return [_frame(name, images, depths, known.get(name)) for name in sorted(names, key=_time)]


def _frame(name: str, images: Path, depths: Path, world_T_sensor: Pose | None) -> CameraFrame | MissingFrame:
    colour, depth = images / f"{name}.jpg", depths / f"{name}.png"
    wanted = (("colour image", colour), ("depth image", depth))
    missing = [what for what, path in wanted if not _is_there(path)]
    if missing:
        return MissingFrame(name, f"no {' and no '.join(missing)}")
    return CameraFrame(
        name=name,
        time=_time(name),
        colour=colour,
        depth=depth,
        intrinsics=_CAMERAS[images.name],
        depth_unit=_DEPTH_UNIT,
        furthest=_MAX_DEPTH,
        depth_noise=_DEPTH_NOISE,
        world_T_sensor=world_T_sensor,
    )


def _road(folder: Path) -> Path:
    """The folder that has ``ColorImage``: the given one, or the only such folder in it."""
    if (folder / "ColorImage").is_dir():
        return folder.resolve()  # its sibling has the depth
    roads = sorted(path.parent for path in folder.glob("*/ColorImage") if path.is_dir())
    if not roads:
        raise FormatError(folder, "neither the folder nor its subfolders have a subfolder ColorImage")
    if len(roads) > 1:
        raise FormatError(folder, f"more than one road: name one of {', '.join(road.name for road in roads)}")
    return roads[0]


def _depth_folder(road: Path) -> Path:
    """``Depth`` of the road, or of the folder next to it in which depth is distributed."""
    separate = road.with_name(f"{road.name}_depth")
    candidates = [road / "Depth", separate / "Depth", separate]
    depths = next((path for path in candidates if next(path.glob("Record*"), None) is not None), None)
    if depths is None:
        raise FormatError(road, f"no depth: neither {road.name}/Depth nor {separate.name}/Depth has Record*")
    return depths


def _time(name: str) -> float:
    """Time from ``170927_063811892_Camera_5``: the date, then the time of day in milliseconds."""
    date, _, rest = name.partition("_")
    try:
        day = datetime.strptime(f"{date}{rest[:6]}", "%y%m%d%H%M%S").replace(tzinfo=UTC)
        return day.timestamp() + int(rest[6:9]) / 1000
    except ValueError:
        raise FormatError(name, "expected a name like 170927_063811892_Camera_5") from None


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


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # the name is too long
        return False
