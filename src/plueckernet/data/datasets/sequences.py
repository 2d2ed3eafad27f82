"""A folder of sensor data in any known layout as a sequence of frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from plueckernet.data.datasets.frames import LinesFrame, SensorFrame
from plueckernet.data.datasets.kitti import kitti_sequence
from plueckernet.data.datasets.rgbd import seven_scenes_sequence, tum_sequence
from plueckernet.errors import FormatError, InputError
from plueckernet.io.registry import format_of_suffix
from plueckernet.io.trajectories import read_tum_trajectory

_TRUTH = "groundtruth.txt"


def lines_sequence(folder: Path) -> list[LinesFrame]:
    """The line maps of a folder in alphabetical order; the index is used as the time.

    ``groundtruth.txt`` in the same folder has the poses in the format of TUM, with indices as times.
    """
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and _is_map(path)]
    truth = read_tum_trajectory(folder / _TRUTH) if (folder / _TRUTH).exists() else None
    return [
        LinesFrame(path.stem, float(index), path, None if truth is None else truth.at(float(index)))
        for index, path in enumerate(files)
    ]


LAYOUTS: dict[str, Callable[[Path], Sequence[SensorFrame]]] = {
    "tum": tum_sequence,
    "7scenes": seven_scenes_sequence,
    "kitti": kitti_sequence,
    "lines": lines_sequence,
}


def open_sequence(folder: Path, layout: str | None = None) -> list[SensorFrame]:
    """The frames of a sequence; by default the layout is recognised from the files."""
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"unknown layout {layout!r}; available: {', '.join(LAYOUTS)}")
    if not folder.is_dir():
        raise FormatError(folder, "expected a folder")
    frames = list(LAYOUTS[layout or _recognised(folder)](folder))
    if not frames:
        raise FormatError(folder, "no frames in it: neither TUM, 7-Scenes, KITTI nor files of lines")
    return frames


def _recognised(folder: Path) -> str:
    if (folder / "associations.txt").exists() or ((folder / "rgb.txt").exists() and (folder / "depth.txt").exists()):
        return "tum"
    if next(folder.glob("frame-*.depth.png"), None) is not None:
        return "7scenes"
    if (folder / "velodyne").is_dir():
        return "kitti"
    return "lines"


def _is_map(path: Path) -> bool:
    return path.name != _TRUTH and format_of_suffix(path) is not None
