"""RGB-D sequences in the layouts of the TUM benchmark and of 7-Scenes.

TUM: ``rgb/`` and ``depth/``, listed in ``rgb.txt`` and ``depth.txt`` (``time file``) or in ``associations.txt``
(``time file time file``), with depth in 1/5000 m; ``groundtruth.txt``. 7-Scenes: ``frame-000000.color.png``,
``.depth.png`` in millimetres with 65535 for missing values, and ``.pose.txt`` from camera to world. A file
``camera-intrinsics.txt`` with the 3x3 matrix overrides the known intrinsics of the sensors.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from plueckernet.data.datasets.frames import CameraFrame, rigid, rows_of
from plueckernet.errors import FormatError, InputError
from plueckernet.io.source import is_count, is_number, shown
from plueckernet.io.trajectories import read_tum_trajectory

_Intrinsics = tuple[float, float, float, float]

_TUM_CAMERAS: dict[str, _Intrinsics] = {  # by the number in freiburg1 or fr1; from the web page of the benchmark
    "1": (517.3, 516.5, 318.6, 255.3),
    "2": (520.9, 521.0, 325.1, 249.7),
    "3": (535.4, 539.2, 320.1, 247.6),
}
_TUM_DEFAULT: _Intrinsics = (525.0, 525.0, 319.5, 239.5)
_SEVEN_SCENES_CAMERA: _Intrinsics = (585.0, 585.0, 320.0, 240.0)
_TUM_UNIT, _SEVEN_SCENES_UNIT = 1 / 5000, 1 / 1000  # m
_MAX_DEPTH = 6.0  # m; structured light is inaccurate at larger depths
_DEPTH_NOISE = (0.0012, 0.0019)  # m, m^-1; of structured light
_MAX_TIME_DIFFERENCE = 0.02  # s between a colour image and its depth


def tum_sequence(folder: Path, time_offset: float = 0.0) -> list[CameraFrame]:
    """Frames in temporal order, with poses where ``groundtruth.txt`` covers their times.

    The true pose is taken ``time_offset`` seconds after the time of the colour image.
    """
    truth = read_tum_trajectory(folder / "groundtruth.txt") if (folder / "groundtruth.txt").exists() else None
    intrinsics = _intrinsics(folder) or _tum_camera(folder)
    return [
        CameraFrame(
            name=Path(colour).stem,
            time=time,
            colour=folder / colour,
            depth=folder / depth,
            intrinsics=intrinsics,
            depth_unit=_TUM_UNIT,
            furthest=_MAX_DEPTH,
            depth_noise=_DEPTH_NOISE,
            world_T_sensor=None if truth is None else truth.at(time + time_offset),
        )
        for time, colour, depth in _tum_associations(folder)
    ]


def seven_scenes_sequence(folder: Path) -> list[CameraFrame]:
    """Frames in the order of their numbers, which are used as times."""
    intrinsics = _intrinsics(folder) or _SEVEN_SCENES_CAMERA
    frames = []
    for depth in sorted(folder.glob("frame-*.depth.png")):
        name = depth.name.removesuffix(".depth.png")
        colour = next((path for path in sorted(folder.glob(f"{name}.color.*"))), None)
        if colour is None:
            raise FormatError(depth, f"there is no {name}.color.png next to it")
        if not is_count(name.removeprefix("frame-")):
            raise FormatError(depth, "expected a name like frame-000000.depth.png")
        pose = folder / f"{name}.pose.txt"
        frames.append(
            CameraFrame(
                name=name,
                time=float(name.removeprefix("frame-")),
                colour=colour,
                depth=depth,
                intrinsics=intrinsics,
                depth_unit=_SEVEN_SCENES_UNIT,
                furthest=_MAX_DEPTH,
                depth_noise=_DEPTH_NOISE,
                world_T_sensor=rigid(_matrix(pose, 4), pose) if pose.exists() else None,
            )
        )
    if not frames:
        raise FormatError(folder, "the folder has no frame-*.depth.png")
    return frames


def _matrix(path: Path, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    rows = rows_of(path)
    try:
        matrix = np.array([[float(field) for field in fields] for _, fields in rows])
    except ValueError as error:
        raise FormatError(path, f"expected {size} rows of {size} numbers") from error
    if matrix.shape != (size, size) or not np.isfinite(matrix).all():
        raise FormatError(path, f"expected {size} rows of {size} finite numbers, found shape {matrix.shape}")
    return matrix


def _intrinsics(folder: Path) -> _Intrinsics | None:
    path = folder / "camera-intrinsics.txt"
    if not path.exists():
        return None
    matrix = _matrix(path, 3)
    return float(matrix[0, 0]), float(matrix[1, 1]), float(matrix[0, 2]), float(matrix[1, 2])


def _tum_camera(folder: Path) -> _Intrinsics:
    match = re.search(r"(?:freiburg|fr)([123])(?!\d)", folder.resolve().name)
    return _TUM_CAMERAS[match.group(1)] if match else _TUM_DEFAULT


def _tum_associations(folder: Path) -> list[tuple[float, str, str]]:
    """Time, colour file and depth file of each frame."""
    listed = folder / "associations.txt"
    if listed.exists():
        return sorted((_time(row[1][0], listed, row[0]), *_files(row, listed)) for row in rows_of(listed))
    colour, depth = (_tum_list(folder / name) for name in ("rgb.txt", "depth.txt"))
    times = np.array([time for time, _ in depth])
    pairs = []
    for time, file in colour:
        nearest = int(np.abs(times - time).argmin())
        if abs(times[nearest] - time) <= _MAX_TIME_DIFFERENCE:
            pairs.append((time, file, depth[nearest][1]))
    if not pairs:
        raise InputError(f"{folder}: no colour image has a depth image within {_MAX_TIME_DIFFERENCE} s")
    return pairs


def _files(row: tuple[int, list[str]], path: Path) -> tuple[str, str]:
    """Colour and depth file of an association; some tools write the depth first."""
    number, fields = row
    if len(fields) != 4:
        raise FormatError(path, f"expected `time file time file`, found {len(fields)} fields", number)
    first, second = (_inside(fields[column], path, number) for column in (1, 3))
    return (second, first) if first.startswith("depth") else (first, second)


def _tum_list(path: Path) -> list[tuple[float, str]]:
    rows = rows_of(path)
    for number, fields in rows:
        if len(fields) != 2:
            raise FormatError(path, f"expected `time file`, found {len(fields)} fields", number)
    if not rows:
        raise FormatError(path, "the file lists no images")
    return sorted((_time(fields[0], path, number), _inside(fields[1], path, number)) for number, fields in rows)


def _inside(name: str, path: Path, line: int) -> str:
    """The name of a file below the folder of the list; a list must not lead to other files."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise FormatError(path, f"{shown(name)} is not in the folder of the list", line)
    return name


def _time(field: str, path: Path, line: int) -> float:
    time = float(field) if is_number(field) else math.nan
    if not math.isfinite(time):
        raise FormatError(path, f"expected a time in seconds, found {shown(field)}", line)
    return time
